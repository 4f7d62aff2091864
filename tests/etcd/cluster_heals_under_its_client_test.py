"""Three members, and what happens to them while a client counts upwards: each
number is written once and seen, its lease is kept or else taken again, and
writes and news pause no longer than the bound of each fault.

    cluster_heals_under_its_client_test.py FAULT [--seconds N] [--runs N]

--seconds: how long the fault lasts. Prints the longest pauses, beyond the time
in which no member can answer; elastic/etcd/README.md has figures.

Covers: endpoints.c mirror.c etcd/watch.c lease.c"""
import argparse
import statistics
import time

from chain import Chain
from etcd_cluster import Cluster
from etcd_faults import FAULTS, NOBODY_ANSWERS, order
from house import PATIENCE, claim, main

# A request without an answer takes 1 s, an election 0.5 to 1 s, and the pause
# before the next sending up to 1 s; members that start take another second.
MOST_MS = 15000
MOST_START_MS = 20000
LEASE_S = 3.3  # how long chain.c's lease lasts at least without a keepalive
# It was not kept alive; and a leader that wakes up revokes what was kept alive at
# the next one (etcd#15247, mended by etcd#16822).
MAY_LOSE = ("compacted_while_away", "leader_stopped")
PASSWORD = "p"


def bound_of(fault):
    starts = fault in ("quorum_lost", "all_killed")
    return (MOST_START_MS if starts else MOST_MS) * PATIENCE


def survive(fault, seconds):
    password = PASSWORD if fault == "tokens_forgotten" else None
    with Cluster() as etcds:
        members = order(etcds, fault)
        if password:
            etcds.turn_auth_on(password)
        with Chain(etcds, members, password and "root", password) as chain:
            chain.wait_writes()
            with FAULTS[fault](etcds):
                time.sleep(seconds)
            if password:
                etcds.log_in(password)
            chain.wait_writes(50)
            saw = chain.finish()
    print(f"{fault}: {saw}")
    claim(saw["wipes"] == 0, "the store was taken for another one")
    may_lose = fault in MAY_LOSE and seconds > LEASE_S
    claim(saw["leases_lost"] <= may_lose,
          f"the lease was lost {saw['leases_lost']} times")
    lasted = 1000 * seconds if fault in NOBODY_ANSWERS else 0
    pauses = saw["write_gap_ms"] - lasted, saw["sight_gap_ms"] - lasted
    claim(max(pauses) <= bound_of(fault),
          f"writes and news paused for {pauses} ms, more than "
          f"{bound_of(fault)} ms")
    return pauses


def test():
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    pauses = [survive(args.fault, args.seconds) for _ in range(args.runs)]
    for name, column in zip(("writes", "news"), zip(*pauses)):
        print(f"{name} paused: median {statistics.median(column):.0f} ms, most "
              f"{max(column):.0f} ms of {len(column)}")


main(test)
