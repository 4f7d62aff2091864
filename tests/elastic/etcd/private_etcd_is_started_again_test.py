"""The etcd of `regroup run` is killed, and a worker with it: etcd comes back at
the same port with the same keys, exactly one change follows, and the job ends
well. Then it is killed three times in a row, and the job still ends well.

Covers: private_etcd.c etcd_child.c child.c"""
import os
import signal
import time

from house import UNTIL_FINISH, Job, claim, main, trainer, until, words_of

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def etcd_of(job):
    """Its process, found by its data directory; None: there is none now."""
    mark = f"--data-dir={job.folder}/"
    return next((pid for pid in map(int, filter(str.isdigit,
                                                os.listdir("/proc")))
                 if any(mark in word for word in words_of(pid))), None)


def kill_etcd(job):
    """Kill it; returns when another one runs."""
    old = until(lambda: etcd_of(job), 20, "an etcd of the job")
    os.kill(old, signal.SIGKILL)
    until(lambda: etcd_of(job) not in (None, old), 20, "etcd starts again")


def start(etcd_flags=()):
    # Without restarts a kill is one change, and not a second one that grows.
    return Job(["--min", "1", "--max", "3", "--max-restarts", "0",
                *etcd_flags], trainer(*TRAIN))


def one_kill():
    with start() as job:
        job.wait_step(50)
        before = job.workers()
        pid = job.pid(1)
        begin = time.monotonic()
        kill_etcd(job)
        os.kill(pid, signal.SIGKILL)
        job.wait_world(2, above=1)
        print(f"a world of 2 steps {time.monotonic() - begin:.2f} s after the "
              "kill of etcd")
        job.finish()
        claim(job.generation() == 2,
              f"{job.generation() - 1} changes instead of one")
        claim("the private etcd ended (signal 9)" in job.text(),
              "its end is not told")
        job.survivors(before, {pid})
        job.check(trained=TRAIN)


def three_kills():
    with start() as job:
        job.wait_step(20)
        for _ in range(3):
            kill_etcd(job)
        job.kill(2)
        job.wait_world(2, above=1)
        job.finish()
        claim(job.text().count("the private etcd ended") == 3,
              "not each end is told once")
        claim(job.generation() == 2, "more than one change")
        job.check(trained=TRAIN)


def test():
    one_kill()
    three_kills()


main(test)
