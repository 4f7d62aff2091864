"""rg_state_on_commit: each worker gets a call for each step that counts, once
and in order, whether its commit returned RG_OK or ERR_HOSTS_CHANGED, or a
death kept it from learning that the commit counts.

Covers: state.c"""
import os
import re

from house import BUILD, Job, claim, main, until

LIFECYCLE = os.path.join(BUILD, "tests", "lifecycle")
STEPS = 100
DEATHS = (30, 60, 90)


def told(text):
    """{pid: [step]}"""
    found = {}
    for pid, step in re.findall(r"process (\d+) counts (\d+) of", text):
        found.setdefault(pid, []).append(int(step))
    return found


def faults():
    """In each second generation rank 0 dies when it has agreed on a commit, while
    others sleep in the agreement: they hear of a lost peer, and only the next
    decision says that the step counts."""
    for step in DEATHS:
        yield f"commit.after_agree:rank0:step{step}:start1:kill"
        for rank in (1, 2, 3):
            yield f"coll.middle:rank{rank}:step{step - 1}:start1:sleep300"


def test():
    with Job(["--min", "1", "--max", "4"], [LIFECYCLE, "counts"], env={
            "REGROUP_FAILPOINT": ",".join(faults())}) as job:
        until(lambda: job.generation() >= 5 or not job.alive(), 30,
              "changes")
        job.finish()
        steps = told(job.text())
        for pid, mine in steps.items():
            claim(mine == list(range(mine[0], mine[0] + len(mine))),
                  f"process {pid} was told {mine}")
        ends = sorted(mine[-1] for mine in steps.values())
        # A worker that joins may have a step in between committed.
        claim(len(ends) > 3 and set(ends[3:]) == {STEPS} and
              all(step - 3 <= end < step for end, step in zip(ends, DEATHS)),
              f"the last steps that workers were told are: {ends}")
        claim(any(mine[0] == 1 and mine[-1] == STEPS
                  for mine in steps.values()), "no worker got all of them")


main(test)
