"""A rank that computes for 5 s through a change of membership is waited for: its
Regroup thread answers for it.

Covers: thread.c slots.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 2)


def computes_through_a_kill():
    """false: the kill came late, and the rank has stopped computing."""
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAIN, "--compute-at", 20, "--compute-ms", 5000),
             detect="1s") as job:
        job.wait_step(19)
        before = job.workers()
        lost = job.kill(0)
        is_in_time = job.step() < 20
        job.wait_step(40)
        job.finish()
        job.survivors(before, {lost})
        claim(all("silent" not in line for line in job.text().splitlines()),
              "a computing worker was called silent")
        job.check(trained=TRAIN[:2])
        return is_in_time


def test():
    claim(any(computes_through_a_kill() for _ in range(5)),
          "no rank was killed within 5 s")


main(test)
