"""A state of 64 MiB of which steps change little: a worker that replaces a
killed one has copied it before the world changed, and so has one that waited as
a spare; ranks that train wait only for what changed. A newcomer that is killed
while it copies is one start more.

Covers: ahead.c run.c door.c"""
import re

from house import UNTIL_FINISH, Job, claim, main, trainer, until

STATE = 64 << 20
BLOCK = 256 << 10
TRAIN = (*UNTIL_FINISH, "--step-ms", 20, "--frozen", 64)
SAID = re.compile(r"(\d+) bytes of commit \S+ were copied before the world")


def copied_ahead(job):
    return [int(n) for n in SAID.findall(job.text())]


def await_more(job, n):
    until(lambda: len(copied_ahead(job)) > n, 30, "a newcomer's line")
    bytes_ahead = copied_ahead(job)[n]
    claim(bytes_ahead >= STATE - 2 * BLOCK,
          f"only {bytes_ahead} bytes were copied before the world changed")


def test():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN), env={
            "REGROUP_FAILPOINT": "ahead:start2:kill"}) as job:
        job.wait_step(10)
        job.kill(1)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        await_more(job, 0)
        worker = job.workers()[2]
        claim(worker["start"] == 3, f"the newcomer did not die: {worker}")
        claim(all(c["steps_lost"] == 0 for c in job.answer()["changes"][2:]),
              "a join rolled steps back")
        job.run("scale", "--max", "2", job.name)
        job.wait_world(2, above=job.generation())
        job.run("scale", "--max", "3", job.name)
        await_more(job, 1)
        job.finish()
        job.check(trained=TRAIN)


main(test)
