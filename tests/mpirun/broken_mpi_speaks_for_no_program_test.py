"""The job is done, and its ranks are in MPI_Finalize. What a rank's main returns is
the exit code, and so is that of exit in place of MPI_Finalize, or of MPI_Abort,
even if only mpirun knows it, but not what the rank ends with when its MPI breaks: a daemon is killed, and MPICH's
rank 0 exits with 15, which may be known before the daemon's end is. The end of
a launch is the same if its agent is killed meanwhile: the next one learns how
ranks and mpirun end. Codes of the next launch count.

Covers: mpirun/mpirun.c slots.c end.c
"""

import os
import signal
import tempfile

from hosts import Hosts, HostsJob, start_of
from house import UNTIL_FINISH, Job, claim, main, program_of, until
from mpijob import (DAEMON, FLAVOUR, HOSTS_ENV, MPI_ENV, SOLVER, need_solver,
                    mpirun_of, pids_of, wait_launch)


def start(*words):
    return Job(["--mpi", "-n", "2", "--agent-grace", "2s"],
               [SOLVER, UNTIL_FINISH[1], *words],
               env=MPI_ENV)


def main_returns(code):
    with start("--return", str(code), "1") as job:
        wait_launch(job, 1)
        job.finish(code=code)


def ends_without_mpi_finalize(code, expected):
    """MPICH's daemon ends the other rank, and then fails itself."""
    with start("--end", str(code), "1") as job:
        wait_launch(job, 1)
        job.finish(code=expected)


def agent_is_killed():
    """While rank 0 waits in MPI_Finalize, and rank 1 never comes."""
    with Job(["--mpi", "-n", "2", "--elastic-timeout", "2s",
              "--agent-grace", "1s"],
             [SOLVER, UNTIL_FINISH[1], "--stay", "1", "0"], env=MPI_ENV) as job:
        wait_launch(job, 1)
        job.let_finish()
        until(lambda: "the job is done" in job.text(), 20, "done")
        os.kill(job.agent(), signal.SIGKILL)
        job.finish()
        claim("of launch 0" not in job.text(), "which launch it is")
        until(lambda: not pids_of(job, lambda name, words: True), 20,
              "no process of the launch is left")


def agent_is_killed_before(then, code):
    """Behind done, while rank 1 stays."""
    with start("--stay", "1", "7") as job:
        wait_launch(job, 1)
        pid = job.pid(1)
        started = pids_of(job, lambda name, words: name == DAEMON)
        started += mpirun_of(job)
        job.let_finish()
        until(lambda: "the job is done" in job.text() and
              "rank 1 stays" in job.text(), 20, "done")
        os.kill(job.agent(), signal.SIGKILL)
        until(lambda: "took over" in job.text(), 20, "the next agent")
        then(pid, started[0])
        job.finish(code=code)


def rank_ends(pid, _):
    os.kill(pid, signal.SIGUSR1)


def mpi_is_killed(pid, started):
    os.kill(started, signal.SIGKILL)
    until(lambda: start_of(pid) is None, 20, "the rank ends as well")


def agent_of_an_earlier_launch_was_killed(code):
    """The one that has taken over knows all of its own launch."""
    with start("--return", str(code), "1") as job:
        wait_launch(job, 1)
        os.kill(job.agent(), signal.SIGKILL)
        wait_launch(job, 2)
        job.finish(code=code)


def waits_for_its_daemon(rank):
    with open(f"/proc/{rank}/wchan", encoding="ascii") as file:
        return file.read().startswith("unix_stream_read")


def daemon_is_killed():
    """While rank 0 waits there for rank 1, whose daemon says nothing."""
    with Hosts(2, renames=True) as hosts:
        if not hosts.has_nets:
            return
        with HostsJob(hosts, ["--mpi", "-n", "2"], ["--slots", "1"],
                      [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV) as job:
            wait_launch(job, 1)
            rank, agent = job.pid(0), job.agent_pid(job.host_of(0))
            killed, mute = (next(pid for pid in hosts.pids(job.host_of(r))
                                 if program_of(pid) == DAEMON) for r in (0, 1))
            os.kill(mute, signal.SIGSTOP)
            job.let_finish()
            until(lambda: not job.alive() or waits_for_its_daemon(rank), 20,
                  "rank 0 is in MPI_Finalize")
            os.kill(agent, signal.SIGSTOP)
            os.kill(killed, signal.SIGKILL)
            until(lambda: start_of(rank) is None, 20, "rank 0 has ended")
            os.kill(agent, signal.SIGCONT)
            os.kill(mute, signal.SIGCONT)
            job.finish()


def mpirun_fails_behind_its_daemon():
    """MPI_Abort may kill a daemon, but no rank was started."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mpirun")
        with open(path, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n'
                       '[ "$*" = --version ] && exec mpirun.mpich --version\n'
                       'while [ "$1" != -launcher-exec ]; do shift; done\n'
                       '"$2" proxy localhost false\nexit 213\n')
        os.chmod(path, 0o755)
        with Job(["--mpi", "-n", "2", "--mpirun", path], [SOLVER, "/dev/null"],
                 env=MPI_ENV) as job:
            code = job.process.wait(60)
            claim(code == 71, f"the job ended with {code}")


def test():
    need_solver()
    main_returns(7)
    ends_without_mpi_finalize(7, 7)
    ends_without_mpi_finalize(-7, 7)
    agent_is_killed()
    agent_is_killed_before(rank_ends, 7)
    agent_is_killed_before(mpi_is_killed, 0)
    agent_of_an_earlier_launch_was_killed(7)
    if FLAVOUR == "mpich":  # Open MPI's mpirun starts these ranks itself
        daemon_is_killed()
        mpirun_fails_behind_its_daemon()


main(test)
