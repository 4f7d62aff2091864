"""The switch that the soak puts between hosts loses, repeats, holds back and
filters frames as its rules say, and forgets them.

Covers: wire.c"""

import socket
import time

from house import claim, main
from hosts import Hosts, inside

PORT = 4242


def bound(hosts, name):
    with inside(hosts.net(name)):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((hosts.address(name), PORT))
    sock.settimeout(0.3)
    return sock


def arrived(sender, receiver, hosts, sizes):
    """The sizes of what came of datagrams of these sizes."""
    for size in sizes:
        sender.sendto(bytes(size), (hosts.address("h2"), PORT))
    found = []
    try:
        while True:
            found.append(len(receiver.recv(2000)))
    except TimeoutError:
        return sorted(found)


def test():
    with Hosts(2, wire=True) as hosts:
        hosts.need_nets()
        wire = hosts.wire
        with bound(hosts, "h1") as sender, bound(hosts, "h2") as receiver:
            def claim_arrive(expected, what, sizes=(100, 1000)):
                found = arrived(sender, receiver, hosts, sizes)
                claim(found == expected, f"{what}: {found} arrived")

            claim_arrive([100, 1000], "without a rule")
            wire.rule("h1", "h2", loss=100)
            claim_arrive([], "all is lost")
            wire.clear()
            wire.rule("h2", "h1", loss=100)
            claim_arrive([100, 1000], "the other way is cut")
            wire.clear()
            wire.rule("*", "h2", most=500)
            claim_arrive([100], "what is long is lost")
            wire.clear()
            wire.rule("h*", "*", repeat=100)
            claim_arrive([100, 100, 1000, 1000], "all comes twice")
            wire.clear()
            wire.rule("*", "*", what="workers", loss=100)
            claim_arrive([100, 1000], "datagrams are of agents")
            wire.clear()
            wire.rule("*", "*", damage=100)
            claim_arrive([], "checksums tell of a damaged frame")
            wire.clear()
            wire.rule("h1", "h2", delay=100)
            begin = time.monotonic()
            sender.sendto(b"late", (hosts.address("h2"), PORT))
            receiver.recv(100)
            claim(time.monotonic() - begin >= 0.1, "a delay was left out")
            wire.clear()
            claim_arrive([100, 1000], "all rules are forgotten")


main(test)
