"""A newcomer dies while its announced generation is built: the others go on in
theirs until the next step end, and no step is lost.

Covers: generation.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 8, "--commit-every", 20)


def test():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN), env={
            "REGROUP_FAILPOINT": "door:start2:sleep300,build:start2:kill"}
             ) as job:
        job.wait_step(25)
        job.kill(2)
        job.wait_world(3, above=2)
        worker = job.workers()[2]
        claim(worker["start"] == 3, f"the newcomer did not die: {worker}")
        changes = job.answer()["changes"]
        claim(all(c["steps_lost"] == 0 for c in changes[2:]),
              f"a newcomer's death rolled steps back: {changes}")
        job.finish()
        job.check(trained=TRAIN)


main(test)
