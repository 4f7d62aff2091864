"""A writer takes long: when it is done, the decision after its commit is no
longer among those that are kept. The checkpoint counts all the same, since
the agent has followed its commit from decision to decision.

Covers: saver.c checkpoint_records.c"""
import os
import signal

from checkpoints import (directory, names, steps, stop_writer_of,
                         stopped_writer)
from house import UNTIL_FINISH, Job, claim, main, trainer, until

KEPT = 67  # 64 decisions and three ancestors
FLAGS = ["--min", "1", "--max", "16", "--max-restarts", "1000000",
         "--checkpoint-every", "20", "--checkpoint-keep", "1000",
         "--detect", "10s"]


def kill_one(job):
    """Kills in the slot started least often, if there are others: a slot
    that fails often is started ever later."""
    workers = until(lambda: len(job.workers()) >= 6 and job.workers(), 30,
                    "a world of six")
    victim = min(workers.values(), key=lambda w: w["start"])
    os.kill(victim["pid"], signal.SIGKILL)
    until(lambda: victim["pid"] not in
          [w["pid"] for w in job.workers().values()], 30, "a world without it")


def test():
    with directory() as path, \
            Job([*FLAGS, "--checkpoint-dir", path],
                trainer(*UNTIL_FINISH, "--step-ms", 5),
                env=stop_writer_of(20, 21)) as job:
        writer = stopped_writer(job)
        while job.answer()["changes_total"] <= KEPT + 5:
            kill_one(job)
        status = job.status()
        claim(len(status["changes"]) <= KEPT,
              f"{len(status['changes'])} decisions are kept")
        claim(job.run("events", "--json", job.name).stdout.count(
            '"earlier"') >= 1, "events do not say what is left out")
        claim(not steps(path), f"{steps(path)} are there already")
        os.kill(writer, signal.SIGCONT)
        until(lambda: 20 in steps(path), 30, "the checkpoint of step 20")
        job.finish()
        claim(not names(path, ".part"), "a .part file was left")
        job.check()


main(test)
