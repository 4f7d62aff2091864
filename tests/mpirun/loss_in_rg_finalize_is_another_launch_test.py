"""Under --mpi=ulfm a rank is lost while the others are in rg_finalize: they can't
go on in place, and have done nothing wrong, so that another launch follows, from
the last commit, which is charged to none of them. After a loss MPI_Finalize may wait
for the dead: ranks have --agent-grace for it, on all hosts, and the job is done.

Covers: state_resume.c mpirun/mpirun.c in_place.c
"""

import os
import re
import signal
import time

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, Job, claim, main, until
from mpijob import (FINAL, HOSTS_ENV, IN_PLACE, MPI_ENV, launches,
                    need_solver)

STAYS = re.compile(r"process (\d+) stays")
RANK_0 = re.compile(r"process (\d+) is rank 0 of")


def start(*words, flags=()):
    return Job(["--mpi=ulfm", "--min", "2", "--max", "3", *flags],
               [IN_PLACE, UNTIL_FINISH[1], *words], env=MPI_ENV)


def dies_while_others_finalize():
    with start("--last", "2") as job:
        job.wait_step(10)
        job.let_finish()
        pid = int(until(lambda: STAYS.findall(job.text()), 20, "rank 2")[0])
        until(lambda: FINAL.search(job.text()), 20, "rank 0 is at its end")
        os.kill(pid, signal.SIGKILL)
        job.finish()
        claim([one[:2] for one in launches(job)] == [(1, 3), (2, 3)],
              f"{launches(job)}")
        claim("restart 1 of" not in job.text(), "a survivor was charged")
        claim("steps lost: 0" in job.text(), "a committed step was lost")


def stays_in_mpi_finalize():
    with start("--stay", "0", flags=("--agent-grace", "2s")) as job:
        job.wait_step(10)
        job.kill(2)
        until(lambda: [one[:2] for one in launches(job)] == [(1, 3), (1, 2)],
              20, "a world in place")
        job.wait_step(job.step() + 5)
        job.let_finish()
        until(lambda: STAYS.search(job.text()), 20, "rank 0 stays")
        begun = time.monotonic()
        job.finish()
        claim(time.monotonic() - begun < 20, "it took more than --agent-grace")
        claim("have not ended, although the job is done" in job.text(), "why")


def dies_while_others_are_in_mpi_finalize():
    with start("--stay", "0", flags=("--agent-grace", "20s")) as job:
        job.wait_step(10)
        job.kill(2)
        until(lambda: [one[:2] for one in launches(job)] == [(1, 3), (1, 2)],
              20, "a world in place")
        pid = job.pid(0)
        job.wait_step(job.step() + 5)
        job.let_finish()
        until(lambda: STAYS.search(job.text()), 20, "rank 0 stays")
        os.kill(pid, signal.SIGKILL)
        job.finish()
        claim("have not ended, although the job is done" not in job.text(),
              "rank 1 waits for the dead")


def dies_on_another_host():
    with Hosts(2, renames=True) as hosts:
        if not hosts.has_nets:
            return
        with HostsJob(hosts, ["--mpi=ulfm", "--min", "2", "--max", "2",
                              "--agent-grace", "2s"], ["--slots", "1"],
                      [IN_PLACE, UNTIL_FINISH[1], "--stay", "1"],
                      env=HOSTS_ENV) as job:
            job.wait_step(10)
            job.let_finish()
            until(lambda: STAYS.search(job.text()), 20, "rank 1 stays")
            os.kill(int(RANK_0.search(job.text())[1]), signal.SIGKILL)
            job.finish()
            claim("have not ended, although the job is done" in job.text(),
                  "the rank of the other host had --elastic-timeout")


def test():
    need_solver()
    dies_on_another_host()
    dies_while_others_finalize()
    stays_in_mpi_finalize()
    dies_while_others_are_in_mpi_finalize()


main(test)
