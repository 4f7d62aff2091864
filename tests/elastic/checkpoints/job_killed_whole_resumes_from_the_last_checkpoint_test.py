"""Everything that a job is (run, agent, etcd, workers) is killed at once, twice;
a new `regroup run` of the same program on the same directory goes on from the
last checkpoint, with another number of workers, and ends as a run without
faults does.

Covers: state/load.c checkpoint_dir.c"""

import re

from checkpoints import directory, kill_all, names, shown, steps
from house import UNTIL_FINISH, Job, claim, main, trainer, until

SIZES = (4, 2, 3)
FLAGS = ("--bytes", "300000", "--commit-every", "3")


def run(size, path, last=None):
    """(step that was loaded or 0, steps published at the end); all are killed
    but in the job that ends with the last step."""
    length = UNTIL_FINISH if last is None else ("--steps", last)
    with Job(["-n", str(size), "--checkpoint-dir", path,
              "--checkpoint-every", "10"],
             trainer(*length, *FLAGS, "--step-ms", "5", "--load")) as job:
        if last is not None:
            job.finish()
            job.check(trained=FLAGS)
        else:
            job.wait_world(size)
            first = until(lambda: shown(job, "step"), 30, "a checkpoint")
            until(lambda: job.alive() and shown(job, "step") > first, 30, "another")
            kill_all(job)
        job.check()
        loaded = set(re.findall(r"loaded step (\d+)", job.text()))
        claim(len(loaded) < 2, f"workers loaded different steps: {loaded}")
        first = min(e["step"] for e in job.events("step"))
        step = int(loaded.pop()) if loaded else 0
        claim(first == step + 1, f"the first step is {first} after {step}")
        return step, steps(path)


def test():
    newest = 0
    with directory() as path:
        for i, size in enumerate(SIZES):
            end = (newest // 30 + 4) * 30  # a commit, and due to be saved
            loaded, found = run(size, path,
                                end if i + 1 == len(SIZES) else None)
            claim(loaded == newest,
                  f"loaded step {loaded}, but {newest} was the newest")
            claim(1 <= len(found) <= 3, f"checkpoints of steps {found} are "
                  "there; two are kept, and one may be new")
            newest = found[-1]
        claim(newest == end,
              f"the last checkpoint is of step {newest}, not {end}")
        claim(not names(path, ".part"),
              "a .part file outlived the next checkpoint")


main(test)
