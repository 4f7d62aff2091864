"""A host that joined got the commit, and has committed since. Its agent and
its worker are killed together: the next agent does not fetch that old commit
again, which no host holds any more.

Covers: fetch.c takeover.c"""
import os
import signal

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob


def test():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                             "200ms"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2, "--commit-every", 3),
                     only=["h1"]) as job:
        job.wait_step(10)
        job.agent("h2")
        until(lambda: "came from h1" in job.text("h2"), 30,
              "the commit comes to h2")
        job.wait_world(2, above=1)
        job.wait_step(job.step() + 30)
        worker, agent = job.workers()[1]["pid"], job.agent_pid("h2")
        before = job.generation()
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (agent, worker):
                os.kill(pid, signum)
        job.wait_world(2, above=before)
        claim("took over" in job.text("h2"), "no agent took over")
        claim("got no copy" not in job.text("h2"),
              "the next agent has fetched an old commit")
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0],
                             "--commit-every", 3))


main(test)
