"""Which address of a host others use: that of --interface, by name or network,
or --advertise; one that does not exist is refused in a sentence, and so is a
loopback address where another host would need it.

Covers: host_address.c address.c"""
import os

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

WRONG = (
    (("--interface", "nosuch0"), "--interface nosuch0: no interface"),
    (("--interface", "192.168.77.0/24"), "--interface 192.168.77.0/24: no"),
    (("--advertise", "a.host.example"), "--advertise a.host.example is no"),
    (("--advertise", "10.77.0.250"), "at 10.77.0.250 for other agents"),
)
LOOPBACK = 71


def sentences(job, host):
    return [line for line in job.text(host).splitlines()
            if line.startswith("regroup: ")]


def refused(job, flags, sentence):
    before = len(sentences(job, "h4"))
    agent = job.agent("h4", *flags)
    job.lost.add("h4")
    until(lambda: agent.poll() is not None, 20, "the agent of h4 ends")
    said = sentences(job, "h4")[before:]
    claim(agent.returncode != 0 and len(said) == 1 and sentence in said[0],
          f"{flags}: code {agent.returncode}, said {said}")
    return agent.returncode


def test():
    flags = {"h1": ["--slots", "1", "--interface", "eth0"],
             "h2": ["--slots", "1", "--interface", "10.77.0.0/24"],
             "h3": ["--slots", "1", "--advertise", "10.77.0.3"],
             "h4": ["--slots", "1"]}
    with Hosts(4) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "4", "--start-timeout",
                             "3s"], flags,
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2), only=["h1", "h2", "h3"]) as job:
        job.wait_world(3)
        shown = {h["id"]: h["address"] for h in job.answer()["hosts"]}
        claim(shown == {h: hosts.address(h) for h in ("h1", "h2", "h3")},
              f"addresses are {shown}")
        for words, sentence in WRONG:
            refused(job, words, sentence)
        code = refused(job, ("--advertise", "127.0.0.1"), "loopback address")
        claim(code == LOOPBACK, f"a loopback address ends with {code}")
        job.wait_step(job.step() + 20)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
