"""Sharded buffers in checkpoints: everything is killed at once, and a new job of
another size, whose shards are cut again, goes on from the last checkpoint to the
state of the fault-free run; a worker alone does, too.

Covers: state/load.c shares.c"""

import os
import subprocess

from checkpoints import directory, kill_all, names, shown, steps
from house import (FINAL, UNTIL_FINISH, Job, claim, fault_free, main,
                   trainer, until)

FLAGS = ("--bytes", 3000, "--shard-bytes", 1000003)


def job_of(size, path, *length):
    return Job(["-n", str(size), "--checkpoint-dir", path,
                "--checkpoint-every", "20"],
               trainer(*length, *FLAGS, "--step-ms", 10, "--load"))


def kill_half_way(size, path):
    with job_of(size, path, *UNTIL_FINISH) as job:
        job.wait_world(size)
        first = until(lambda: shown(job, "step"), 30, "a checkpoint")
        until(lambda: job.alive() and (shown(job, "step") or 0) > first, 30,
              "another")
        kill_all(job)
        job.check()


def test():
    with directory() as path:
        kill_half_way(4, path)
        kill_half_way(3, path)
        newest = steps(path)[-1]
        flags = ("--steps", newest + 100, *FLAGS)
        alone = subprocess.run(
            trainer(*flags, "--step-ms", 0, "--load"), check=True, text=True,
            capture_output=True,
            env=dict(os.environ, REGROUP_CHECKPOINT_DIR=path,
                     REGROUP_CHECKPOINT_EVERY="0",
                     REGROUP_CHECKPOINT_ON_STOP="no"))
        claim(f"loaded step {newest}\n" in alone.stdout, alone.stdout)
        claim(FINAL.search(alone.stdout).groups() == fault_free(*flags),
              f"alone it ends with {alone.stdout}")
        with job_of(2, path, *flags[:2]) as job:
            job.finish()
            claim(f"loaded step {newest}\n" in job.text(), "no checkpoint is loaded")
            shape = job.run("checkpoint", "show", path).stdout
            job.check(state=fault_free(*flags))
        claim(steps(path)[-1] == newest + 100, f"{steps(path)} are there at the end")
        claim(not names(path, ".part"), "a .part file was left")
        claim(f" {newest + 100}       2" in shape, shape)


main(test)
