"""Under `regroup agent --mpi` on several hosts agents take the place of ssh:
after the loss of a host its ranks are on the spare host and all others where
they were, the state comes to the spare from another host's vault, and the
host that led and ran mpirun may be lost as well.

Covers: mpirun/mpirun.c proxies.c mpirun_line.c rank_cmd.c state_resume.c plan.c
"""

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, skip
from mpijob import (HOSTS_ENV, SOLVER, check_value, launches, need_solver,
                    wait_launch)


def hosts_of(job):
    """By rank."""
    return [job.host_of(rank) for rank in range(4)]


def test():
    need_solver()
    with Hosts(4) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "-n", "4"], ["--slots", "2"],
                      [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV) as job:
            wait_launch(job, 1)
            one, _, other, _ = first = hosts_of(job)
            claim(first == [one, one, other, other], f"first on {first}")
            job.wait_step(20)
            job.kill_host(other)
            wait_launch(job, 2)
            spare = hosts_of(job)[2]
            claim(hosts_of(job) == [one, one, spare, spare] and
                  spare not in (one, other), f"then on {hosts_of(job)}")
            job.wait_step(job.step() + 5)
            job.kill_host(one)
            wait_launch(job, 3)
            last = hosts_of(job)[0]
            claim(hosts_of(job) == [last, last, spare, spare] and
                  last not in (one, other), f"at last on {hosts_of(job)}")
            job.wait_step(job.step() + 5)
            job.finish()
            job.check(is_mpi=True)
            claim(check_value(job, 4) > 30, "steps")
            claim([one[0] for one in launches(job)], "no line of a launch")


main(test)
