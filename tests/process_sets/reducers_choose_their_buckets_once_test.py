"""A reducer measures sizes of buckets in its first steps, and keeps one: all
ranks the same, newcomers after a loss too, and sums are right meanwhile. It can
be switched off, and a deterministic reducer measures nothing.

Covers: process_sets/reducer/tuning.c elastic/cli/launch.c
tests/process_sets/tuning.c
"""
import os
import re
import tempfile

from house import BUILD, Job, claim, main_all

TUNING = os.path.join(BUILD, "tests", "tuning")
STEPS = "30"  # 5 sizes of 5 steps, and the first one


def lines_of(path):
    with open(path, encoding="ascii") as file:
        return [line.strip().split(",") for line in file]


def test_loss():
    """It comes after the choice, which the newcomer is told."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        env = {"REGROUP_FAILPOINT":
               "coll.start:rank1:gen1:step28:start1:kill"}
        with Job(["-n", "2", "--autotune-log", log], [TUNING, STEPS],
                 env=env) as job:
            job.finish()
            claim(job.text().count("RG_OK in generation 2") == 2,
                  "not all ranks made all steps")
            claim("MISMATCH" not in job.text(), "ranks chose other sizes")
        lines = lines_of(log)
        claim([line[0] for line in lines] == 5 * ["measured"] + ["chosen"],
              f"the log has {lines}")
        claim(lines[-1][1:] in [line[1:] for line in lines[:-1]],
              f"what was chosen is none of those measured: {lines}")
        claim(float(lines[-1][2]) == min(float(line[2]) for line in lines),
              f"it has not chosen the fastest: {lines}")


def test_what_counts():
    """Time in rg_reducer_ready counts, too: a start for each small bucket costs
    the backward more than the end of the step shows."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        with Job(["-n", "2", "--autotune-log", log],
                 [TUNING, STEPS, "top_k"]) as job:
            job.finish()
            ready = [float(ms) for ms in re.findall("ready: (.*) ms",
                                                    job.text())]
        claim(len(ready) == 2, f"{ready}")
        for line in lines_of(log):
            claim(float(line[2]) >= sum(ready) / 2,
                  f"{line}, and all steps took {ready} ms to become ready")


def test_off():
    for arguments, env in (([TUNING, "10", "deterministic"], {}),
                           ([TUNING, "10"], {"REGROUP_AUTOTUNE": "no"})):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            with Job(["-n", "2"], arguments,
                     env=dict(env, REGROUP_AUTOTUNE_LOG=log)) as job:
                job.finish()
            claim(not os.path.exists(log), "it measured")


main_all(globals())
