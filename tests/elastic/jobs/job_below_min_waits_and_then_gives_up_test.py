"""Fewer workers than --min: the job waits for --elastic-timeout, then ends with
75 and says why.

Covers: leader.c plan.c"""
from house import Job, claim, main, trainer


def test():
    with Job(["-n", "2", "--elastic-timeout", "1500ms"],
             trainer("--steps", 100000, "--step-ms", 5),
             env={"REGROUP_FAILPOINT": "door:start2:sleep60000"}) as job:
        job.wait_step(20)
        job.kill(1)
        job.finish(75)
        claim("-n 2" in job.text() and "--elastic-timeout" in job.text(),
              "the end is not explained")
        job.check()


main(test)
