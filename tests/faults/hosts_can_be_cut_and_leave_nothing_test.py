"""Hosts of tests/lib/hosts.py: every kind of cut loses what it says and
nothing else, a reset is seen by both ends, and nothing is left of them, also
when their maker is killed.

Covers: hosts.py"""

import os
import signal
import socket
import subprocess
import sys
import time

from house import claim, main, skip, until
from hosts import Hosts, inside, makers

PORT = 7777


def hears(hosts, sender, receiver, tries):
    """Whether a datagram arrives."""
    with inside(hosts.net(receiver)):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(hosts.net(sender)):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.bind((hosts.address(receiver), PORT))
        there.settimeout(0.1)
        for _ in range(tries):
            try:
                here.sendto(b"x", (hosts.address(receiver), PORT))
                return there.recv(9) == b"x"
            except socket.timeout:
                continue
            except OSError:  # an interface that is down
                time.sleep(0.1)
    return False


def claim_ways(hosts, what, lost):
    for a in hosts.names:
        for b in hosts.names:
            if a != b:  # a link that has come up needs up to a second
                is_lost = (a, b) in lost
                claim(hears(hosts, a, b, 3 if is_lost else 50) != is_lost,
                      f"{what}: {a} to {b}")


def connected(hosts, a, b):
    with inside(hosts.net(b)):
        listener = socket.create_server((hosts.address(b), PORT))
    with inside(hosts.net(a)), listener:
        here = socket.create_connection((hosts.address(b), PORT), 5)
        return here, listener.accept()[0]


def claim_reset(hosts):
    here, there = connected(hosts, "h1", "h2")
    with here, there:
        claim(hosts.reset("h1", "h2") == 1, "one connection was reset")
        there.settimeout(5)
        try:
            claim(there.recv(1) != b"", "h2 has read an end, not a reset")
        except ConnectionResetError:
            pass


def use(hosts):
    if not hosts.has_nets:
        skip("network namespaces need root and iproute2")
    claim_ways(hosts, "whole", set())
    hosts.cut("h2")
    alone = {("h1", "h2"), ("h2", "h1"), ("h2", "h3"), ("h3", "h2")}
    claim_ways(hosts, "h2 is cut", alone)
    hosts.heal("h2")
    claim_ways(hosts, "healed", set())
    hosts.unplug("h2")
    claim_ways(hosts, "h2 is unplugged", alone)
    hosts.heal()
    hosts.cut_one_way("h3", "h1")
    claim_ways(hosts, "h3 reaches h1 no more", {("h3", "h1")})
    hosts.heal("h1")
    claim_ways(hosts, "healed again", set())
    claim_reset(hosts)
    sleeper = hosts.popen("h3", ["sleep", "1000"])
    claim(hosts.pids("h3") == [sleeper.pid], "the sleeper is on h3")
    hosts.kill_host("h3")
    claim(sleeper.wait(5) == -signal.SIGKILL, "the sleeper was killed")


def be_killed():
    with Hosts(2) as hosts:
        sleeper = hosts.popen("h1", ["sleep", "1000"])
        print(hosts.prefix, sleeper.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def claim_swept():
    done = subprocess.run([sys.executable, __file__, "be-killed"],
                          stdout=subprocess.PIPE, text=True, check=False)
    claim(done.returncode == -signal.SIGKILL, "the maker was killed")
    prefix, pid = done.stdout.split()
    until(lambda: prefix not in makers() and not os.path.exists(f"/proc/{pid}"),
          20, "nothing is left of a maker that was killed")


def test():
    if sys.argv[1:] == ["be-killed"]:
        be_killed()
    with Hosts(3) as hosts:
        use(hosts)
    claim(hosts.prefix not in makers(), "nothing is left")
    claim_swept()


main(test)
