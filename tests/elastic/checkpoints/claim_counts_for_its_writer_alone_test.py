"""A writer is killed while its claim is on its way to an etcd that is away:
the answer seals no other writer's checkpoint, and every checkpoint that is
called durable exists.

Covers: claim.c"""
import os
import signal

from checkpoints import (descendants, directory, kill_all, shown, stopped,
                         stopped_writer)
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--commit-every", "20", "--save-every", "20",
         "--step-ms", "10")


def go_on(job):
    for pid in stopped(descendants(job.process.pid)):
        os.kill(pid, signal.SIGCONT)


def test():
    with Etcd() as etcd, directory() as path, \
            Job(["-n", "2", "--etcd", etcd.url, "--checkpoint-dir", path],
                trainer(*TRAIN),
                env={"REGROUP_FAILPOINT": "checkpoint.written:stop"}) as job:
        first = stopped_writer(job)
        etcd.kill()
        os.kill(first, signal.SIGCONT)
        job.wait_step(job.step() + 60)  # another checkpoint is asked for
        os.kill(first, signal.SIGKILL)
        job.wait_step(job.step() + 60)  # its writer comes, if it does not wait
        etcd.start()
        second = stopped_writer(job)
        claim(second != first, "the writer that was killed is there")
        until(lambda: job.answer()["etcd"]["state"] == "up", 20, "etcd is back")
        claim(shown(job, "file") is None, "an unsealed checkpoint is durable")
        until(lambda: go_on(job) or shown(job, "file"), 20,
              "a durable checkpoint")
        claim(os.path.exists(shown(job, "file")),
              f"{shown(job, 'file')} is durable, and is not there")
        kill_all(job)


main(test)
