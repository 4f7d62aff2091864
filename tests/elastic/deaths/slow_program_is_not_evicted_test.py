"""A rank that computes for 5 s through a change of membership is waited for: its
Regroup thread answers for it.

Covers: thread.c slots.c"""
from house import Job, claim, fault_free, main, trainer

TRAIN = ("--steps", 60, "--step-ms", 2)


def test():
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAIN, "--compute-at", 20, "--compute-ms", 5000),
             detect="1s") as job:
        job.wait_step(19)
        before = job.workers()
        lost = job.kill(0)  # while the last rank computes
        job.finish()
        job.survivors(before, {lost})
        claim(all("silent" not in line for line in job.text().splitlines()),
              "a computing worker was called silent")
        job.check(fault_free(*TRAIN))


main(test)
