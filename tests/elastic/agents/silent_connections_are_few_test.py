"""Hundreds of connections to the agent's socket send nothing, or rubbish: the
agent keeps few of them, its log stays short, the job goes on, and commands
get answers.

Covers: guests.c accept.c"""
import os
import socket

from house import UNTIL_FINISH, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
MANY = 600


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(path)
    return sock


def count_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rubbish(path):
    """What comes back."""
    with connect(path) as sock:
        sock.settimeout(10)
        sock.send(b"0123456789")
        return sock.recv(4096)


def test():
    with Job(["-n", "2"], trainer(*TRAIN)) as job:
        job.wait_step(20)
        path = os.path.join(job.folder, "run", job.name, "agent-" +
                            job.answer()["hosts"][0]["id"] + ".sock")
        agent = job.agent()
        before = count_fds(agent)
        silent = [connect(path) for _ in range(MANY)]
        claim(job.status() is not None, "no answer beside them")
        claim(count_fds(agent) < before + 150,
              f"the agent holds {count_fds(agent)} descriptors, {before} before")
        for sock in silent:
            sock.close()
        until(lambda: count_fds(agent) <= before + 5, 20, "their end")
        for _ in range(40):
            claim(b"not Regroup's" in rubbish(path), "no refusal")
        said = job.text().count("a worker is refused")
        claim(0 < said <= 8, f"{said} lines were logged")
        pid = job.kill(1)
        until(lambda: job.pid(1) not in (None, pid), 20, "the replacement")
        job.finish()
        job.check(trained=TRAIN)


main(test)
