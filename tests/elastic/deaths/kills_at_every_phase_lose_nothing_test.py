"""SIGKILL by failpoint at each place of a step, a commit and a recovery: the
final state is the fault-free run's and no committed step is lost.

Covers: generation.c save.c register.c"""
import sys

from house import Job, claim, fault_free, main, trainer

TRAIN = ("--steps", 30, "--step-ms", 2, "--bytes", 300000)
LARGE = ("--coll-bytes", 1 << 20)  # more than one piece of work
STEPS = [
    "coll.start:rank1:gen1:start1:kill",
    "coll.middle:rank2:gen1:start1:kill",
    "step_end:rank1:step9:start1:kill",
    "commit.copy:rank2:step10:start1:kill",
    "commit.before_agree:rank3:step10:start1:kill",
    "commit.after_agree:rank0:step10:start1:kill",
    "commit.after_agree:rank0:step10:start1:kill,"
    "commit.after_agree:rank2:step10:start1:kill",
]
CHANGES = [
    "commit.before_agree:rank1:step0:start1:kill",  # before commit 0
    "sync:rank0:gen1:start1:kill",
    "build:rank1:gen1:start1:kill",
    "decided:rank2:gen1:start1:kill",
    # a second failure while the first is being recovered from
    "step_end:rank3:step9:start1:kill,build:rank1:gen2:start1:kill",
    "step_end:rank3:step9:start1:kill,decided:rank0:gen2:start1:kill",
    "step_end:rank3:step9:start1:kill,sync:rank1:gen2:start1:kill",
    "finish:rank1:start1:kill",  # between the last commit and exit
    "fin:rank2:start1:kill",
]


def test():
    points = {"steps": STEPS, "changes": CHANGES}[sys.argv[1]]
    for point in points:
        run(point, ())
    if points is STEPS:
        # staged; direct
        for extra in (LARGE, (*LARGE, "--alloc"), (*LARGE, "--registered")):
            run("coll.middle:rank1:gen1:start1:kill", extra)


def run(point, extra):
    print(point, *extra, flush=True)
    with Job(["--min", "1", "--max", "4", "--start-timeout", "20s"],
             trainer(*TRAIN, *extra, "--commit-every",
                     5 if point.startswith("step_end") else 1),
             env={"REGROUP_FAILPOINT": point}) as job:
        job.finish()
        claim("strikes" in job.text(), f"{point} did not strike")
        job.check(fault_free(*TRAIN, *(LARGE if extra else ())))


main(test)
