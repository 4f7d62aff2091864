"""SIGKILL of two at once, then of all: the vault outlives every worker.

Covers: generation.c vault.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 8)


def test():
    with Job(["--min", "1", "--max", "4"], trainer(*TRAIN)) as job:
        job.wait_step(30)
        job.kill_many([1, 2])
        job.wait_world(4, above=1)
        step = job.step()
        job.kill_many([0, 1, 2, 3])
        job.wait_step(step + 20)
        changes = job.answer()["changes"]
        claim(all(c["steps_lost"] == 0 for c in changes),
              f"committed steps were lost: {changes}")
        job.finish()
        job.check(trained=TRAIN)


main(test)
