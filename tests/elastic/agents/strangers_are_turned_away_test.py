"""Only our uid may talk to an agent. And the job's key is in no worker's
environment and in no file of the run directory.

Covers: guests.c workers.c wire.c"""
import os
import re
import socket

from house import Etcd, Job, claim, main, skip, trainer


def knock(path):
    """As another user, through a descriptor that root opened; what came back
    before the agent closed."""
    fd = os.open(path, os.O_PATH)
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(5)
            try:
                sock.connect(f"/proc/self/fd/{fd}")
                os._exit(1 if sock.recv(64) else 0)
            except socket.timeout:
                os._exit(2)
            except OSError:
                os._exit(0)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def key_of(etcd):
    meta = etcd.get("/regroup/v1/test/meta")
    return re.search(rb'"key":"([0-9a-f]{64})"', meta)[1]


def test():
    if os.geteuid() != 0:
        skip("only root can become another user")
    with Etcd() as etcd, Job(["-n", "1", "--etcd", etcd.url],
                             trainer("--steps", 100000)) as job:
        job.wait_step(5)
        run = os.path.join(job.folder, "run", "test")
        agent = [name for name in os.listdir(run) if name.endswith(".sock")][0]
        claim(knock(os.path.join(run, agent)) == 0,
              "the agent did not turn a stranger away")
        key = key_of(etcd)
        pid = job.pid(0)
        with open(f"/proc/{pid}/environ", "rb") as environ:
            claim(key not in environ.read(), "the key is in the environment")
        for name in os.listdir(run):
            path = os.path.join(run, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    claim(key not in file.read(), f"the key is in {name}")


main(test)
