"""What the soak does to a job: one function for each kind of fault. Each
hurts, makes good what it did, and returns what was hit; what it may cost is
noted in soak.lost before. A fault that names no worker may cost none.

    ACTS    (name, weight, function of the soak)
"""

import contextlib
import os
import resource
import signal
import time

from house import claim, until

BUDGET_S = 1.0
FOR_S = 2.5 * BUDGET_S  # that a lasting fault lasts
BACK_S = 30  # within this what was hurt is there again
FREEZER = "/sys/fs/cgroup/freezer"


# ------------------------------------------------------------------- processes

def kill(soak):
    pid = soak.any_pid()
    soak.lost.add(pid)
    os.kill(pid, signal.SIGKILL)
    return f"process {pid}"


def kill_two(soak):
    first = kill(soak)
    time.sleep(soak.chance.choice((0, 0.001, 0.005, 0.02, 0.1)))
    with contextlib.suppress(OSError):
        return f"{first}, {kill(soak)}"
    return first


def crash(soak):
    pid = soak.any_pid()
    soak.lost.add(pid)
    os.kill(pid, soak.chance.choice((signal.SIGSEGV, signal.SIGABRT)))
    return f"process {pid}"


def stop(soak):
    pid = soak.any_pid()
    soak.lost.add(pid)
    os.kill(pid, signal.SIGSTOP)
    return f"process {pid}"


def pause(soak):
    pid = soak.any_pid()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(BUDGET_S / 3)
    os.kill(pid, signal.SIGCONT)
    return f"process {pid}"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def freeze(soak):
    """SIGKILL does not end the process for a while, as in a system call that
    does not return."""
    if not os.path.isdir(FREEZER) or not os.access(FREEZER, os.W_OK):
        return "no one: no freezer here"
    pid = soak.any_pid()
    soak.lost.add(pid)
    group = os.path.join(FREEZER, f"regroup-soak-{pid}")
    os.mkdir(group)
    try:
        write(os.path.join(group, "cgroup.procs"), str(pid))
        write(os.path.join(group, "freezer.state"), "FROZEN")
        os.kill(pid, signal.SIGKILL)
        time.sleep(FOR_S)
    finally:
        write(os.path.join(group, "freezer.state"), "THAWED")
        until(lambda: not os.path.exists(f"/proc/{pid}"), BACK_S,
              f"process {pid} has ended")
        os.rmdir(group)
    return f"process {pid}"


# ---------------------------------------------------------------------- agents

def kill_agent(soak):
    host = soak.any_host()
    soak.job.kill_agent(host)
    return host


def stop_agent(soak):
    host = soak.any_host()
    soak.lose(host)
    pid = soak.job.agent_pid(host)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(FOR_S)
    os.kill(pid, signal.SIGCONT)
    return host


def clock_step(soak):
    """The wall clock of a host jumps, and maybe its agent is killed after it;
    it stays wrong."""
    host = soak.any_host()
    step = soak.chance.choice((-3600, -60, 60, 3600))
    write(soak.clock(host), str(step))
    if soak.chance.random() < 0.5:
        soak.job.kill_agent(host)
    return f"{host} by {step} s"


def limit(soak, kind, value):
    """The agent of a host gets no more of something for a while, and a worker
    there needs it. The host may leave."""
    host = soak.any_host()
    agent = soak.job.agent_pid(host)
    soak.lose(host)
    soak.job.lost.add(host)
    before = resource.prlimit(agent, kind)
    resource.prlimit(agent, kind, (value(agent), before[1]))
    with contextlib.suppress(IndexError):
        os.kill(soak.chance.choice(soak.pids_of(host)), signal.SIGKILL)
    time.sleep(FOR_S)
    with contextlib.suppress(OSError):
        resource.prlimit(agent, kind, before)
    soak.start_again(host)
    return host


def no_descriptors(soak):
    return limit(soak, resource.RLIMIT_NOFILE,
                 lambda pid: len(os.listdir(f"/proc/{pid}/fd")))


def no_memory(soak):
    def mapped(pid):
        with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    return limit(soak, resource.RLIMIT_AS, mapped)


# ----------------------------------------------------------------------- hosts

def kill_host(soak):
    host = soak.any_host()
    soak.lose(host)
    soak.job.kill_host(host, soak.chance.choice((None, soak.chance)))
    time.sleep(soak.chance.choice((0, 0.5, 2.0)))
    soak.job.agent(host)
    return host


def drain(soak):
    host = soak.any_host()
    soak.lose(host)
    process = soak.job.agents[host]
    soak.job.drain(host)
    claim(process.wait(BACK_S) == 0, f"{host} was drained with code "
          f"{process.returncode}")
    soak.job.agent(host)
    return host


def same_name(soak):
    """Another job of that name is refused and does no harm."""
    host = soak.any_host()
    done = soak.job.run_on(host, "run", "--etcd", soak.hosts.urls, "--job",
                           soak.job.name, "--host", "intruder", "-n", "1",
                           "--", "true")
    claim(done.returncode != 0, "a second job of the same name has run")
    return f"from {host}"


# --------------------------------------------------------------------- network

def cut(soak):
    host = soak.any_host()
    soak.lose(host)
    soak.job.lost.add(host)
    soak.hosts.cut(host)
    time.sleep(FOR_S)
    soak.hosts.heal()
    soak.job.lost.discard(host)
    return host


def one_way_cut(soak):
    sender, receiver = soak.two_hosts()
    soak.lose(sender)
    soak.lose(receiver)
    soak.hosts.cut_one_way(sender, receiver)
    time.sleep(FOR_S)
    soak.hosts.heal()
    return f"{sender} to {receiver}"


def halve(soak):
    """Two hosts with etcd here, the others without there."""
    away = soak.two_hosts()
    rest = [h for h in soak.hosts.names if h not in away]
    for host in away:
        soak.lose(host)
    soak.hosts.cut_between(away, rest + [m.name for m in soak.hosts.etcd])
    time.sleep(FOR_S)
    soak.hosts.heal()
    return " and ".join(away)


def deaf(soak):
    """It sends, and hears no other host; etcd answers it."""
    host = soak.any_host()
    soak.lose(host)
    return soak.through(host, ("h*", host, {"loss": 100}))


def cut_from_etcd(soak):
    host = soak.any_host()
    soak.may_move = True
    return soak.through(host, (host, "e*", {"loss": 100}),
                        ("e*", host, {"loss": 100}))


def cut_traffic(soak, what):
    one, other = soak.two_hosts()
    soak.lose(one)
    soak.lose(other)
    return soak.through(f"{one} and {other}",
                        (one, other, {"what": what, "loss": 100}),
                        (other, one, {"what": what, "loss": 100}))


def cut_agents(soak):
    soak.tell_agent_ports()
    return cut_traffic(soak, "agents")


def cut_workers(soak):
    soak.tell_agent_ports()
    return cut_traffic(soak, "workers")


def short_frames_only(soak):
    """A path that silently drops long packets."""
    host = soak.any_host()
    soak.lose(host)
    return soak.through(host, (host, "h*", {"most": 1000}),
                        ("h*", host, {"most": 1000}))


def bad_weather(soak):
    """Between all hosts, and no host may be taken for lost; maybe a worker is
    killed in it."""
    name, how = soak.chance.choice((
        ("loss", {"loss": 3}), ("delay", {"delay": 40}),
        ("reordering", {"delay": 20, "jitter": 19}),
        ("repeats", {"repeat": 30}), ("damage", {"damage": 3})))
    return soak.through(name, ("h*", "h*", how),
                        within=soak.chance.choice((None, kill)))


def reset(soak):
    """Not of the same two hosts again within a minute: that would cost one of
    them its place, as it should."""
    while True:
        host, other = soak.two_hosts()
        pair = frozenset((host, other))
        if time.monotonic() - soak.reset_at.get(pair, -60) >= 60:
            break
    soak.reset_at[pair] = time.monotonic()
    return f"{soak.hosts.reset(host, other)} of {host} with {other}"


# ------------------------------------------------------------------------ etcd

def etcd_leader(soak):
    soak.may_move = True
    member = soak.hosts.etcd_leader()
    member.kill()
    time.sleep(BUDGET_S)
    member.start()
    return member.name


def etcd_away(soak):
    return without(soak, soak.hosts.etcd)


def etcd_quorum(soak):
    return without(soak, soak.chance.sample(soak.hosts.etcd, 2))


def without(soak, members):
    soak.may_move = True
    for member in members:
        member.kill()
    if soak.chance.random() < 0.5:
        kill(soak)
    time.sleep(2 * BUDGET_S)
    for member in members:
        member.start()
    return " and ".join(member.name for member in members)


def etcd_full(soak):
    """It answers, and takes no more writes."""
    soak.may_move = True
    alarm = {"memberID": "0", "alarm": "NOSPACE"}
    soak.hosts.ask("maintenance/alarm", action="ACTIVATE", **alarm)
    if soak.chance.random() < 0.5:
        kill(soak)
    time.sleep(2 * BUDGET_S)
    soak.hosts.ask("maintenance/alarm", action="DEACTIVATE", **alarm)
    return "all members"


ACTS = (
    ("kill", 4, kill), ("kill two", 3, kill_two), ("crash", 1, crash),
    ("stop", 1, stop), ("pause", 1, pause), ("freeze", 1, freeze),
    ("agent kill", 2, kill_agent), ("agent stop", 1, stop_agent),
    ("clock step", 1, clock_step), ("descriptors", 1, no_descriptors),
    ("memory", 1, no_memory), ("host", 3, kill_host), ("drain", 2, drain),
    ("same name", 1, same_name), ("cut", 2, cut),
    ("one-way cut", 1, one_way_cut), ("halve", 1, halve), ("deaf", 1, deaf),
    ("no etcd", 1, cut_from_etcd), ("agents cut", 1, cut_agents),
    ("workers cut", 1, cut_workers), ("short only", 1, short_frames_only),
    ("weather", 3, bad_weather), ("reset", 1, reset),
    ("etcd leader", 1, etcd_leader), ("etcd quorum", 1, etcd_quorum),
    ("etcd away", 1, etcd_away), ("etcd full", 1, etcd_full))
