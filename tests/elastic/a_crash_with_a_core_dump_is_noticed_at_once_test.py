"""SIGSEGV with core dumps on and 1 GiB to dump: named as a crash, and the others
do not wait for the dump."""
import resource
import time

from house import Job, claim, fault_free, main, trainer

TRAIN = ("--steps", 200, "--step-ms", 5)


def test():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with Job(["--min", "1", "--max", "3"],
             ["env", "-C", "/tmp", *trainer(*TRAIN, "--ballast", 256)],
             env={"REGROUP_FAILPOINT": "step_end:rank1:step30:start1:segv"}
             ) as job:
        job.wait_world(2, above=1)
        change = job.status()["changes"][1]
        claim("signal 11" in change["cause"],
              f"the crash is not named: {change}")
        job.finish()
        job.check(fault_free(*TRAIN))


main(test)
