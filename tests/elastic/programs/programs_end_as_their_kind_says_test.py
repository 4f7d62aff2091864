"""The table "what events mean": how a process ends, and what that means for
the job.

Covers: slots.c exits.c"""
import os
import re

from house import (BUILD, UNTIL_FINISH, Job, claim, fault_free, main_all,
                   trainer)

TRAIN = ("--steps", 60, "--step-ms", 3)


def test_exit_0_before_done_is_lost_and_respawned():
    with Job(["--min", "1", "--max", "2"], trainer(*TRAIN), env={
            "REGROUP_FAILPOINT": "commit.before_agree:rank1:step9:start1:exit0"
    }) as job:
        job.finish()
        claim("exited with code 0" in job.text(), "the exit is not named")
        job.check(fault_free(*TRAIN))


def test_exit_0_is_not_respawned_for_ever():
    with Job(["-n", "2", "--max-restarts", "2"], trainer(*TRAIN), env={
            "REGROUP_FAILPOINT": "door:exit0"
    }) as job:
        job.finish(1)
        claim(re.search(r"regroup: .*\.\d ended before the job was done too "
                        r"often, last at step 0, and fewer", job.text()),
              "the end is not explained")


def test_failures_count_to_max_restarts():
    with Job(["-n", "2", "--max-restarts", "2"], trainer(*TRAIN), env={
            "REGROUP_FAILPOINT": "door:exit1"
    }) as job:
        job.finish(1)
        claim("--max-restarts" in job.text(), "the end is not explained")


def test_a_static_program_ends_with_its_first_failure():
    with Job(["-n", "3"], ["sh", "-c", f"if [ $REGROUP_SLOT = 1 ]; then sleep "
                           f"0.5; exit 7; fi; exec {trainer()[0]} --static"]
             ) as job:
        job.finish(7)


def test_an_early_end_of_a_static_worker_keeps_none_waiting():
    sums = os.path.join(BUILD, "tests", "sums")
    with Job(["-n", "3"], ["sh", "-c", "[ $REGROUP_SLOT = 1 ] && exec "
                           f"{sums} 20 0; exec {sums} 100000 0"]) as job:
        job.finish(3)
        claim("waits for its rank 1, which has called rg_finalize"
              in job.text(), "no line names the worker that has left")


def test_rg_run_in_a_static_program_is_invalid():
    with Job(["-n", "2"], trainer("--static")) as job:
        job.finish(3)
        claim("rg_params.elastic = 1" in job.text(), "no word on what to do")


def test_a_program_without_regroup_just_runs():
    with Job(["-n", "2"], ["true"]) as job:
        job.finish(0)
    with Job(["-n", "2"], ["sh", "-c", "exit 5"]) as job:
        job.finish(5)
        claim(re.search(r"\.[01] exited with code 5; the program", job.text()),
              "the end is not explained")
    with Job(["-n", "1"], ["sh", "-c", "kill -9 $$"]) as job:
        job.finish(137)
        claim(".0 was ended by signal 9 (Killed); the program" in job.text(),
              "the end is not explained")


def test_signals_end_the_job_and_its_wrappers_with_128_plus_n():
    train = trainer("--steps", 100000)
    for command in (train, ["bash", "-c", " ".join(train) + "; exit $?"]):
        with Job(["-n", "2"], command) as job:
            job.wait_step(5)
            pids = [w["pid"] for w in job.workers().values()]
            job.process.terminate()
            job.finish(128 + 15)
            claim(not any(os.path.exists(f"/proc/{pid}") for pid in pids),
                  "workers outlived the job")
            job.check()


def test_stop_ends_the_job():
    with Job(["-n", "2"], trainer("--steps", 100000)) as job:
        job.wait_step(5)
        stopped = job.run("stop", job.name, timeout=40)
        claim(stopped.returncode == 0, f"stop failed: {stopped.stderr}")
        job.finish(128 + 15)


def test_the_process_that_calls_rg_init_is_the_worker():
    endless = " ".join(trainer(*UNTIL_FINISH, "--step-ms", 3))
    with Job(["-n", "2"], ["bash", "-c", f"{endless}; exit $?"]) as job:
        job.wait_step(5)
        lost = job.kill(1)
        job.finish()
        claim(lost not in {e["pid"] for e in job.events("leave")}, "not killed")
        job.check(trained=UNTIL_FINISH)


def test_workers_that_differ_are_refused():
    script = (f"if [ $REGROUP_SLOT = 1 ]; then sleep 0.3; exec {trainer()[0]} "
              f"--static; fi; exec {trainer()[0]}")
    with Job(["-n", "2", "--max-restarts", "0"], ["sh", "-c", script]) as job:
        job.finish(3)
        claim("rg_params.elastic alike" in job.text(), "no word on what to do")


def test_output_goes_to_files_that_a_respawn_does_not_overwrite():
    with Job(["--min", "1", "--max", "2", "--output", "out"],
             ["sh", "-c", "echo begin; exec " + " ".join(trainer(*TRAIN))],
             env={"REGROUP_FAILPOINT":
                  "commit.before_agree:rank1:step9:start1:kill"}) as job:
        job.finish()
        files = sorted(os.listdir(os.path.join(job.folder, "out")))
        outs = [f for f in files if f.endswith(".out")]
        claim(len(outs) == 3, f"expected three processes' output: {files}")
        for name in outs:
            with open(os.path.join(job.folder, "out", name),
                      encoding="utf-8") as out:
                claim(out.readline() == "begin\n", f"{name} was overwritten")


main_all(globals())
