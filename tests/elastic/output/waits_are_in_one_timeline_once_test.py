"""A worker's last wait is not in its ring yet when a timeline ends: it is in
that one, not in the one that is begun next, and once where the next agent goes
on.

Covers: timeline.c timeline_events.c timeline_writer.c record.c"""
import json
import os
import signal

from house import UNTIL_FINISH, Job, claim, trainer, until

STEP_MS = 1000  # between waits, so there is time to look while one is the last
TRAIN = trainer(*UNTIL_FINISH, "--step-ms", STEP_MS, "--commit-every", 10000)


def slices(job, name):
    with open(os.path.join(job.folder, name), encoding="utf-8") as file:
        return [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]


def waits(job, name):
    return [(e["pid"], e["ts"]) for e in slices(job, name)
            if e["name"] == "wait"]


def record(job, name):
    claim(job.run("timeline", "start", os.path.join(job.folder, name),
                  "test").returncode == 0, "start")
    job.wait_step(job.step() + 2)
    claim(job.run("timeline", "stop", "test").returncode == 0, "stop")
    job.wait_step(job.step() + 2)


with Job(["-n", "2"], TRAIN) as job:
    job.wait_step(1)
    record(job, "first.json")
    record(job, "second.json")
    first, second = waits(job, "first.json"), waits(job, "second.json")
    claim(first and second, "no waits")
    claim(not set(first) & set(second), f"in both: {first} {second}")
    for e in slices(job, "second.json"):
        claim(e["name"] != "compute" or e["dur"] < 2e3 * STEP_MS,
              f"longer than a step: {e}")
    job.let_finish()
    job.finish()

with Job(["-n", "2", "--timeline", "t.json"], TRAIN) as job:
    job.wait_step(2)
    os.kill(job.agent(), signal.SIGKILL)
    job.wait_step(job.step() + 3)
    found = until(lambda: waits(job, "t.json"), 20, "waits")
    claim(len(found) == len(set(found)), f"twice: {found}")
    job.let_finish()
    job.finish()
