"""`regroup agent` with only an etcd and a name: it begins the job, ends with
it, refuses a second agent for its host, and leaves nothing behind.

Covers: agent_cmd.c open_job.c"""

import json
import os

from command import BUILD, Claims, RunDir, wait_for

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]


def phase(d, job):
    got = d.run("status", "--json", job)
    return json.loads(got.stdout)["phase"] if got.returncode == 0 else None


claims = Claims()
with RunDir() as d:
    lender = d.start("run", "-n", "1", "--job", "lender", *DIGITS)
    wait_for(lambda: phase(d, "lender") == "running", "an etcd to borrow")
    with open(d.path + "/lender/job.json") as file:
        record = json.load(file)
    with open(d.path + "/.password", "w") as file:
        file.write(record["password"])
    login = ["--etcd", record["endpoints"], "--etcd-user", record["user"],
             "--etcd-password-file", d.path + "/.password"]

    got = d.run("agent", *login, "--job", "J", "-n", "2", "--host", "h7",
                BUILD + "/bin/hello")
    claims.equal(got.returncode, 0, got.stderr)
    claims.equal(got.stdout.count(" of 2 on host h7"), 2, got.stdout)

    agent = d.start("agent", *login, "--job", "J", "-n", "1", "--host", "h7",
                    *DIGITS)
    wait_for(lambda: phase(d, "J") == "running", "the agent's job")
    got = d.run("agent", *login, "--job", "J", "-n", "1", "--host", "h7",
                *DIGITS)
    claims.equal(got.returncode, 64, "a second agent of the host")
    claims.hold("another --host" in got.stderr, got.stderr)
    got = d.run("run", *login, "--job", "J", "-n", "1", *DIGITS)
    claims.equal(got.returncode, 64, "a run of the same name here")
    claims.hold("`regroup stop J`" in got.stderr, got.stderr)

    # In another run directory only etcd knows that the job runs.
    with RunDir() as other:
        got = other.run("run", *login, "--job", "J", "-n", "1", *DIGITS)
        claims.equal(got.returncode, 69, "a run of the same name elsewhere")
        claims.hold("J runs already" in got.stderr, got.stderr)

    claims.equal(d.run("stop", "J").returncode, 0, "stop")
    _, said = agent.communicate(timeout=60)
    claims.equal(agent.returncode, 143, said)
    claims.equal(d.run("stop", "lender").returncode, 0, "stop")
    lender.communicate(timeout=60)
    left = [n for n in os.listdir(d.path) if not n.startswith(".story-")]
    claims.equal(sorted(left), [".lock", ".password"], "left")
claims.end()
