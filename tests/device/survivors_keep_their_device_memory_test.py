"""SIGKILL of a worker in mid-allreduce on the device: the others keep process,
context and device memory, go on with new communicators, and end with the sum
of a run without faults.

Covers: reclaim.c lanes.c root.c"""
from device import DeviceJob, reducer
from house import UNTIL_FINISH, claim, main


def total(steps):
    """What reducer has added up after so many steps."""
    return sum((2 * step % 1000) * k + 1
               for step in range(1, steps + 1) for k in range(48))


def train(job, lost):
    before = job.workers()
    killed = job.kill(lost)
    job.wait_world(2, above=1)
    job.wait_world(3, above=2)
    job.finish()
    job.survivors(before, {killed})
    job.check()
    job.check_device()
    steps, state = job.final_state()
    claim(int(state, 16) == total(int(steps)), "the sum is another one")
    kept = job.text().count("device kept through 3 generations")
    claim(kept == 2, f"{kept} of 2 survivors have kept their device memory")


def test():
    for flags, lost in (((), 2), (("--set",), 0)):
        with DeviceJob(["--min", "1", "--max", "3"],
                       reducer(*UNTIL_FINISH, *flags)) as job:
            job.wait_step(20)
            train(job, lost)


main(test)
