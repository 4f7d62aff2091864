"""A host that alone holds its shards is cut off from the others, and its keys
vanish as if its lease had ended. Back again, it is stopped while it sends the
shards to the world that has left it out, and its keys vanish once more. That
costs no step: a decision names it as a source without a record, and the next
one waits for it although it has neither a record nor a place.

Covers: resume.c plan.c leader.c"""
import os
import signal

from house import UNTIL_FINISH, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob, text64

SHARDS = ("--bytes", 30000, "--shard-bytes", 6000000)


def record(job, host):
    return f"/regroup/v1/{job.name}/lead/host/{host}"


def end_lease(hosts, job, host):
    """As etcd does, but for the lease itself, which the host would notice."""
    keys = hosts.range(f"/regroup/v1/{job.name}/")
    lease = next(kv["lease"] for kv in keys
                 if kv["key"] == text64(record(job, host)))
    for kv in keys:
        if kv.get("lease") == lease:
            hosts.ask("kv/deleterange", key=kv["key"])


def waits(job):
    status = job.status("h1") or {}
    return [w["what"] for w in status.get("waiting", []) if w["kind"] == "parts"]


def wait_for_parts_of_h3(job):
    said = until(lambda: job.alive() and waits(job), 30,
                 "the leader waits for parts")
    claim("newest commits: h3" in said[0], f"it waits for {said[0]}")


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b")")[2].split()[0] == b"T"


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3", "--agent-grace",
                             "100ms"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 2, *SHARDS),
                     env={"REGROUP_LOG": "info,agent=debug", "h3": {
                         "REGROUP_FAILPOINT": "transfer.source:stop"}}) as job:
        job.wait_world(3)
        job.wait_step(10)
        generation = job.generation()
        agent = job.agent_pid("h3")
        hosts.cut_between(["h3"], ["h1", "h2"])
        wait_for_parts_of_h3(job)
        end_lease(hosts, job, "h3")
        hosts.heal()
        until(lambda: job.alive() and is_stopped(agent), 20,
              "h3 stops while it sends its shards")
        until(lambda: job.alive() and not hosts.keys(record(job, "h3")), 30,
              "the lease of h3 ends")
        until(lambda: "got no copy from h3" in job.text(), 20,
              "the world that lacks them is broken")
        wait_for_parts_of_h3(job)
        os.kill(agent, signal.SIGCONT)
        job.wait_world(3, above=generation)
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0], *SHARDS))
        claim("steps lost: 0" in job.text("h1"), "steps were lost")


main(test)
