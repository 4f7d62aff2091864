"""What may befall a cluster of etcds, as contexts: the fault begins, the body
runs under it, and it ends.

    with FAULTS["leader_stopped"](etcds): ...

etcds.first is the member that clients have been given first. Under a fault of
NOBODY_ANSWERS no client gets an answer to a write.
"""

from contextlib import contextmanager

from house import until


@contextmanager
def leader_killed(etcds):
    etcds.leader().kill()
    yield


@contextmanager
def leader_stopped(etcds):
    """It wakes up later and learns that another one leads."""
    leader = etcds.leader()
    leader.stop()
    yield
    leader.go_on()


@contextmanager
def leader_cut(etcds):
    """Its peers can't reach it, its clients can."""
    etcds.cut(etcds.leader())
    yield
    etcds.heal()


@contextmanager
def watched_member_cut(etcds):
    """The member that clients ask is deaf, and doesn't say so."""
    etcds.cut(etcds.first)
    yield
    etcds.heal()


@contextmanager
def watched_member_silent(etcds):
    """It takes connections, and says nothing."""
    etcds.cut(clients=[etcds.first])
    yield
    etcds.heal()


@contextmanager
def quorum_lost(etcds):
    lost = etcds.members[:2]
    for member in lost:
        member.kill()
    yield
    for member in lost:
        member.start()


@contextmanager
def all_killed(etcds):
    for member in etcds.members:
        member.kill()
    yield
    for member in etcds.members:
        member.start()


@contextmanager
def compacted_while_away(etcds):
    """Where the clients' watches stood, there is no history any more."""
    member = etcds.members[0]
    etcds.cut(clients=etcds.members)
    yield
    for _ in range(50):
        member.put("elsewhere", "")
    header = member.status()["header"]
    member.post("kv/compaction", revision=header["revision"])
    etcds.heal()


@contextmanager
def member_wiped(etcds):
    """It has lost what it promised, so it is made a new member."""
    lost, other = etcds.first, etcds.members[-1]
    other = other if other is not lost else etcds.members[0]
    lost.kill()
    lost.wipe()
    other.post("cluster/member/remove", ID=str(int(lost.id, 16)))
    other.post("cluster/member/add", peerURLs=[lost.peer_url])
    lost.state = "existing"
    lost.start()
    yield


@contextmanager
def tokens_forgotten(etcds):
    """Each member in turn starts again, and knows no token any more."""
    for member in etcds.members:
        member.kill()
        member.start()
        until(member.is_ready, 30, "a restarted member takes writes")
    yield


@contextmanager
def database_full(etcds):
    """All answer, and none takes a write."""
    alarm = {"alarm": "NOSPACE"}
    etcds.first.post("maintenance/alarm", action="ACTIVATE", **alarm)
    yield
    etcds.first.post("maintenance/alarm", action="DEACTIVATE", **alarm)


FAULTS = {fault.__name__: fault for fault in (
    leader_killed, leader_stopped, leader_cut, watched_member_cut,
    watched_member_silent, quorum_lost, all_killed, compacted_while_away,
    member_wiped, tokens_forgotten, database_full)}
NOBODY_ANSWERS = ("quorum_lost", "all_killed", "compacted_while_away",
                  "database_full")


def order(etcds, fault):
    """The members as a client is given them: the one that the fault is about
    first. Sets etcds.first."""
    members = etcds.followers() + [etcds.leader()]
    if fault.startswith("leader"):
        members.reverse()
    etcds.first = members[0]
    return members
