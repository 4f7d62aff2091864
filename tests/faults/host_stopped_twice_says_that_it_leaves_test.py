"""A host that drains is told to stop once more, while etcd is slow. The others
learn that it has gone, and do not wait as they would for an agent that has
died.

Covers: end.c"""
import os

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob
from proxy import Proxy


def stop_twice(hosts, job):
    worker = job.workers()[1]["pid"]
    etcd = hosts.etcd[0]
    job.lost.add("h2")
    etcd.stop()
    job.agents["h2"].terminate()
    until(lambda: "host h2 drains" in job.text("h2"), 20, "h2 drains")
    job.agents["h2"].terminate()
    until(lambda: worker not in hosts.pids("h2"), 20, "h2's worker ends")
    claim(job.agents["h2"].poll() is None, "h2 did not wait for etcd")
    etcd.go_on()


def test():
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2), only=["h1"]) as job:
        proxy = Proxy(hosts.etcd[0].port)
        proxy.closes = True  # so that the last word needs a connection
        job.agent("h2", "--etcd", proxy.url)
        job.wait_world(2)
        job.wait_step(5)
        stop_twice(hosts, job)
        until(lambda: job.agents["h2"].poll() is not None, 20, "h2 ends")
        claim(any(b'"gone":true' in value for value in proxy.written),
              "h2 has ended and not said so")
        job.wait_world(1, above=1)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
