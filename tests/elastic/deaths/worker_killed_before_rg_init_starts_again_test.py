"""A worker of an elastic program is killed before any worker has called
rg_init: it starts again, like one that is killed later.

Covers: slots.c"""
import os
import signal

from house import Job, claim, fault_free, main, touch, trainer, until

TRAIN = ("--steps", 60, "--step-ms", 3)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as name:
            return name.read().strip()
    except OSError:
        return ""


def shells(job):
    return [int(pid) for pid in os.listdir("/proc")
            if pid.isdigit() and comm(pid) == "sh" and job.is_ours(pid)]


def test():
    command = " ".join(trainer(*TRAIN))
    wait = "until [ -e go ]; do sleep 0.1; done"
    with Job(["--min", "1", "--max", "3"],
             ["sh", "-c", f"{wait}; exec {command}"]) as job:
        pids = until(lambda: len(shells(job)) >= 3 and shells(job), 10,
                     "three programs that wait")
        os.killpg(os.getpgid(pids[0]), signal.SIGKILL)
        touch(os.path.join(job.folder, "go"))
        job.finish()
        claim("restart in 50 ms" in job.text(), "it was not started again")
        job.check(fault_free(*TRAIN))


main(test)
