"""A worker of an elastic program that is killed before any worker has called
rg_init: it starts again, as one that is killed later."""
import os
import signal

from house import Job, claim, fault_free, main, trainer, until

TRAIN = ("--steps", 60, "--step-ms", 3)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as name:
            return name.read().strip()
    except OSError:
        return ""


def sleepers(job):
    return [int(pid) for pid in os.listdir("/proc")
            if pid.isdigit() and comm(pid) == "sleep" and job.is_ours(pid)]


def test():
    command = " ".join(trainer(*TRAIN))
    with Job(["--min", "1", "--max", "3"],
             ["sh", "-c", f"sleep 1; exec {command}"]) as job:
        pids = until(lambda: len(sleepers(job)) >= 3 and sleepers(job), 10,
                     "three programs that sleep")
        group = os.getpgid(pids[0])
        os.killpg(group, signal.SIGKILL)
        job.finish()
        claim("restart 1 of 3" in job.text(), "it was not started again")
        job.check(fault_free(*TRAIN))


main(test)
