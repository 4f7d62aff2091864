"""Before the first commit of a world that rg_world_wait has formed: a worker
that dies at any phase, etcd away, a drain, a host that comes back. All workers
of that world start again together, or all train on; no break uses up a
restart; and there are no needless waits.

Covers: world_wait.c generation.c plan.c outage.c drain.c"""
import os
import sys

from house import Job, claim, main, touch, until
from hosts import Hosts, HostsJob
from waiters import WAITER, worlds

PHASES = [
    "decided:rank2:gen1:start1:kill",
    "coll.start:rank1:gen1:start1:kill",  # the tables of sets are compared
    "set.create:rank1:gen1:start1:kill",
    "sync:rank2:gen1:start1:kill",  # in rg_run
    "commit.before_agree:rank1:step0:start1:kill",
    "commit.after_agree:rank0:step0:start1:kill",  # on record nowhere
    "commit.after_agree:rank2:step0:start1:kill",  # or begun meanwhile
]


def count(job, word):
    return job.text().count(word)


def ready(text):
    """{(slot, size, generation)} of the calls of rg_world_wait that gave one."""
    return {(slot, size, g) for slot, _, size, g in worlds(text)}


def phases():
    for point in PHASES:
        with Job(["-n", "3", "--max-restarts", "1"], [WAITER],
                 env={"REGROUP_FAILPOINT": point}) as job:
            job.finish()
            text = job.text()
            claim("strikes" in text, f"{point} has not struck")
            claim(text.count(" ran RG_OK") == 3, f"{point}: not all trained")
            recalled = text.count("since generation 1 has ended before its "
                                  "first commit")
            joining = text.count("waited RG_JOINING")
            last = {one for one in ready(text) if one[2] == 2}
            claim((recalled, joining) in ((2, 0), (2, 3), (0, 1)),
                  f"{point}: {recalled} are recalled, {joining} join")
            claim((joining == 0) == (last == {(slot, 3, 2) for slot in
                                              range(3)}),
                  f"{point}: the second world is {last}")


def wait_world(job, size, generation):
    until(lambda: len([one for one in ready(job.text())
                       if one[1:] == (size, generation)]) > 0 and
          count(job, "fetches") >= 1 and len(job.workers()) == size, 30,
          f"a first world of {size} as generation {generation}")
    return {worker["pid"] for worker in job.workers().values()}


def a_death_without_etcd(hosts, job):
    """The world that follows waits for etcd; its workers start again at once."""
    etcd = hosts.etcd[0]
    before = wait_world(job, 3, 1)
    etcd.stop()
    os.kill(min(pid for pid in before if pid in hosts.pids("h1")), 9)
    until(lambda: count(job, "generation 1 is broken and cannot be followed") >
          0, 20, "the standstill is said")
    claim(count(job, "started again with") + count(
        job, "starts again with all others") == 2, "two are recalled")
    etcd.go_on()
    after = wait_world(job, 3, 2)
    claim(not before & after, "a worker outlived its first world")


def a_drain(job):
    """Its deadline passes, since rank 0 fetches on: the host goes all the same,
    with 0."""
    before = wait_world(job, 3, 2)
    job.drained.add("h2")
    left = job.run("drain", "h2", "--deadline", "1s", "test", timeout=20)
    claim(left.returncode == 0, left.stderr)
    until(lambda: any(one[1] == 2 for one in ready(job.text())), 20,
          "a first world without h2")
    generation = max(one[2] for one in ready(job.text()))
    claim(not before & wait_world(job, 2, generation), "a worker stayed")


def a_commit_without_etcd(hosts, job):
    """No worker enters fn before it is on record. One that waits for it on
    a host that has come back joins then."""
    etcd = hosts.etcd[0]
    broken = count(job, "is broken and cannot be followed")
    job.agent("h2")
    until(lambda: "waited RG_OK" in job.text("h2") and
          count(job, "after which the worker in slot 0 may join"), 20,
          "the worker of h2 waits")
    etcd.stop()
    touch(f"{hosts.folder}/gate")
    until(lambda: count(job, "cannot begin until etcd is back"), 20,
          "what is awaited is said")
    claim(count(job, " trains ") == 0, "fn was entered before the record")
    claim(count(job, "is broken and cannot be followed") == broken,
          "nothing is broken")
    etcd.go_on()
    until(lambda: "waited RG_JOINING" in job.text("h2") and
          " trains " in job.text("h2"), 20, "h2 joins")
    touch(f"{hosts.folder}/until")
    job.finish()
    claim(count(job, " ran RG_OK") == 3, "not all trained")


def outages():
    with Hosts(2) as hosts:
        command = [WAITER, f"gate={hosts.folder}/gate",
                   f"until={hosts.folder}/until"]
        with HostsJob(hosts, ["--min", "1", "--max", "3", "--start-timeout",
                              "1s", "--agent-grace", "2s"],
                      {"h1": ["--slots", "2"], "h2": ["--slots", "1"]},
                      command) as job:
            a_death_without_etcd(hosts, job)
            a_drain(job)
            a_commit_without_etcd(hosts, job)


def test():
    {"phases": phases, "outages": outages}[sys.argv[1]]()


main(test)
