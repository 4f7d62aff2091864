"""The digits example in numpy, under `regroup run` with a worker killed and
then rank 0: survivors keep their processes, and accuracy and state are those
of a run without faults, to the last bit.

Covers: _state.py 03_elastic_digits.py"""
import os
import re

import pyjob
from house import SOURCE, Job, claim, main

EXAMPLE = os.path.join(SOURCE, "examples/python/03_elastic_digits.py")
FINAL = re.compile(r"final accuracy ([\d.]+) state ([0-9a-f]{16})")


def final(output):
    found = FINAL.findall(output)
    claim(len(found) == 1, f"{len(found)} final lines in\n{output}")
    return found[0]


def test():
    example = [pyjob.python_with("numpy"), EXAMPLE, "--epochs", "6"]
    expected = final(pyjob.run(example))
    claim(float(expected[0]) > 0.9, f"it has learned nothing: {expected}")
    with Job(["--min", "1", "--max", "3"], [*example, "--step-ms", "40"],
             env=pyjob.environment()) as job:
        job.wait_step(10)
        before = job.workers()
        lost = {job.kill(2)}
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        lost.add(job.kill(0))
        job.finish()
        claim(job.generation() > 3, "the second kill came too late")
        job.survivors(before, lost)
        job.check()
        found = final(job.text())
        claim(found == expected, f"after the kills it is {found}, the "
                                 f"undisturbed run's {expected}")


main(test)
