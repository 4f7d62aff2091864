"""Under `regroup agent --mpi` on several hosts agents take the place of ssh:
after the loss of a daemon of the MPI all ranks are where they were; after the
loss of a host its ranks are on the spare host and all others where
they were, the state comes to the spare from another host's vault, and the
host that led and ran mpirun may be lost as well.

Covers: mpirun/mpirun.c proxies.c mpirun_line.c rank_main.c state_resume.c
plan.c flavour.c suspect.c
"""

import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, program_of, skip
from mpijob import (DAEMON, HOSTS_ENV, IS_LONG, SOLVER, check_value, launches,
                    need_solver, wait_launch)

GRACE_MS = 10000  # for the agent of a host that goes on without it


def hosts_of(job):
    """By rank."""
    return [job.host_of(rank) for rank in range(4)]


def kill_daemon(hosts, name):
    """Of the MPI, on a host where mpirun is not."""
    found = [pid for pid in hosts.pids(name) if program_of(pid) == DAEMON[:15]]
    claim(len(found) == 1, f"one {DAEMON} was expected on {name}: {found}")
    os.kill(found[0], signal.SIGKILL)


def test():
    need_solver()
    with Hosts(4, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "-n", "4"], ["--slots", "2"],
                      [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV) as job:
            wait_launch(job, 1)
            one, _, other, _ = first = hosts_of(job)
            claim(first == [one, one, other, other], f"first on {first}")
            job.wait_step(20)
            kill_daemon(hosts, other)
            wait_launch(job, 2)
            claim(hosts_of(job) == first, f"then on {hosts_of(job)}")
            job.wait_step(job.step() + 5)
            if IS_LONG:
                job.kill_host(other)
                wait_launch(job, 3)
                spare = hosts_of(job)[2]
                claim(hosts_of(job) == [one, one, spare, spare] and
                      spare not in (one, other), f"then on {hosts_of(job)}")
                job.wait_step(job.step() + 5)
                other = spare
            job.kill_host(one)
            wait_launch(job, 3 + IS_LONG)
            last = hosts_of(job)[0]
            claim(hosts_of(job) == [last, last, other, other] and
                  last not in (one, first[2]), f"at last on {hosts_of(job)}")
            job.wait_step(job.step() + 5)
            job.finish()
            job.check(is_mpi=True)
            claim(check_value(job, 4) > 30, "steps")
            told = launches(job)
            claim(len(told) >= 3 + IS_LONG, f"a line for each launch: {told}")
            claim(all(one[4] < GRACE_MS for one in told),
                  f"an agent that will not come back was waited for: {told}")


main(test)
