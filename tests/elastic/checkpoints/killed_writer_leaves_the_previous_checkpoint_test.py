"""The process that writes a checkpoint is killed: half-way, when the file is
whole, and when it was allowed to rename it. Training goes on, the previous
checkpoint stays the newest, the next one is written as usual and removes
what was left; `status` says so meanwhile.

Covers: writer.c checkpoint_dir.c"""

import os
import signal

from checkpoints import directory, names, shown, steps, stopped_writer
from house import Job, claim, fault_free, main, trainer, until

# A writer takes a later commit where there is one: there is none for 20 steps.
FLAGS = ("--steps", "60", "--bytes", "3000000", "--commit-every", "20",
         "--save-every", "20")
PLACES = ("checkpoint.write", "checkpoint.written", "checkpoint.seal")


def kill_at(place, path):
    with Job(["-n", "2", "--checkpoint-dir", path],
             trainer(*FLAGS, "--step-ms", "25"),
             env={"REGROUP_FAILPOINT":
                  f"{place}:step40:kill,checkpoint.written:step60:stop"}
             ) as job:
        writer = stopped_writer(job)  # the next: nothing moves while we look
        error = until(lambda: shown(job, "error"), 30,
                      "status shows the failure")
        claim("ended (signal 9)" in error, error)
        claim(steps(path) == [20], f"{steps(path)} are published")
        claim(steps(path, ".part") == [40, 60],
              f"{place}: {names(path, '.part')} is there")
        claim(shown(job, "step") == 20, "status shows another step than 20")
        os.kill(writer, signal.SIGCONT)
        until(lambda: steps(path) == [20, 60], 30, "the next checkpoint")
        job.finish()
        claim(not names(path, ".part"), "a .part file was left")
        claim(job.text().count("ended (signal 9)") == 1,
              "the failure was not said once")
        job.check(state=fault_free(*FLAGS))


def test():
    for place in PLACES:
        with directory() as path:
            kill_at(place, path)


main(test)
