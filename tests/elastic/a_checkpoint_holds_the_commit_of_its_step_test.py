"""Commits follow each other as fast as they can while checkpoints are copied
out of the vault: each checkpoint holds the very bytes that a run alone has after
that step, also when a worker is killed in between; `verify` agrees."""
import os
import re
import subprocess

from checkpoints import directory, names
from house import Job, claim, fault_free, main, trainer

BYTES = 2000000
FLAGS = ("--steps", "150", "--bytes", str(BYTES))
FIRST = 4096  # where the first buffer's bytes lie


def contents(path):
    """{step: the state's bytes} of all checkpoints there."""
    found = {}
    for name in names(path, ".rgck"):
        step = int(re.search(r"step(\d+)", name).group(1))
        with open(os.path.join(path, name), "rb") as file:
            file.seek(FIRST)
            found[step] = file.read(BYTES)
    return found


def alone(path, *flags):
    """The same steps in a process without an agent, each saved."""
    subprocess.run(trainer(*FLAGS, *flags, "--step-ms", 0, "--save-every", 1),
                   check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, REGROUP_CHECKPOINT_DIR=path,
                            REGROUP_CHECKPOINT_KEEP="1000"))
    return contents(path)


def test():
    with directory() as path, directory() as other:
        with Job(["--min", "1", "--max", "3", "--checkpoint-dir", path,
                  "--checkpoint-every", "1", "--checkpoint-keep", "1000"],
                 trainer(*FLAGS, "--step-ms", "0")) as job:
            job.wait_step(20)
            job.kill(rank=2)
            job.finish()
            job.check(state=fault_free(*FLAGS))
            shown = job.run("checkpoint", "verify", path)
            claim(shown.returncode == 0, f"verify says {shown.stderr}")
        found, expected = contents(path), alone(other)
        claim(len(found) > 5, f"only {len(found)} checkpoints were written")
        claim(max(found) == 150, "the last step has none")
        for step, content in found.items():
            claim(content == expected[step],
                  f"the checkpoint of step {step} holds something else")


main(test)
