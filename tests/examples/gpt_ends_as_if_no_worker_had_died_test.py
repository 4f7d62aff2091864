"""The GPT in C: whatever the number of its workers, also with more of them than
samples, and whichever are killed, in a reduction, in a commit and at rank 0, it
ends with the model of a run alone, with the same loss in each step, and has
learnt something.

Covers: 08_gpt.c"""
import csv
import os
import re

from example import alone, program
from house import Job, claim, main

STEPS, BATCH = 40, 6


def final(text):
    found = re.findall(r"final loss [\d.]+ state \w{16}", text)
    claim(len(found) == 1, f"there are {len(found)} final lines")
    return found[0]


def run(flags, *arguments, env=None):
    """The final line, and the loss in each step."""
    with Job([*flags, "--metrics-csv", "m.csv"],
             [program("gpt"), *map(str, arguments)], env=env) as job:
        job.finish()
        wanted = sum(script.count("kill") for script in (env or {}).values())
        claim(job.text().count("strikes") >= wanted, "nobody was killed")
        with open(os.path.join(job.folder, "m.csv"), encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        claim([int(row["step"]) for row in rows] ==
              list(range(1, arguments[0] + 1)), "each step once")
        return final(job.text()), [float(row["value"]) for row in rows]


def test():
    expected, curve = run(["-n", "2"], STEPS, BATCH)
    claim(expected == final(alone(program("gpt"), str(STEPS), str(BATCH))),
          "two workers end elsewhere than one alone")
    claim(curve[-1] < 0.7 * curve[0] < 4, f"losses are {curve}")
    for every, script in (
            (1, "coll.start:rank1:step20:gen1:kill,"
                "commit.copy:rank0:step35:start1:kill"),
            (7, "step_end:rank0:step31:gen1:kill")):
        found, losses = run(["--min", "1", "--max", "3"], STEPS, BATCH, every,
                            env={"REGROUP_FAILPOINT": script})
        claim(found == expected, f"after kills: {found}, not {expected}")
        claim(all(abs(a - b) <= 1e-12 for a, b in zip(losses, curve)),
              f"other losses after {script}")
    few, _ = run(["-n", "3"], 5, 2)
    claim(few == final(alone(program("gpt"), "5", "2")), "few samples")


main(test)
