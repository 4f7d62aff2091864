"""-n N is min = max = N: a kill pauses the job until the slot is filled again,
and the replacement in the very next generation inherits the rank.

Covers: plan.c leader.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    with Job(["-n", "3"], trainer(*TRAIN)) as job:
        job.wait_step(20)
        job.kill(1)
        job.wait_world(3, above=1)
        worker = job.workers()[1]
        claim(worker["slot"] == 1 and worker["start"] == 2,
              f"the replacement did not inherit rank 1: {worker}")
        job.finish()
        claim({e["size"] for e in job.events("step")} == {3},
              "steps were made in a world of another size")
        job.check(trained=TRAIN)


main(test)
