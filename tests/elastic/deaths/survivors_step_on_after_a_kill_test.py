"""SIGKILL of one of four: the others keep their processes, the world shrinks at
once and grows back, and the final state is the fault-free run's.

Covers: generation.c deathwatch.c leader.c view.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 8)


def test():
    for rank in (3, 0):
        with Job(["--min", "1", "--max", "4"], trainer(*TRAIN)) as job:
            job.wait_step(30)
            before = job.workers()
            lost = job.kill(rank)
            job.wait_world(3, above=1)
            job.wait_world(4, above=2)
            changes = job.answer()["changes"]
            claim([c["to_size"] for c in changes[:3]] == [4, 3, 4],
                  f"the world did not shrink and grow back: {changes}")
            claim(all(c["steps_lost"] == 0 for c in changes),
                  f"committed steps were lost: {changes}")
            job.finish()
            job.survivors(before, {lost})
            job.check(trained=TRAIN)


main(test)
