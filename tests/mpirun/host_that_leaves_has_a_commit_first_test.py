"""A host that is drained ends its launch with a commit: rg_state_commit tells
all ranks so, they end by themselves, charged to none of them though their
Regroup threads may be late, and the next launch goes on from there on the
other hosts. If a host is lost while it leaves, nothing waits for its agent
to come back. A host that must leave before a commit is not called lost. Each
launch has the same environment, but for what says which it is; flags of
--mpirun arrive, and what an outer launcher has set does not.

Covers: mpirun/mpirun.c mpirun_line.c ranks.c rank_main.c drain.c publish.c
thread.c suspect.c
"""

import json
import os
import re
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, skip, until
from mpijob import FINAL, HOSTS_ENV, SOLVER, launches, need_solver, \
    value_after, wait_launch

ENV = dict(HOSTS_ENV, OMPI_COMM_WORLD_RANK="7", PMIX_NAMESPACE="outer",
           OMPI_MCA_orte_ess_num_procs="9", KEPT="this",
           REGROUP_FAILPOINT="leave:rank0:sleep100")


def environment(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
        return dict(word.split("=", 1) for word in file.read().split("\0")
                    if "=" in word)


def check_environment(job, rank, restart):
    env = environment(job.pid(rank))
    want = {"REGROUP_JOB": job.name, "REGROUP_RESTART": str(restart),
            "REGROUP_GENERATION": str(restart + 1), "KEPT": "this",
            "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_MCA_a_flag": "arrives",
            "HWLOC_COMPONENTS": None}
    found = {name: env.get(name) for name in want}
    claim(found == want, f"rank {rank} has {found}")
    claim("outer" not in env.get("PMIX_NAMESPACE", ""), "an outer launch's")


def lost_while_it_leaves(job, there):
    """Its ranks have ended, and those of the next launch have yet to meet."""
    key = f"/regroup/v1/{job.name}/all/mpirun"
    job.drain(there)
    until(lambda: json.loads(job.hosts.keys(key)[key])["number"] == 3, 20,
          "launch 3 begins")
    job.kill_host(there)
    wait_launch(job, 3)
    told = launches(job)[-1]
    claim(there not in told[2] and told[4] < 9000, f"{told}")


def late(job):
    """Its rank comes to no commit before the deadline."""
    there = job.host_of(1)
    os.kill(job.pid(1), signal.SIGSTOP)
    job.lost.add(there)
    job.run_on(there, "drain", "--deadline", "300ms", there)
    wait_launch(job, 4)
    told = launches(job)[-1]
    claim(told[5] == f"after host {there} has left before a commit", f"{told}")


def test():
    need_solver()
    with Hosts(5) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "-n", "2", "--mpirun",
                              "mpirun --mca a_flag arrives"],
                      ["--slots", "1"], [SOLVER, UNTIL_FINISH[1]],
                      env=ENV) as job:
            wait_launch(job, 1)
            check_environment(job, 1, 0)
            job.wait_step(10)
            there = job.host_of(1)
            job.drain(there)
            wait_launch(job, 2)
            check_environment(job, 1, 1)
            ends = set(re.findall(r"rank \d ends at step (\d+)", job.text()))
            told = launches(job)[-1]
            claim(len(ends) == 1, f"ranks end at steps {ends}")
            claim(told[3] == f"step {ends.pop()} (0 rolled back)", f"{told}")
            claim(there not in told[2], f"{told}")
            claim(told[5] == "after a host leaves", f"{told}")
            claim(job.agents[there].wait(20) == 0, "the host leaves with 0")
            lost_while_it_leaves(job, job.host_of(1))
            late(job)
            job.finish()
            job.check(is_mpi=True)
            step, value, _ = FINAL.findall(job.text())[-1]
            claim(int(value, 16) in [value_after(int(step), 2)], "the result")


main(test)
