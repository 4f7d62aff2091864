"""Commits follow each other every few milliseconds while checkpoints are copied
out of the vault: each checkpoint holds the very bytes that a run alone has after
that step, also when a worker is killed in between; `verify` agrees.

Covers: saver.c writer.c image.c"""
import os
import struct

from checkpoints import directory, names, steps
from house import (UNTIL_FINISH, Job, claim, fault_free, main, trainer,
                   until)

BYTES = 400000
FLAGS = ("--bytes", str(BYTES))
TRAIN = (*UNTIL_FINISH, *FLAGS, "--step-ms", "2")
FIRST = 4096  # where the first buffer's bytes lie
MASK = 2**64 - 1


def mix(x):
    x ^= x >> 31
    x = x * 0x9e3779b97f4a7c15 & MASK
    return x ^ (x >> 29)


def state_in(path):
    """What the trainer would print of the state in a checkpoint."""
    with open(path, "rb") as file:
        file.seek(FIRST)
        words = struct.unpack(f"={BYTES // 8}Q", file.read(BYTES))
    state = 0
    for i, word in enumerate(words):
        state = mix((state + word + i) & MASK)
    return f"{state:016x}"


def test():
    with directory() as path:
        with Job(["--min", "1", "--max", "3", "--checkpoint-dir", path,
                  "--checkpoint-every", "1", "--checkpoint-keep", "99"],
                 trainer(*TRAIN)) as job:
            job.wait_step(20)
            before = job.generation()
            job.kill(rank=2)
            job.wait_world(3, above=before)
            until(lambda: len(steps(path)) > 5, 30, "six checkpoints")
            job.finish()
            job.check(trained=TRAIN)
            last = int(job.final_state()[0])
            shown = job.run("checkpoint", "verify", path)
            claim(shown.returncode == 0, f"verify says {shown.stderr}")
        found = dict(zip(steps(path), names(path, ".rgck")))
        claim(len(found) > 5, f"only {len(found)} checkpoints were written")
        claim(max(found) == last, "the last step has none")
        for step in sorted(found)[::-(len(found) // 12 + 1)]:
            _, expected = fault_free("--steps", step, *FLAGS)
            state = state_in(os.path.join(path, found[step]))
            claim(state == expected, f"the checkpoint of step {step} holds "
                  f"state {state}, a run alone {expected}")


main(test)
