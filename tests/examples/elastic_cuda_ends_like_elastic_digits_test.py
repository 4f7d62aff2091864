"""The digits on the stand-in for a GPU, with workers killed while
communicators meet, within a kernel, in a commit and while a generation is
aborted: the final state is that of elastic_digits, which was not disturbed, on
the CPU.

Covers: 06_elastic_cuda.cu"""
import os

from device import DeviceJob
from example import SOURCE, alone, final, program
from house import BUILD, claim, main

EPOCHS = 8
TRIES = 3  # a replacement that is late may find no step to be killed in
ELASTIC_CUDA = [os.path.join(BUILD, "tests", "elastic_cuda"),
                "--data", os.path.join(SOURCE, "examples/data/digits.csv"),
                "--epochs", str(EPOCHS)]
JOBS = [
    # Each generation waits for the replacement: ranks and numbers are known.
    (("-n", "3"), "1", "device.split:rank2:gen1:start1:kill,"
     "commit.copy:rank1:step40:start1:kill,"
     "device.mark:rank1:gen3:start2:kill,"
     "commit.after_agree:rank2:step140:start2:kill", 4,
     ["op rank=0 size=3 k=50 die once=1"]),
    (("--min", "1", "--max", "3"), "10", "", 0,
     ["init rank=1 die once=1", "op rank=0 k=33 die once=2",
      "op rank=1 k=44 die once=3"]),
]


def run(flags, every, point, points, script):
    """The final state, and the lines that have not struck."""
    command = ELASTIC_CUDA + ["--commit-every", every]
    with DeviceJob(flags, command, "\n".join(script),
                   {"REGROUP_FAILPOINT": point} if point else {}) as job:
        job.finish()
        job.check_disciplined()
        claim(job.text().count("strikes") >= points, "not all have struck")
        job.check(samples=1438, batch=64, epochs=EPOCHS)
        return final(job.text()), [
            line for number, line in enumerate(script, start=1)
            if not job.has_struck(number)]


def test():
    expected = final(alone(program("elastic_digits"), "--epochs", str(EPOCHS)))
    for job in JOBS:
        for _ in range(TRIES):
            found, missing = run(*job)
            claim(found == expected, f"{job} ends with {found}, "
                  f"elastic_digits with {expected}")
            if not missing:
                break
        claim(not missing, f"{missing} have not struck")


main(test)
