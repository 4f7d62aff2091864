"""rg_world_wait gives the first workers ranks and collectives before rg_run,
and returns a status wherever else it is called. A program that calls it on
some ranks only gets one sentence. A stop waits for no step of it.

Covers: world_wait.c end.c"""
import os
import subprocess

from checkpoints import directory
from house import BUILD, Job, claim, main_all, until

WAITER = os.path.join(BUILD, "tests", "waiter")


def test_the_first_world():
    with Job(["-n", "3"], [WAITER, "again"]) as job:
        job.finish()
        text = job.text()
        for slot in range(3):
            for what in ("waited", "twice", "is ready", "ran", "behind"):
                claim(f"slot {slot} {what} RG_OK rank {slot} of 3 in 1:"
                      in text, f"slot {slot}: {what}")
            claim(f"slot {slot} inside RG_ERR_INVALID" in text,
                  "rg_world_wait inside fn")
        claim(text.count("fetches") == 1, "not exactly one worker fetched")


def test_alone():
    done = subprocess.run([WAITER, "again"], text=True, capture_output=True,
                          timeout=60, check=False)
    claim(done.returncode == 0, done.stdout + done.stderr)
    for what in ("waited", "twice", "is ready", "ran", "behind"):
        claim(f"slot 0 {what} RG_OK rank 0 of 1 in 1:" in done.stdout,
              f"alone, {what}: {done.stdout}")


def test_some_call_it_and_others_do_not():
    with Job(["-n", "2", "--max-restarts", "0"], [WAITER, "runs=1"]) as job:
        job.finish(code=1)
        claim("RG_ERR_MISMATCH" in job.text() and "let every worker call "
              "rg_world_wait before rg_run, or none" in job.text(),
              "no sentence")


def test_a_stop_meanwhile_waits_for_no_step():
    with directory() as path, Job(["-n", "2", "--checkpoint-dir", path],
                                  [WAITER, "gate=never"]) as job:
        until(lambda: "fetches" in job.text(), 20, "the first world")
        job.process.terminate()
        job.finish(code=143)
        claim("the step that is under way" not in job.text(),
              "there is no step before rg_run")


main_all(globals())
