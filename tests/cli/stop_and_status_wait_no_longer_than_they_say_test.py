"""`stop --timeout` ends when it is over, though the job still runs; `status`
of a stopped agent ends too, and says so.

Covers: jobs_cmd.c ask.c follow.c"""

import json
import os
import signal
import time

from command import Claims, RunDir, find_child, wait_for

STUBBORN = "trap '' TERM; echo here >&2; while :; do sleep 1; done"


claims = Claims()
with RunDir() as d:
    job = d.start("run", "-n", "1", "--job", "J", "sh", "-c", STUBBORN)
    wait_for(lambda: d.run("status").returncode == 0, "an agent that answers")
    # the trap is set, behind what the agent may have to say
    claims.hold(any(line.endswith("here\n") for line in
                    iter(job.stderr.readline, "")), "it is not here")

    agent = find_child(job.pid, "regroup")
    claims.hold(agent > 0, "an agent")
    os.kill(agent, signal.SIGSTOP)
    got = d.run("status")
    os.kill(agent, signal.SIGCONT)
    claims.equal(got.returncode, 69, "status of a stopped agent")
    claims.hold("stopped or stuck" in got.stderr, got.stderr)

    began = time.monotonic()
    got = d.run("stop", "--timeout", "100ms")
    claims.equal((got.returncode, got.stdout), (1, ""), "a stop in 100 ms")
    claims.hold("still runs after 100 ms" in got.stderr, got.stderr)
    claims.hold(time.monotonic() - began < 4, "it did not wait")
    claims.equal([j["job"] for j in json.loads(d.run("jobs", "--json").stdout)],
                 ["J"], "the job is still there")
    job.communicate(timeout=60)
    claims.equal(job.returncode, 143, "its code, after SIGKILL")
claims.end()
