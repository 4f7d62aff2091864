"""Exit codes of `regroup run`, and what is left behind: nothing.

Covers: run_cmd.c exits.c goodbye.c child.c"""

import contextlib
import glob
import json
import os
import re
import signal
import time

from command import (BUILD, Claims, RunDir, find_child, processes_with,
                     wait_for)

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]


def workers(d):
    got = d.run("status", "--json")
    if got.returncode != 0:
        return []
    status = json.loads(got.stdout)
    found = [w for h in status["hosts"] for w in h["workers"]]
    return found if all(w["step"] for w in found) else []


def start_training(d, *flags):
    """The job, and its two workers once they step."""
    job = d.start("run", "-n", "2", *flags, *DIGITS)
    found = []
    def look():
        found[:] = workers(d)
        return len(found) == 2
    wait_for(look, "two workers that step")
    return job, found


def kill_child(parent, name, signum):
    pid = find_child(parent, name)
    if claims.hold(pid > 0, f"{parent} has a child called {name}"):
        os.kill(pid, signum)


def kill_agent(job):
    """If there is one: a child with a process group of its own, unlike what a
    sanitizer forks when the job's process ends."""
    agent = find_child(job.pid, "regroup")
    with contextlib.suppress(OSError):
        if agent and os.getpgid(agent) == agent:
            os.kill(agent, signal.SIGKILL)


def nothing_is_left(d, what):
    claims.equal(processes_with(d.path), [], f"processes left after {what}")
    left = [n for n in os.listdir(d.path) if not n.startswith(".story-")]
    claims.equal(left, [".lock"], f"files left after {what}")


claims = Claims()
with RunDir() as d:
    for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)):
        got = d.run("run", "-n", "1", "sh", "-c", script)
        claims.equal(got.returncode, code, script)
        nothing_is_left(d, script)

    foreign = d.path + "/.story-foreign"
    with open(BUILD + "/bin/hello", "rb") as hello, open(foreign, "wb") as to:
        to.write(hello.read(18) + b"\xff\xff" + hello.read()[2:])
    os.chmod(foreign, 0o700)
    for name in foreign, os.path.basename(foreign):
        got = d.run("run", "-n", "1", name,
                    env={"PATH": d.path + ":" + os.environ["PATH"]})
        claims.equal(got.returncode, 126, "a program of another machine")
        claims.hold("can't be run: Exec format error" in
                    got.stdout + got.stderr, got.stdout + got.stderr)
        nothing_is_left(d, "a program of another machine")

    got = d.run("run", "-n", "2", BUILD + "/bin/hello")
    claims.equal(got.returncode, 0, f"hello: {got.stderr}")
    claims.hold(re.search(r"^\S+\.0 r0 \| rank 0 of 2", got.stdout, re.M),
                got.stdout)

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        job, _ = start_training(d)
        job.send_signal(signum)
        _, said = job.communicate(timeout=60)
        claims.equal(job.returncode, 128 + signum, signum.name)
        claims.hold(f"signal {int(signum)}" in said, said)
        nothing_is_left(d, signum.name)

    # The agent dies as often as it is started: its workers end by themselves,
    # and are waited for.
    job, found = start_training(d, "--agent-grace", "500ms")
    pids = [w["pid"] for w in found]
    until = time.monotonic() + 120
    while job.poll() is None and time.monotonic() < until:
        kill_agent(job)
        time.sleep(0.01)
    _, said = job.communicate(timeout=60)
    claims.equal(job.returncode, 137, "a killed agent")
    claims.hold("agent" in said and "signal 9" in said, said)
    for pid in pids:
        claims.equal(os.path.exists(f"/proc/{pid}"), False, f"worker {pid}")
    nothing_is_left(d, "a killed agent")

    # The private etcd dies, and its data go: it stays away, training goes on,
    # and the job can be stopped.
    job, found = start_training(d)
    before = min(w["step"] for w in found)
    data = glob.glob(d.path + "/*/etcd/member")[0]
    kill_child(job.pid, "etcd", signal.SIGSTOP)  # it is not to see what goes
    os.rename(data, data + ".lost")
    kill_child(job.pid, "etcd", signal.SIGKILL)
    wait_for(lambda: find_child(job.pid, "etcd") == 0, "etcd's end")
    wait_for(lambda: min(w["step"] for w in workers(d) or [{"step": 0}])
             > before + 50, "50 steps without etcd")
    got = d.run("stop")
    claims.equal(got.returncode, 0, got.stderr)
    _, said = job.communicate(timeout=60)
    claims.equal(job.returncode, 143, "stopped without etcd")
    claims.hold("the private etcd ended (signal 9); its data are gone" in said,
                said)
    nothing_is_left(d, "a killed etcd")

    # `regroup run` itself dies: the kernel ends etcd and has the agent stop.
    job, _ = start_training(d)
    job.kill()
    job.wait(60)
    wait_for(lambda: processes_with(d.path) == [], "the end of what it had started")
    got = d.run("jobs", "--json")
    claims.equal(json.loads(got.stdout), [], "jobs")

    # A caller's ETCD_ variables are meant for another etcd.
    got = d.run("run", "-n", "1", "true",
                env={"ETCD_LISTEN_CLIENT_URLS": "http://127.0.0.1:1",
                     "ETCD_FORCE_NEW_CLUSTER": "nonsense"})
    claims.equal(got.returncode, 0, f"ETCD_ variables: {got.stderr}")
claims.end()
