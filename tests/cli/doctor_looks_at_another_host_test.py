"""`regroup doctor --peer HOST`: from here to another host, by its name in a job,
its address or a port; what is right is ok, and a host that is cut off, shut,
unknown, at loopback or behind smaller packets is named with a remedy.

Covers: doctor_peer.c peer_find.c"""

import socket
import subprocess

from hosts import Hosts, HostsJob, ip
from house import PATIENCE, REGROUP, claim, main, trainer, until

TRAINER = ("--steps", "100000", "--step-ms", "5")


def run(hosts, host, *words):
    """`regroup` in the network of a host."""
    process = hosts.popen(host, [REGROUP, *words], text=True,
                          env=hosts.environment(host), stderr=subprocess.PIPE,
                          stdout=subprocess.PIPE)
    out, said = process.communicate(timeout=60 * PATIENCE)
    return subprocess.CompletedProcess(words, process.returncode, out, said)


def verdicts(got):
    return {line[6:24].strip(): (line[:4].strip(), line[26:])
            for line in got.stdout.splitlines()}


def look(job, host, *flags, code=0, **expected):
    """expected: name of a line with _ for spaces: its verdict, or the verdict
    and a part of its sentence."""
    got = run(job.hosts, host, "doctor", "--peer", *flags)
    found = verdicts(got)
    claim(got.returncode == code, f"{flags}: {got.returncode} {got.stdout}"
          f"{got.stderr}")
    claim((code == 1) == ("fail" in [v for v, _ in found.values()]),
          f"{flags}: {got.stdout}")
    for name, said in expected.items():
        verdict, part = said if isinstance(said, tuple) else (said, "")
        name = name.replace("_", " ").replace("agent ", "agent, ").replace(
            "workers ", "workers, ")
        claim(name in found and found[name][0] == verdict and
              part in found[name][1], f"{flags}, {name}: {got.stdout}")
    return found


def here_alone():
    """What needs no network of its own."""
    with Hosts(2, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "4", "--max", "4"], ["--slots", "1"],
                     trainer(*TRAINER)) as job:
        until(lambda: [w["state"] for h in (job.status() or
                                            {"hosts": []})["hosts"]
                       for w in h["workers"]] == ["door"] * 2, 20, "two hosts")
        there = ["--job", "test", "--etcd", hosts.urls]
        look(job, "h1", "h2", *there, code=1, record="ok",
             name=("fail", "--advertise or --interface"), route="warn",
             own_address=("fail", "127.0.0.1, loopback"), agent_TCP="ok",
             agent_UDP="ok", workers_TCP="ok", round_trip="ok")
        look(job, "h1", "h2", "--job", "tset", code=1,
             record=("fail", "did you mean test?"))
        look(job, "h1", "nobody", *there, code=1,
             record=("fail", "no host nobody; its hosts are h1, h2"))
        look(job, "h1", "h2", "--job", "other", "--etcd", hosts.urls, code=1,
             record=("fail", "job other has no host"))
        look(job, "h1", "h2", "--job", "test", "--etcd", "http://127.0.0.1:1",
             code=1, record=("fail", "127.0.0.1:1"))
        look(job, "h1", "no.such.host.invalid", code=1,
             name=("fail", "/etc/hosts"))


def over_a_network():
    with Hosts(3) as hosts:
        hosts.need_nets()
        with HostsJob(hosts, ["--min", "4", "--max", "4"], ["--slots", "1"],
                      trainer(*TRAINER), only=["h1", "h2"]) as job:
            until(lambda: [w["state"] for h in (job.status() or
                                                {"hosts": []})["hosts"]
                           for w in h["workers"]] == ["door"] * 2, 20,
                  "two hosts")
            along(hosts, job, ["--job", "test", "--etcd", hosts.urls])


def along(hosts, job, there):
    h2, h3 = hosts.address("h2"), hosts.address("h3")
    good = {"name": "ok", "route": ("ok", "from 10.77.0.1 by eth0"),
            "own_address": ("ok", "10.77.0.1"), "agent_TCP": "ok",
            "round_trip": "ok", "packet_size": ("ok", "1500")}
    for name in ("h2", h2):
        look(job, "h1", name, *there, record=("ok", h2), agent_UDP="ok",
             workers_TCP=("ok", "1 of 1"), **good)
    # the job runs here, so its etcd is known
    found = look(job, "h1", "h2", "--job", "test", record="ok", agent_UDP="ok",
                 **good)
    port = found["record"][1].rpartition(" ")[2]
    look(job, "h1", f"{h2}:{port}", **good)
    look(job, "h1", h2, agent_TCP=("warn", "no port is known"), name="ok")

    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        port = shut.getsockname()[1]
    look(job, "h1", f"{h3}:{port}", agent_TCP=("warn", "as long as no agent"))

    ip("-n", hosts.net("h2"), "link", "set", "eth0", "mtu", "1300")
    look(job, "h1", "h2", *there, packet_size=("warn", "1300"))
    ip("-n", hosts.net("h2"), "link", "set", "eth0", "mtu", "1500")

    hosts.cut_one_way("h2", "h1")
    look(job, "h1", "h2", *there, code=1, record="ok",
         agent_TCP=("fail", "drops packets"),
         agent_UDP=("fail", "drops packets"),
         workers_TCP=("fail", "drops packets"))
    hosts.heal()
    look(job, "h1", "h2", *there, agent_UDP="ok")

    ip("-n", hosts.net("h1"), "route", "add", "unreachable", "10.99.0.0/16")
    look(job, "h1", "10.99.0.1:80", code=1, route=("fail", "ip route"))


def test():
    here_alone()
    over_a_network()


main(test)
