"""The etcd of a job on one host: only who enters the job's run directory speaks
to it. It listens at no port, other users of the machine are turned away by the
directory, and status, events and stop work."""

import glob
import json
import os
import socket
import sys

from command import BUILD, Claims, RunDir, processes_with, wait_for

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


claims = Claims()
with RunDir() as d:
    job = d.start("run", "-n", "1", "--job", "J", *DIGITS)
    wait_for(lambda: status(d).get("phase") == "running", "the job")
    [etcd] = processes_with(f"--data-dir={d.path}/J/")
    claims.equal(listeners(etcd), [], "ports of etcd")
    with open(d.path + "/J/job.json") as file:
        endpoint = json.load(file)["endpoints"]
    path = endpoint.removeprefix("unix://")
    claims.hold(path.startswith(d.path + "/J/"), endpoint)
    claims.equal(connects(path, os.getuid()), True, "its owner")
    if os.getuid() == 0:
        claims.equal(connects(path, NOBODY), False, "another user")
    else:
        print("not root: other users are not tried", file=sys.stderr)
    claims.equal(status(d)["etcd"]["state"], "up", "etcd")
    claims.hold("decided" in d.run("events", "--json", "J").stdout, "events")
    claims.equal(d.run("stop", "J").returncode, 0, "stop")
    job.communicate(timeout=60)
    claims.equal(sorted(os.listdir(d.path)), [".lock"], "left")
claims.end()
