"""etcd away while a checkpoint is written: the file is whole, counts for nothing
and waits; training goes on; when etcd is back it is published, and the newest
request that came meanwhile is next.

Covers: saver.c claim.c"""

import os
import signal

from checkpoints import (directory, names, steps, stop_writer_of,
                         stopped_writer)
from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

FLAGS = ("--commit-every", "20", "--save-every", "20")


def test():
    with Etcd() as etcd, directory() as path, \
            Job(["-n", "2", "--etcd", etcd.url, "--checkpoint-dir", path],
                trainer(*UNTIL_FINISH, *FLAGS, "--step-ms", "10"),
                env=stop_writer_of(40, 60)) as job:
        writer = stopped_writer(job)
        etcd.kill()
        os.kill(writer, signal.SIGCONT)
        job.wait_step(100)
        claim(steps(path) == [20], f"{steps(path)} are published without etcd")
        claim(steps(path, ".part") == [40],
              f"{names(path, '.part')} is there, not the one that waits")
        before = job.step()
        etcd.start()
        until(lambda: 40 in steps(path), 30, "the one that waited")
        later = until(lambda: [s for s in steps(path) if s > 40], 30,
                      "the next one")
        claim(later[0] >= before // 20 * 20,
              f"step {later[0]} was next, but {before} had ended by then")
        job.finish()
        last = int(job.final_state()[0]) // 20 * 20
        claim(steps(path)[-1] == last, f"{steps(path)} are there at the end")
        claim(not names(path, ".part"), "a .part file was left")
        claim(job.generation() == 1, "the outage changed the membership")
        job.check(trained=FLAGS)


main(test)
