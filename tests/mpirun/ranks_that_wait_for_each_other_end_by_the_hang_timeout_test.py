"""A rank that waits for a message which never comes, and so all others, in calls
of MPI: the launch is reported after REGROUP_STALL, in the log and the status,
and with --hang-timeout another launch follows from the last commit. Launches
that hang at the same step again and again end the job. Ranks that are paused
(Ctrl-Z) do not hang. A program without state ends no step, and none is waited
for. The flag needs --mpi.

Covers: hang.c cli/launch.c
"""

import os
import signal
import subprocess
import time

from house import REGROUP, UNTIL_FINISH, Job, claim, main, until
from mpijob import (MPI_ENV, SOLVER, check_value, launches, need_solver,
                    wait_launch)

CAUSE = "has ended a step for"


def waits_of(job):
    return [wait["what"] for wait in (job.status() or {}).get("waiting", [])
            if wait["kind"] == "step"]


def is_launched_again():
    with Job(["--mpi", "-n", "2", "--hang-timeout", "4s"],
             [SOLVER, UNTIL_FINISH[1], "--hang-at", "7"],
             env=dict(MPI_ENV, REGROUP_STALL="500ms")) as job:
        told = until(lambda: waits_of(job), 30, "the wait is shown")[0]
        claim("a step of launch 1 to end" in told, told)
        wait_launch(job, 2)
        _, _, _, start, _, why = launches(job)[-1]
        claim(start == "step 7 (0 rolled back)", start)
        claim(CAUSE in why and "--hang-timeout" in why, why)
        claim("waits for a step of launch 1 to end" in job.text(), "the log")
        job.wait_step(job.step() + 5)
        claim(not waits_of(job), "a launch whose steps end waits for none")
        job.finish()
        job.check(is_mpi=True)
        check_value(job, 2)
        claim(len(launches(job)) == 2, f"{launches(job)}")


def ends_the_job():
    with Job(["--mpi", "-n", "2", "--hang-timeout", "1s", "--max-restarts",
              "1"], [SOLVER, UNTIL_FINISH[1], "--hang-at", "0"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 71, f"the job ended with code {code}")
        claim("2 launches have ended at step 0" in job.text(), "why")


def pause_is_no_hang():
    with Job(["--mpi", "-n", "2", "--hang-timeout", "1s"],
             [SOLVER, UNTIL_FINISH[1]], env=MPI_ENV) as job:
        job.wait_step(10)
        os.kill(job.process.pid, signal.SIGTSTP)
        until(lambda: (job.status() or {}).get("phase") == "paused", 20,
              "the ranks are stopped")
        at, end = job.step(), time.monotonic() + 2.5
        until(lambda: time.monotonic() > end, 5, "it lasts")
        os.kill(job.process.pid, signal.SIGCONT)
        job.wait_step(at + 5)
        job.finish()
        claim(len(launches(job)) == 1, f"{launches(job)}")


def has_no_steps():
    with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1], "--no-steps"],
             env=dict(MPI_ENV, REGROUP_STALL="500ms")) as job:
        until(lambda: "no rank on host" in job.text() or waits_of(job), 30,
              "it is said")
        claim("has called rg_state_resume in the" in job.text() and
              not waits_of(job), f"{waits_of(job)}")
        job.finish()
        claim("waits for a step" not in job.text(), "the log")


def needs_mpi():
    got = subprocess.run([REGROUP, "run", "-n", "2", "--hang-timeout", "5s",
                          "true"], capture_output=True, text=True,
                         check=False, timeout=60)
    claim(got.returncode == 64 and "--hang-timeout needs --mpi" in got.stderr,
          f"code {got.returncode}: {got.stderr}")


def test():
    need_solver()
    needs_mpi()
    is_launched_again()
    ends_the_job()
    pause_is_no_hang()
    has_no_steps()


main(test)
