"""A newcomer that works for 5 s before the door: no worker waits for it.

Covers: door.c generation.c"""
from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN),
             env={"REGROUP_FAILPOINT": "door:start2:sleep5000"}) as job:
        job.wait_step(30)
        job.kill(2)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        times = [e["t_ns"] for e in job.events("step")
                 if e["rank"] == 0 and e["generation"] == 2]
        gap = max(b - a for a, b in zip(times, times[1:])) / 1e9
        claim(len(times) > 10 and gap < 2.5,
              f"{len(times)} steps, the longest gap was {gap} s")
        job.finish()
        job.check(trained=TRAIN)


main(test)
