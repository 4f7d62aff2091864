"""The process that writes a checkpoint is killed: half-way, when the file is
whole, and when it was allowed to rename it. Training goes on, the checkpoint
before stays the newest, the next one is written as if nothing had been and
removes what was left; `status` says so meanwhile."""

import os
import shutil
import tempfile

from house import Job, claim, fault_free, main, trainer, until

FLAGS = ("--steps", "60", "--bytes", "3000000", "--save-every", "20")
PLACES = ("checkpoint.write", "checkpoint.written", "checkpoint.seal")


def steps(directory, suffix):
    return sorted(int(name.split("-step")[1].split("-")[0])
                  for name in os.listdir(directory) if name.endswith(suffix))


def error(job):
    shown = (job.status() or {}).get("checkpoint")
    return shown and shown["error"]


def kill_at(place):
    directory = tempfile.mkdtemp(prefix="rg-ckpt-")
    try:
        with Job(["-n", "2", "--checkpoint-dir", directory],
                 trainer(*FLAGS, "--step-ms", "25"),
                 env={"REGROUP_FAILPOINT": f"{place}:step40:kill"}) as job:
            until(lambda: error(job), 30, "status shows the failure")
            claim("ended (signal 9)" in error(job), error(job))
            claim(steps(directory, ".rgck") == [20],
                  f"{steps(directory, '.rgck')} are published")
            claim(steps(directory, ".part") == [40],
                  f"{place}: {os.listdir(directory)} is there")
            shown = job.status()["checkpoint"]
            claim(shown["step"] == 20, f"status shows {shown}")
            until(lambda: steps(directory, ".rgck") == [20, 60], 30,
                  "the next checkpoint")
            job.finish()
            claim(not steps(directory, ".part"), "a .part file was left")
            claim(job.text().count("ended (signal 9)") == 1,
                  "the failure was not said once")
            job.check(state=fault_free(*FLAGS))
    finally:
        shutil.rmtree(directory)


def test():
    for place in PLACES:
        kill_at(place)


main(test)
