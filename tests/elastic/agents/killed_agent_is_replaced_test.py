"""SIGKILL of the agent, again and again while workers train: the next one
takes them over, no worker dies, no generation ends, and the training is as if
nothing had happened. A worker that connects to its socket is told its own
number.

Covers: supervisor.c takeover.c"""
import glob
import os
import signal
import socket
import struct

from house import UNTIL_FINISH, Job, claim, fault_free, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
SHORT = ("--steps", 40, "--step-ms", 2, "--bytes", 300000)


def kill_agent(job):
    pid = job.agent()
    os.kill(pid, signal.SIGKILL)
    until(lambda: job.process.poll() is not None or
          job.agent() not in (None, pid), 10, "another agent")
    until(lambda: job.process.poll() is not None or job.status(), 10,
          "its status, or the job's end")


def descriptors(job):
    """How many the supervisor and the agent have open."""
    return [len(os.listdir(f"/proc/{pid}/fd"))
            for pid in (job.process.pid, job.agent())]


def number_at_the_socket(job):
    """`regroup stop` waits for that process."""
    found = glob.glob(os.path.join(job.folder, "run", job.name, "agent-*.sock"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(found[0])
        return struct.unpack("3i", sock.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def within(place):
    """The kill comes while a worker is in the middle of something."""
    with Job(["--min", "1", "--max", "3"], trainer(*SHORT, "--commit-every", 5),
             env={"REGROUP_FAILPOINT": place + ":start1:sleep400"}) as job:
        until(lambda: job.alive() and "strikes" in job.text(), 20, place)
        kill_agent(job)
        job.finish()
        claim(job.generation() == 1, f"{place}: a generation ended")
        job.check(fault_free(*SHORT))


def test():
    for place in ("coll.start:rank1:step5", "step_end:rank0:step9",
                  "commit.copy:rank2:step10", "commit.before_agree:rank0:step0",
                  "commit.after_agree:rank1:step20", "finish:rank1"):
        within(place)
    again_and_again()


def again_and_again():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN)) as job:
        job.wait_step(30)
        before = job.workers()
        held = descriptors(job)
        for _ in range(3):
            step = job.step()
            kill_agent(job)
            job.wait_step(step + 20)
        claim(number_at_the_socket(job) == job.agent(), "that of a dead one")
        now = descriptors(job)  # an agent has some more to etcd at times
        claim(now[0] == held[0] and now[1] <= held[1] + 3,
              f"descriptors are leaked: {held}, then {now}")
        claim(job.workers().keys() == before.keys(),
              "the world is another than before")
        job.finish()
        job.survivors(before)
        claim(job.generation() == 1, "a generation ended with the agent")
        job.check(trained=TRAIN)


main(test)
