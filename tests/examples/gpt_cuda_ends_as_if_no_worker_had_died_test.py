"""The GPT on the stand-in for a GPU: two undisturbed workers, and three of
which some are killed, within a kernel, while communicators meet and in a
commit, end with the same model; it has learnt something.

Covers: 07_gpt_cuda.cu gpt_net.cuh"""
import os
import re

from device import DeviceJob
from house import BUILD, SOURCE, claim, main

TEXT = os.path.join(SOURCE, "examples/data/harbour.txt")
SHAPE = {"layers": 1, "channels": 16, "heads": 2, "positions": 16, "batch": 8,
         "steps": 60, "commit-every": 5, "print-every": 10}
GPT = [os.path.join(BUILD, "tests", "gpt_cuda"), "--text", TEXT,
       *[f"--{name}={value}" for name, value in SHAPE.items()]]


def run(flags, script=(), env=None):
    """The final line, and the losses."""
    with DeviceJob(flags, GPT, "\n".join(script), env) as job:
        job.finish()
        job.check_disciplined()
        job.check(samples=os.path.getsize(TEXT) - SHAPE["positions"],
                  batch=SHAPE["batch"])
        for number, line in enumerate(script, start=1):
            claim(job.has_struck(number), f"{line} has not struck")
        claim(job.text().count("strikes") == bool(env), "no commit was struck")
        final = re.findall(r"final loss [\d.]+ state \w{16}", job.text())
        claim(len(final) == 1, f"there are {len(final)} final lines")
        return final[0], [float(loss) for loss in re.findall(
            r"step \d+ loss ([\d.]+) ", job.text())]


def test():
    expected, losses = run(("-n", "2"))
    claim(losses[-1] < 0.9 * losses[0] < 3.5, f"losses are {losses}")
    found, _ = run(
        ("--min", "1", "--max", "3"),
        ["op rank=1 k=12 die once=1", "split rank=1 comm=2 die once=2"],
        {"REGROUP_FAILPOINT": "commit.copy:rank0:step40:start1:kill"})
    claim(found == expected, f"after kills: {found}; undisturbed: {expected}")


main(test)
