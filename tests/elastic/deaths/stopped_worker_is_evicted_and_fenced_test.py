"""SIGSTOP for longer than the budget, in the middle of a zero-copy allreduce,
and SIGCONT at moments around the eviction: the survivors' state is untouched.

Covers: fence.c slots.c"""
import os
import random
import signal
import time

from house import DETECT, UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 2, "--alloc", "--coll-bytes", 1 << 20)


def stop_and_continue(job, rng):
    pid = job.kill(rng.randrange(1, 3), signal.SIGSTOP)
    budget = 0.5
    time.sleep(budget * rng.uniform(0.8, 1.3))  # the moment is the test
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass  # evicted already


def test():
    rng = random.Random(7)
    with Job(["--min", "1", "--max", "3", "--max-restarts", "20"],
             trainer(*TRAIN), detect="500ms") as job:
        for _ in range(4):
            job.wait_world(3)
            step = job.step()
            stop_and_continue(job, rng)
            job.wait_step(step + 10)
        job.finish()
        job.check(trained=TRAIN[:4])
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN), detect=DETECT,
             env={"REGROUP_FAILPOINT": "coll.middle:rank1:gen1:start1:stop"}
             ) as job:
        job.wait_world(2, above=1)
        causes = [c["cause"] for c in job.answer()["changes"]]
        claim(any("silent" in cause for cause in causes),
              f"no worker was called silent: {causes}")
        job.finish()
        job.check(trained=TRAIN[:4])


main(test)
