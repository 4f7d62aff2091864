"""Whichever process of a launch is killed, mpirun, a rank, a shim, a daemon, a
proxy or an agent, and at whatever moment, from the first of a launch to well
within its steps: another launch follows, and no committed step is lost.

    launches_survive_deaths_at_any_moment_test.py [MPI [TRIES [SEED [HOSTS]]]]

runs for as long as you like; it prints each try.

Covers: mpirun/mpirun.c sweep.c proxies.c ranks.c fabric.c rank_main.c
plan.c
"""

import contextlib
import os
import random
import signal
import sys
import time

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, Failed, main, skip, until, words_of
from mpijob import (DAEMON, HOSTS_ENV, MPIRUN, SOLVER, check_value, launches,
                    need_solver, wait_launch)

LATEST_S = 2.0
PROGRAM = os.path.basename(SOLVER)
KINDS = (MPIRUN, PROGRAM, "rank", DAEMON, "proxy", "agent")


def children_of(pid):
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), \
                    open(f"/proc/{pid}/task/{thread}/children",
                         encoding="ascii") as children:
                found += map(int, children.read().split())
    return found


def kind_of(pid):
    words = words_of(pid)
    name = os.path.basename(words[0]) if words else ""
    return words[1] if name.startswith("regroup") and len(words) > 1 else \
        name.split(".")[0]


def pids_of(job, kind):
    """Below the keepers of all hosts."""
    todo, found = [p.pid for p in job.agents.values()], []
    keepers = set(todo)
    while todo:
        pid = todo.pop()
        todo += children_of(pid)
        if pid not in keepers and kind_of(pid) == kind:
            found.append(pid)
    return found


def newest(job):
    told = launches(job)
    return told[-1][0] if told else 0


def kill_one(job, kind, chance):
    """One of them, as soon as there is one; None: there is none."""
    end = time.monotonic() + (1 if kind == "proxy" else 10)
    while time.monotonic() < end:
        pids = pids_of(job, kind)
        with contextlib.suppress(OSError):
            if pids:
                pid = chance.choice(pids)
                os.kill(pid, signal.SIGKILL)
                return pid
        time.sleep(0.002)
    return None


def begin_launch(job, chance):
    """Kill a rank; the next launch's mpirun is there."""
    before = pids_of(job, MPIRUN)
    kill_one(job, PROGRAM, chance)
    until(lambda: set(pids_of(job, MPIRUN)) - set(before) or
          not job.alive(), 20, "another launch begins")


def strike(job, chance, kind):
    """Kill one at some moment of a launch that begins now."""
    begin_launch(job, chance)
    begun = time.monotonic()
    moment = 0 if kind == "proxy" else \
        chance.uniform(0, LATEST_S) * chance.choice((0.05, 0.2, 1))
    while time.monotonic() < begun + moment:
        time.sleep(0.001)
    return kill_one(job, kind, chance), begun


def play(job, chance, kind):
    """One try: what it took, in seconds. A proxy may be over before it is seen:
    then in another launch."""
    world = newest(job)
    for _ in range(10):
        pid, begun = strike(job, chance, kind)
        if pid is not None:
            break
    else:
        raise Failed(f"no process is a {kind}")
    struck = time.monotonic()
    expected = max(world, newest(job)) + 1
    until(lambda: newest(job) >= expected or not job.alive(), 40,
          f"launch {expected}")
    print(f"{kind} {pid} after {struck - begun:.3f} s: launch {newest(job)} "
          f"{time.monotonic() - struck:.3f} s later", flush=True)


def test():
    given = [int(word) for word in sys.argv[2:]] + [0, 0, 0]
    tries, seed, n = given[0] or len(KINDS), given[1] or 1, given[2] or 2
    chance = random.Random(seed)
    need_solver()
    with Hosts(n, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "-n", str(2 * n), "--max-restarts",
                              "1000000"], ["--slots", "2"],
                      [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV) as job:
            wait_launch(job, 1)
            for i in range(tries):
                play(job, chance, KINDS[i % len(KINDS)])
            # MPICH over UCX can hang in the MPI_Finalize of ranks that have
            # hardly started
            job.wait_step(job.step() + 5)
            job.finish()
            job.check(is_mpi=True)
            check_value(job, 2 * n)


main(test)
