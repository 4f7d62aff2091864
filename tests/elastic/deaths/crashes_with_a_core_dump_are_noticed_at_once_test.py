"""SIGSEGV with core dumps on: named as a crash, the dump is not cut off, and the
others do not wait for it.

Covers: crash.c"""
import glob
import os
import resource

from house import UNTIL_FINISH, Job, claim, main, trainer

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with Job(["--min", "1", "--max", "3"],
             trainer(*TRAIN, "--ballast", 128),
             env={"REGROUP_FAILPOINT":
                  "commit.before_agree:rank1:step30:start1:gen1:segv"}) as job:
        job.wait_world(2, above=1)
        job.finish()
        claim("crashed with signal 11" in job.text(),
              "the crash is not named")
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as name:
            if hard != 0 and name.read().strip() == "core":
                claim(glob.glob(os.path.join(job.folder, "core*")),
                      "no core was dumped")
        job.check(trained=TRAIN)


main(test)
