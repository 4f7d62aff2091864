"""A worker killed while etcd is away: no worker trains until etcd is back, and
then there is exactly one change, in which the replacement is in already.

Covers: publish.c leader.c"""
import os
import signal
import time

from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    with Etcd() as etcd, \
            Job(["--min", "1", "--max", "3", "--etcd", etcd.url],
                trainer(*TRAIN), env={"REGROUP_LOG": "debug"}) as job:
        job.wait_step(50)
        lost = job.pid(1)
        etcd.kill()
        os.kill(lost, signal.SIGKILL)
        until(lambda: job.text().count(".1 is at the door") == 2, 20,
              "the replacement is at the door")
        step = job.step()
        time.sleep(1)  # no worker may step in it
        claim(job.step() == step, "a worker trained in an aborted generation")
        etcd.start()
        job.wait_step(step + 20)
        job.finish()
        claim(job.generation() == 2,
              f"{job.generation() - 1} changes instead of one")
        job.check(trained=TRAIN)


main(test)
