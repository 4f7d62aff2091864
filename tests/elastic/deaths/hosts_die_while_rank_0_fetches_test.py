"""While rank 0 fetches what all need: an agent that is killed ends no world. A
lost host does, and a host with spares takes its place beside those that
start again.

Covers: plan.c leader.c"""
import os

from hosts import Hosts, HostsJob
from house import claim, main_all, touch, until
from waiters import WAITER, worlds


def first_world(job, size, above=0):
    """The processes of the newest first world, once all know it."""
    def found():
        all_of = worlds(job.text())
        newest = max((world[3] for world in all_of), default=0)
        return newest > above and \
            [w[2] for w in all_of if w[3] == newest] == [size] * size
    until(found, 30, f"a first world of {size}")
    return until(lambda: len(job.workers()) == size and
                 {w["pid"] for w in job.workers().values()}, 20, "its pids")


def test_hosts_and_agents_die_while_rank_0_fetches():
    with Hosts(3) as hosts:
        job = HostsJob(hosts, ["--min", "2", "--max", "4",
                               "--agent-grace", "1s"], ["--slots", "2"],
                       [WAITER, f"gate={hosts.folder}/gate"],
                       only=hosts.names[:2])
        with job:
            first = first_world(job, 4)
            job.kill_agent(job.leader())
            until(lambda: "took over" in job.text(), 20, "the next agent")
            claim(first_world(job, 4) == first, "an agent cost a worker")
            job.agent(hosts.names[2])  # its workers are spare, and wait
            last = job.host_of(3)
            job.kill_host(last)
            again = first_world(job, 4, above=1)
            claim(not first & again, "a worker outlived its first world")
            touch(os.path.join(hosts.folder, "gate"))
            job.finish()
            text = job.text()
            claim(text.count("fetches") == 2, "a worker fetched again")
            claim(text.count(" ran RG_OK") == 4, "not all four trained")


main_all(globals())
