"""rg_state_on_commit: each worker is told of each step that counts, once and in
order, whether its commit returned RG_OK or ERR_HOSTS_CHANGED, or a death hid
from it that the commit counts."""
import os
import re

from house import BUILD, Job, claim, main, until

LIFECYCLE = os.path.join(BUILD, "tests", "lifecycle")
STEPS = 100


def told(text):
    """{pid: [step]}"""
    found = {}
    for pid, step in re.findall(r"process (\d+) counts (\d+) of", text):
        found.setdefault(pid, []).append(int(step))
    return found


def test():
    """Each second one dies with rank 0, when all have agreed on a commit."""
    with Job(["--min", "1", "--max", "3"], [LIFECYCLE, "counts"], env={
            "REGROUP_FAILPOINT": "commit.after_agree:rank0:step30:start1:kill,"
                                 "commit.after_agree:rank0:step60:start1:kill"
    }) as job:
        until(lambda: job.generation() >= 3 or not job.alive(), 30,
              "two changes")
        job.finish()
        steps = told(job.text())
        for pid, mine in steps.items():
            claim(mine == list(range(mine[0], mine[0] + len(mine))),
                  f"process {pid} was told {mine}")
        ends = [mine[-1] for mine in steps.values()]
        claim(ends.count(STEPS) == 3, f"the last steps told are {ends}")
        claim(any(mine[0] == 1 and mine[-1] == STEPS
                  for mine in steps.values()), "nobody was told all")


main(test)
