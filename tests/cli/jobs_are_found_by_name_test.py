"""Jobs are found without flags: a single one by any command, several by name;
a second of the same name is refused; the directory of a dead one is removed.

Covers: jobs.c jobs_cmd.c document.c rundir.c"""

import contextlib
import fcntl
import json
import os
import signal
import time

from command import BUILD, Claims, RunDir, wait_for

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]


def is_stepping(d, job):
    got = d.run("status", "--json", job)
    if got.returncode != 0:
        return False
    status = json.loads(got.stdout)
    steps = [w["step"] for h in status["hosts"] for w in h["workers"]]
    return status["phase"] == "running" and all(steps)


def names(d):
    return [j["job"] for j in json.loads(d.run("jobs", "--json").stdout)]


claims = Claims()
with RunDir() as d:
    first = d.start("run", "-n", "1", "--job", "first", *DIGITS)
    wait_for(lambda: is_stepping(d, "first"), "the first job's steps")
    mode = os.stat(d.path + "/first").st_mode & 0o777
    claims.equal(mode, 0o700, "the directory's mode")
    mode = os.stat(d.path + "/first/job.json").st_mode & 0o777
    claims.equal(mode, 0o600, "the record's mode")
    with open(d.path + "/first/job.json") as file:
        record = json.load(file)
    claims.equal((record["job"], record["pid"]), ("first", first.pid),
                 "the record")

    status = json.loads(d.run("status", "--json").stdout)
    for field in ("job", "generation", "phase", "leader", "min", "max",
                  "hosts", "changes", "etcd", "vault_bytes"):
        claims.hold(field in status, f"status has {field}")
    for field in ("rank", "slot", "pid", "step"):
        claims.hold(field in status["hosts"][0]["workers"][0],
                    f"a worker has {field}")
    for field in ("generation", "at", "cause", "from_size", "to_size",
                  "steps_lost", "fault_to_step_ms"):
        claims.hold(field in status["changes"][0], f"a change has {field}")
    text = d.run("status").stdout
    claims.hold(text.startswith("job first: generation 1 running"), text)

    got = d.run("run", "-n", "1", "--job", "first", "true")
    claims.equal(got.returncode, 64, "a second job of the name")
    claims.hold("`regroup stop first`" in got.stderr, got.stderr)
    claims.hold(is_stepping(d, "first"), "the first goes on")

    second = d.start("run", "-n", "1", "--job", "second", *DIGITS)
    wait_for(lambda: is_stepping(d, "second"), "the second job's steps")
    claims.equal(names(d), ["first", "second"], "jobs")
    for command in ("status", "stop"):
        got = d.run(command)
        claims.equal((got.returncode, got.stdout), (64, ""), command)
        claims.hold("first, second" in got.stderr, got.stderr)
    got = d.run("stop", "secnod")
    claims.equal(got.returncode, 64, "no such job")
    claims.hold("did you mean second?" in got.stderr, got.stderr)

    got = d.run("stop", "second")
    claims.equal((got.returncode, got.stdout),
                 (0, "job second has stopped\n"), got.stderr)
    claims.equal(second.poll(), 143, "its code, at once")
    claims.equal(names(d), ["first"], "jobs")
    claims.equal(os.path.exists(d.path + "/second"), False, "its directory")

    # A job whose processes were all killed leaves a directory, but no lock.
    pids = [first.pid]
    pids += [w["pid"] for h in status["hosts"] for w in h["workers"]]
    claims.hold(min(pids) > 1, f"processes {pids}")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it went with the first
            os.kill(pid, signal.SIGKILL)
    first.wait(60)
    wait_for(lambda: names(d) == [], "the end of the dead job's agent")
    claims.equal(os.path.exists(d.path + "/first"), True, "what it left")
    got = d.run("run", "-n", "1", "--job", "third", "true")
    claims.equal((got.returncode, got.stderr), (0, ""), "the next job")
    left = {name.split("-")[0] for name in os.listdir(d.path)}
    claims.equal(left, {".lock", ".story"}, "what it cleared away")

    # An agent that was killed holds its locks for a moment longer.
    os.mkdir(d.path + "/fourth", 0o700)
    with open(d.path + "/fourth/job.lock", "w") as dying:
        fcntl.lockf(dying, fcntl.LOCK_EX)
        fourth = d.start("run", "-n", "1", "--job", "fourth", "true")
        time.sleep(0.4)
    claims.equal(fourth.wait(30), 0, "a job begun while the last one dies")

    os.mkdir(d.path + "/mine", 0o700)
    with open(d.path + "/mine/precious", "w"):
        pass
    got = d.run("run", "-n", "1", "--job", "mine", "true")
    claims.equal(got.returncode, 64, "a foreign directory in the way")
    claims.hold("mine is in the way" in got.stderr, got.stderr)
    claims.equal(os.listdir(d.path + "/mine"), ["precious"], "what lies there")
claims.end()
