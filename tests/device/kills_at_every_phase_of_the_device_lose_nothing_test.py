"""SIGKILL at each place of the device's life: while communicators meet, split
and warm up, within a kernel, in a commit, and while those of the last
generation are aborted. The sums are right, nothing is left, and the others
live on.

Covers: reclaim.c lanes.c"""
import sys

from device import DeviceJob, reducer
from house import UNTIL_FINISH, main, until

SHRINKING = ("--min", "1", "--max", "4", "--start-timeout", "20s")
# Each generation waits for the replacement, so ranks and numbers are known.
REPLACING = ("-n", "4")

# What strikes: failpoints of the product, and what the stand-in does.
MEETINGS = [
    (REPLACING, "device.boot:rank1:gen1:start1:kill,"
     "device.split:rank2:gen2:start1:kill,"
     "device.warm:rank0:gen3:start1:kill", []),
    (REPLACING, "", ["init rank=3 die once=1", "split rank=1 die once=2",
                     "op rank=2 k=1 die once=3"]),
]
STEPS = [
    (SHRINKING, "commit.before_agree:rank2:step30:start1:kill",
     ["op rank=3 k=9 die once=1"]),
    (REPLACING, "commit.copy:rank2:step10:start1:kill,"
     "commit.before_agree:rank3:step15:start1:kill,"
     "commit.after_agree:rank0:step20:start1:kill",
     ["op rank=1 k=9 die once=1"]),
]
CHANGES = [  # a second failure while the first is being recovered from
    (REPLACING, "commit.before_agree:rank3:step5:start1:kill,"
     "device.mark:rank1:gen1:start1:kill,"
     "commit.before_agree:rank2:step9:start1:kill,"
     "device.boot:rank0:gen3:start1:kill", []),
    # one is aborted late, and its kernels have taken rubbish for results
    (SHRINKING, "device.mark:rank0:gen1:start1:sleep200",
     ["op rank=2 k=9 die once=1"]),
    # what is freed takes long, and the next generation does not wait for it
    (SHRINKING, "commit.before_agree:rank1:step9:start1:kill",
     ["op rank=0 comm=2 k=1 die once=1", "abort slow ms=300"]),
]


def final(steps):
    total = sum(2 * step % 1000 * 1128 + 48 for step in range(1, steps + 1))
    return str(steps), f"{total:016x}"


def have_struck(job, point, script):
    points = len(point.split(",")) if point else 0
    once = [line for line in script if "once" in line]
    return job.text().count("strikes") >= points and all(
        job.has_struck(1 + i) for i in range(len(once)))


def run(flags, point, script):
    print(flags, point, script, flush=True)
    program = reducer(*UNTIL_FINISH, "--step-ms", 2, "--device-state")
    with DeviceJob(flags, program,
                   "\n".join(script),
                   {"REGROUP_FAILPOINT": point} if point else {}) as job:
        until(lambda: have_struck(job, point, script) or not job.alive(), 30,
              "all have struck")
        job.wait_step(job.step() + 5)
        job.finish()
        job.check(state=final(int(job.final_state()[0])))
        job.check_device(left=1)


def test():
    for flags, point, script in globals()[sys.argv[1]]:
        run(flags, point, script)


main(test)
