"""A worker fills its page with random bytes: the agent kills it, and the
agent and the others go on.

Covers: workers.c page.c"""
from house import UNTIL_FINISH, Job, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAIN, "--scribble-at", 40)) as job:
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        job.check(trained=TRAIN)


main(test)
