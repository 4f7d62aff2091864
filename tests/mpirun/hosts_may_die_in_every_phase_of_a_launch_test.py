"""One job under `regroup agent --mpi` with three ranks on five hosts loses a
rank while it copies its part of a commit, before the agreement and behind it;
two hosts within one commit, and mpirun and a daemon of the MPI in others, before
the agreement and when some ranks are behind it; a host while a launch starts its daemons; a rank
before it has called rg_init; and in MPI_Finalize a rank, mpirun or a host,
another one with each MPI. Each ends in the next launch, but for the last, which
is no fault, and no committed step is lost.

Covers: mpirun/mpirun.c ranks.c proxies.c plan.c
"""

import contextlib
import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, program_of, skip, until
from mpijob import (DAEMON, FLAVOUR, HOSTS_ENV, MPIRUN, SOLVER, check_value,
                    launches, need_solver)

HELD, HELD_FOR_MPIRUN, HELD_FOR_DAEMON = 40, 60, 80  # by rank 1, in a commit
COMMITS = {"REGROUP_FAILPOINT":
           "commit.copy:rank2:step10:gen1:kill,"
           "commit.before_agree:rank1:step20:gen2:kill,"
           "commit.after_agree:rank0:step30:gen3:kill,"
           f"commit.before_agree:rank1:step{HELD}:gen4:sleep60000,"
           f"commit.before_agree:rank1:step{HELD_FOR_MPIRUN}:gen5:sleep60000,"
           f"commit.after_agree:rank1:step{HELD_FOR_DAEMON}:gen6:sleep60000"}


def newest(job):
    return max([one[0] for one in launches(job)] + [0])


def goes_on(job, number, step=None):
    """Steps on behind `step`, or the present one. A launch that comes to no
    world has a number, and no line."""
    until(lambda: newest(job) >= number or not job.alive(), 30,
          f"launch {number}")
    job.wait_step((job.step() if step is None else step) + 5)


def pids_on(hosts, host, program):
    found = []
    for pid in hosts.pids(host):
        with contextlib.suppress(OSError):
            name = program_of(pid) or ""
            if name.startswith(os.path.basename(program)[:15]):
                found.append(pid)
    return found


def are_ready(job, n):
    hosts = (job.status() or {"hosts": []})["hosts"]
    return sum(host["state"] == "ready" for host in hosts) == n


def loses_two_hosts_in_a_commit(job):
    """Rank 0's, which runs mpirun, and another one."""
    job.wait_step(HELD - 1)
    victims = {job.host_of(0), job.host_of(2)}
    for host in victims:
        job.kill_host(host)
    goes_on(job, 5, HELD)
    claim(len(launches(job)) == 5, f"{launches(job)}")
    claim(victims.isdisjoint({job.host_of(r) for r in range(3)}), "victims")
    for host in victims:
        job.agent(host)
    until(lambda: are_ready(job, 5) or not job.alive(), 20, "five hosts")


def loses_one_in_a_commit(hosts, job, last, host, program):
    """Rank 1 stays in the commit that follows the last step, or ends it. One
    world follows, but the MPI may first fail to start on a busy machine."""
    number, worlds = newest(job), len(launches(job))
    job.wait_step(last)
    found = pids_on(hosts, host, program)
    claim(len(found) == 1, f"one {program} was expected on {host}: {found}")
    os.kill(found[0], signal.SIGKILL)
    goes_on(job, number + 1, last)
    claim(len(launches(job)) == worlds + 1, f"{launches(job)}")


def begin_launch(job):
    """By the death of a rank of the one before."""
    os.kill(job.pid(1), signal.SIGKILL)


def loses_a_host_of_a_launch_that_begins(hosts, job):
    number, host = newest(job), job.host_of(2)
    before = set(pids_on(hosts, host, DAEMON))
    begin_launch(job)
    until(lambda: set(pids_on(hosts, host, DAEMON)) - before or
          newest(job) > number or not job.alive(), 20, "a daemon")
    job.kill_host(host)
    goes_on(job, number + 1)
    job.agent(host)


def loses_a_rank_before_rg_init(hosts, job):
    number, host = newest(job), job.host_of(2)
    before = set(pids_on(hosts, host, SOLVER))
    begin_launch(job)
    new = until(lambda: set(pids_on(hosts, host, SOLVER)) - before or
                not job.alive(), 20, "a rank")
    with contextlib.suppress(OSError):
        os.kill(new.pop(), signal.SIGKILL)
    goes_on(job, number + 1)


def loses_one_at_the_end(hosts, job):
    """Rank 2 stays, and the others wait for it in MPI_Finalize."""
    if FLAVOUR == "mpich":
        job.kill_host(job.host_of(1))
        return
    victim = {"openmpi": (job.host_of(2), SOLVER),
              "openmpi5": (job.host_of(0), MPIRUN)}[FLAVOUR]
    os.kill(pids_on(hosts, *victim)[0], signal.SIGKILL)


def test():
    need_solver()
    with Hosts(5, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        env = dict(HOSTS_ENV, **{host: COMMITS for host in hosts.names})
        with HostsJob(hosts, ["--mpi", "-n", "3", "--agent-grace", "2s"],
                      ["--slots", "1"],
                      [SOLVER, UNTIL_FINISH[1], "--stay", "2"],
                      env=env) as job:
            loses_two_hosts_in_a_commit(job)
            loses_one_in_a_commit(hosts, job, HELD_FOR_MPIRUN - 1,
                                  job.host_of(0), MPIRUN)
            loses_one_in_a_commit(hosts, job, HELD_FOR_DAEMON,
                                  job.host_of(2), DAEMON)
            loses_a_host_of_a_launch_that_begins(hosts, job)
            loses_a_rank_before_rg_init(hosts, job)
            job.let_finish()
            until(lambda: "final step" in job.text() or not job.alive(), 20,
                  "the program's end")
            loses_one_at_the_end(hosts, job)
            job.finish()
            job.check(is_mpi=True)
            claim(check_value(job, 3) > 20, "steps")
            claim("steps lost: 0" in job.text(), "a committed step was lost")


main(test)
