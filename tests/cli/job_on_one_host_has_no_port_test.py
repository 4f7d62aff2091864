"""A job on one host listens at no port: etcd is reached by a socket in the run
directory, which turns other users away, and neither the agent, nor the next one
after it was killed, nor a worker listens for other hosts. Another agent that
comes by etcd's socket is refused with a sentence; status, events and stop work.

Covers: cli/listen.c private_etcd.c run_cmd.c"""

import glob
import json
import os
import signal
import socket
import sys

from command import (BUILD, Claims, RunDir, find_child, processes_with,
                     wait_for)

DIGITS = [BUILD + "/bin/elastic_digits", "--epochs", "100000", "--step-ms",
          "5"]
NOBODY = 65534


def status(d):
    got = d.run("status", "--json", "J")
    return json.loads(got.stdout) if got.returncode == 0 else {}


def listeners(pid):
    """The TCP ports at which a process listens, as /proc has them."""
    mine = set()
    for fd in glob.glob(f"/proc/{pid}/fd/*"):
        link = os.readlink(fd)
        if link.startswith("socket:["):
            mine.add(link[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            rows = [line.split() for line in list(lines)[1:]]
        found += [row[1] for row in rows if row[3] == "0A" and row[9] in mine]
    return found


def connects(path, uid):
    """Does a process of that user reach the socket?"""
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(uid)
            socket.socket(socket.AF_UNIX).connect(path)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def family(pid):
    """A process and all that it and its children have started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    return sum((family(child) for child in children), [pid])


def ports(job):
    return {pid: listeners(pid) for pid in family(job.pid) if listeners(pid)}


def join(d, record):
    """`regroup agent` of another host on this machine."""
    with open(d.path + "/password", "w") as file:
        file.write(record["password"])
    os.chmod(d.path + "/password", 0o600)
    return d.run("agent", "--etcd", record["endpoints"], "--etcd-user",
                 record["user"], "--etcd-password-file", d.path + "/password",
                 "--job", "J", "--host", "other", *DIGITS)


def is_ready(d):
    now = status(d)
    return now.get("phase") == "running" and \
        all(w["state"] == "member" for h in now["hosts"] for w in h["workers"])


claims = Claims()
with RunDir() as d:
    job = d.start("run", "-n", "2", "--job", "J", *DIGITS)
    wait_for(lambda: is_ready(d), "the job")
    [etcd] = processes_with(f"--data-dir={d.path}/J/")
    claims.hold(etcd in family(job.pid), "etcd is one of the job's")
    claims.equal(ports(job), {}, "ports")
    with open(d.path + "/J/job.json") as file:
        record = json.load(file)
    path = record["endpoints"].removeprefix("unix://")
    claims.hold(path.startswith(d.path + "/J/"), path)
    claims.equal(connects(path, os.getuid()), True, "its owner")
    if os.getuid() == 0:
        claims.equal(connects(path, NOBODY), False, "another user")
    else:
        print("not root: other users are not tried", file=sys.stderr)

    other = join(d, record)
    claims.equal(other.returncode, 64, "another agent's code")
    claims.hold("job J is on one host" in other.stderr, other.stderr)
    claims.hold("--etcd-listen" in other.stderr, other.stderr)

    agent = find_child(job.pid, "regroup")
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: find_child(job.pid, "regroup") not in (0, agent),
             "the next agent")
    os.kill(status(d)["hosts"][0]["workers"][0]["pid"], signal.SIGKILL)
    wait_for(lambda: is_ready(d) and status(d)["generation"] > 1,
             "the world after a worker's and an agent's death")
    claims.equal(ports(job), {}, "ports of those that came later")

    claims.equal(status(d)["etcd"]["state"], "up", "etcd")
    claims.hold("decided" in d.run("events", "--json", "J").stdout, "events")
    claims.equal(d.run("stop", "J").returncode, 0, "stop")
    job.communicate(timeout=60)
    os.unlink(d.path + "/password")
    claims.equal(sorted(os.listdir(d.path)), [".lock", ".story-J"], "left")
claims.end()
