"""Commits every 10 steps and a join in between: the step end before the change
becomes a commit, and no step is done twice.

Covers: generation.c door.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

EVERY = 10
TRAIN = (*UNTIL_FINISH, "--step-ms", 5, "--commit-every", EVERY)


def join_between_commits():
    """False: the join came just at a commit, which proves nothing."""
    with Job(["--min", "1", "--max", "3", "--start-timeout", "1s"],
             trainer(*TRAIN),
             env={"REGROUP_FAILPOINT": "door:start2:sleep300"}) as job:
        job.wait_step(25)
        job.kill(1)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        changes = {e["generation"]: e["resume"] for e in job.events("decide")}
        join = max(changes)
        claim(changes[join][0] == join - 1,
              f"the join resumed from {changes[join]}")
        done = [e["step"] for e in job.events("step")
                if e["generation"] >= join - 1 and e["worker"].endswith(".0")]
        claim(len(done) == len(set(done)), "a step was done twice")
        job.check(trained=TRAIN)
        return changes[join][1] % EVERY != 0


def test():
    claim(any(join_between_commits() for _ in range(8)),
          "eight joins came just at a commit")


main(test)
