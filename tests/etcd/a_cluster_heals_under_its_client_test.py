"""Three members, and what befalls them while a client counts upwards: each
number is written once and seen, its lease is kept, and writes and news pause no
longer than the bound of each fault.

    a_cluster_heals_under_its_client_test.py FAULT [--seconds N] [--runs N]

--seconds: how long the fault lasts, where it does. Prints the longest pauses
beyond the time in which nobody can answer; elastic/etcd/README.md has figures.
"""
import argparse
import statistics
import time

from chain import Chain
from etcd_cluster import Cluster
from house import PATIENCE, claim, main, until

def leader_killed(etcds, _):
    etcds.leader().kill()


def leader_stopped(etcds, seconds):
    leader = etcds.leader()
    leader.stop()
    time.sleep(seconds)
    leader.go_on()


def leader_cut(etcds, seconds):
    """Its peers can't reach it, its clients can."""
    etcds.cut(etcds.leader())
    time.sleep(seconds)
    etcds.heal()


def watched_member_cut(etcds, seconds):
    """The member that the client asks is deaf, and doesn't say so."""
    etcds.cut(etcds.first)
    time.sleep(seconds)
    etcds.heal()


def watched_member_silent(etcds, seconds):
    """It takes connections, and says nothing."""
    etcds.cut(clients=[etcds.first])
    time.sleep(seconds)
    etcds.heal()


def quorum_lost(etcds, seconds):
    for member in etcds.members[:2]:
        member.kill()
    time.sleep(seconds)
    for member in etcds.members[:2]:
        member.start()


def all_killed(etcds, seconds):
    for member in etcds.members:
        member.kill()
    time.sleep(seconds)
    for member in etcds.members:
        member.start()


def compacted_while_away(etcds, seconds):
    """Where the client's watch stood, there is no history any more."""
    etcds.cut(clients=etcds.members)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        etcds.members[0].put("chain/else", "")
    header = etcds.members[0].status()["header"]
    etcds.members[0].post("kv/compaction", revision=header["revision"])
    etcds.heal()


def member_wiped(etcds, _):
    """It has lost what it promised, so it is made a new member."""
    lost, other = etcds.first, etcds.members[-1]
    lost.kill()
    lost.wipe()
    other.post("cluster/member/remove", ID=str(int(lost.id, 16)))
    other.post("cluster/member/add", peerURLs=[lost.peer_url])
    lost.state = "existing"
    lost.start()


def password_forgotten(etcds, _):
    """Each member in turn starts again, and knows no token any more."""
    for member in etcds.members:
        member.kill()
        member.start()
        until(member.is_ready, 30, "a restarted member takes writes")


# A sending that nobody answers takes 1 s, an election 0.5 to 1 s, and the pause
# before the next sending up to 1 s.
FAULTS = {  # how long it lasts, in s; most pause beyond that, in ms
    leader_killed: (0, 4000),
    leader_stopped: (4, 4000),  # others lead meanwhile
    leader_cut: (4, 4000),
    watched_member_cut: (4, 3000),
    watched_member_silent: (4, 3000),
    quorum_lost: (6, 5000),
    all_killed: (1, 6000),
    compacted_while_away: (2, 4000),
    member_wiped: (0, 3000),
    password_forgotten: (0, 4000),
}
NOBODY_ANSWERS = (quorum_lost, all_killed, compacted_while_away)


def survive(fault, seconds):
    password = "p" if fault == password_forgotten else None
    with Cluster() as etcds:
        order = etcds.followers() + [etcds.leader()]
        etcds.first = order[0]  # a follower, where the fault is not the leader's
        if fault in (leader_killed, leader_stopped, leader_cut):
            order.reverse()
        if password:
            etcds.turn_auth_on(password)
        with Chain(etcds, order, password and "root", password) as chain:
            chain.wait_writes()
            fault(etcds, seconds)
            if password:
                etcds.log_in(password)
            chain.wait_writes(50)
            saw = chain.finish()
    print(f"{fault.__name__}: {saw}")
    claim(saw["wipes"] == 0, "the store was taken for another one")
    claim(saw["leases_lost"] == 0, "the lease was lost")
    lasted = 1000 * seconds if fault in NOBODY_ANSWERS else 0
    pauses = saw["write_gap_ms"] - lasted, saw["sight_gap_ms"] - lasted
    bound = FAULTS[fault][1] * PATIENCE
    claim(max(pauses) <= bound, f"writes and news paused for {pauses} ms, more "
          f"than {bound} ms")
    return pauses


def test():
    parser = argparse.ArgumentParser()
    names = {fault.__name__: fault for fault in FAULTS}
    parser.add_argument("fault", choices=names)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    fault = names[args.fault]
    seconds = FAULTS[fault][0] if args.seconds is None else args.seconds
    pauses = [survive(fault, seconds) for _ in range(args.runs)]
    for name, column in zip(("writes", "news"), zip(*pauses)):
        print(f"{name} paused: median {statistics.median(column):.0f} ms, most "
              f"{max(column):.0f} ms of {len(column)}")


main(test)
