"""Two living agents can't have the same host name: the second is refused. One
that starts after the first has died takes its place at once, without waiting
for the dead one's lease.

Covers: open_job.c"""
import time

from house import UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob

FLAGS = (*UNTIL_FINISH, "--step-ms", "5")
LEASE_S = 10


def is_refused(hosts, job):
    command = list(job.agents["h2"].args)
    at = command.index("--history")
    del command[at:at + 2]
    second = hosts.popen("h3", command, env=hosts.environment("h3"))
    code = until(lambda: second.poll() is not None and [second.returncode], 20,
                 "the second h2 ends")
    claim(code == [69], f"the second h2 ended with {code}, not 69")


def replaces_h2(job):
    """After how many seconds the next h2 has a place, where the machine is not
    too busy for that."""
    before = job.generation()
    job.kill_host("h2")
    began = time.monotonic()
    job.agent("h2")
    job.wait_world(2, above=before)
    return time.monotonic() - began


def test():
    with Hosts(3, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer(*FLAGS), only=["h1", "h2"]) as job:
        job.wait_world(2)
        is_refused(hosts, job)
        claim(job.generation() == 1, "the refused agent changed the world")
        claim(any(replaces_h2(job) < LEASE_S for _ in range(3)),
              "the new h2 has waited for the old one's lease")
        job.finish()
        job.check(trained=FLAGS)


main(test)
