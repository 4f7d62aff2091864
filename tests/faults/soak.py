"""A training on four hosts that is hurt every few seconds, at no particular
moment, for a long time. It looks for the phases that nobody has listed. Jobs of
a few minutes follow each other, so that each can be checked whole."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from house import Failed, claim, fault_free, trainer, until
from hosts import Hosts, HostsJob

EVERY_S = 5.0
ROUND_S = 180.0  # of one job
BACK_S = 30  # within this the world is whole again
BUDGET_S = 1.0
HOSTS, SLOTS, MEMBERS = 4, 2, 3
FLAGS = ("--bytes", 65536, "--coll-bytes", 8192)


class Soak:
    def __init__(self, hosts, job, chance):
        self.hosts, self.job, self.chance = hosts, job, chance
        self.before, self.lost = {}, set()
        self.reset_at = {}  # {two hosts: when their connections were reset}

    # ------------------------------------------------------------- choices

    def any_host(self):
        return self.chance.choice(self.hosts.names)

    def any_pid(self):
        return self.chance.choice([w["pid"] for w in self.before.values()])

    def two_hosts(self):
        return self.chance.sample(self.hosts.names, 2)

    def lose(self, host):
        status = self.job.status() or {"hosts": []}
        self.lost |= {w["pid"] for h in status["hosts"] if h["id"] == host
                      for w in h["workers"]}

    def wait_without(self, host):
        def is_out():
            status = self.job.status() or {"hosts": []}
            return all(w["rank"] is None for h in status["hosts"]
                       if h["id"] == host for w in h["workers"])
        until(is_out, BACK_S, f"{host} is out")

    # -------------------------------------------------------------- faults

    def kill(self):
        pid = self.any_pid()
        self.lost.add(pid)
        os.kill(pid, signal.SIGKILL)
        return f"process {pid}"

    def kill_two(self):
        first = self.kill()
        time.sleep(self.chance.choice((0, 0.001, 0.005, 0.02, 0.1)))
        with contextlib.suppress(OSError):
            return f"{first}, {self.kill()}"
        return first

    def stop(self):
        pid = self.any_pid()
        self.lost.add(pid)
        os.kill(pid, signal.SIGSTOP)
        return f"process {pid}"

    def pause(self):
        pid = self.any_pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(BUDGET_S / 3)
        os.kill(pid, signal.SIGCONT)
        return f"process {pid}"

    def kill_host(self):
        host = self.any_host()
        self.lose(host)
        self.job.kill_host(host, self.chance.choice((None, self.chance)))
        time.sleep(self.chance.choice((0, 0.5, 2.0)))
        self.job.agent(host)
        return host

    def cut(self):
        host = self.any_host()
        self.lose(host)
        self.job.lost.add(host)
        self.hosts.cut(host)
        time.sleep(2.5 * BUDGET_S)
        self.hosts.heal()
        self.job.lost.discard(host)
        return host

    def one_way_cut(self):
        sender, receiver = self.two_hosts()
        self.lose(sender)
        self.lose(receiver)
        self.hosts.cut_one_way(sender, receiver)
        time.sleep(2.5 * BUDGET_S)
        self.hosts.heal()
        return f"{sender} to {receiver}"

    def halve(self):
        """Two hosts with etcd here, two without there."""
        away = self.two_hosts()
        rest = [h for h in self.hosts.names if h not in away]
        for host in away:
            self.lose(host)
        self.hosts.cut_between(away, rest + [m.name for m in self.hosts.etcd])
        time.sleep(2.5 * BUDGET_S)
        self.hosts.heal()
        return " and ".join(away)

    def reset(self):
        """Not of the same two hosts again within a minute: that would cost one
        of them its place, as it should."""
        while True:
            host, other = self.two_hosts()
            pair = frozenset((host, other))
            if time.monotonic() - self.reset_at.get(pair, -60) >= 60:
                break
        self.reset_at[pair] = time.monotonic()
        return f"{self.hosts.reset(host, other)} of {host} with {other}"

    def agent_kill(self):
        host = self.any_host()
        self.job.kill_agent(host)
        return host

    def drain(self):
        host = self.any_host()
        self.lose(host)
        process = self.job.agents[host]
        self.job.drain(host)
        claim(process.wait(BACK_S) == 0, f"{host} was drained with code "
              f"{process.returncode}")
        self.job.agent(host)
        return host

    def etcd_leader(self):
        member = self.hosts.etcd_leader()
        member.kill()
        time.sleep(BUDGET_S)
        member.start()
        return member.name

    def etcd_away(self):
        for member in self.hosts.etcd:
            member.kill()
        if self.chance.random() < 0.5:
            self.kill()
        time.sleep(2 * BUDGET_S)
        for member in self.hosts.etcd:
            member.start()
        return "all members"

    ACTS = (("kill", 4, kill), ("kill two", 3, kill_two), ("stop", 1, stop),
            ("pause", 1, pause), ("host", 3, kill_host), ("cut", 2, cut),
            ("one-way cut", 1, one_way_cut), ("halve", 1, halve),
            ("reset", 1, reset), ("agent kill", 2, agent_kill),
            ("drain", 2, drain), ("etcd leader", 1, etcd_leader),
            ("etcd away", 1, etcd_away))

    # ---------------------------------------------------------------- round

    def hurt(self):
        """One fault, and the world whole again."""
        self.before = self.whole()
        self.lost = set()
        name, _, act = self.chance.choices(
            self.ACTS, [weight for _, weight, _ in self.ACTS])[0]
        print(f"{time.strftime('%T')} {name:<12} ", end="", flush=True)
        begin = time.monotonic()
        what = act(self)
        print(f"{what:<30} ", end="", flush=True)
        after = {w["pid"]: rank for rank, w in self.whole().items()}
        for worker in self.before.values():
            claim(worker["pid"] in after.keys() | self.lost,
                  f"{name} of {what} cost worker {worker}, which was no target;"
                  f" targets: {self.lost}, ranks now: {after}")
        print(f"whole again after {time.monotonic() - begin:.1f} s, generation "
              f"{self.job.generation()}, step {self.job.step()}", flush=True)

    def whole(self):
        def reached():
            self.job.alive()
            world = self.job.workers()
            is_whole = len(world) == HOSTS * SLOTS and \
                all(w["pid"] for w in world.values())
            return world if is_whole else None
        world = until(reached, BACK_S, "the world is whole")
        step = self.job.step()
        until(lambda: self.job.step() > step, BACK_S, "it steps")
        return world


def play_round(seconds, seed, keep, hurt, detect):
    """One job that is hurt; what hurt() counted."""
    with Hosts(HOSTS, MEMBERS) as hosts:
        file = os.path.join(hosts.folder, "until")
        command = trainer("--until", file, "--step-ms", 20, "--commit-every", 3,
                          *FLAGS)
        with HostsJob(hosts, ["--min", "1", "--max", str(HOSTS * SLOTS),
                              "--max-restarts", "1000"],
                      ["--slots", str(SLOTS)], command,
                      detect=detect,
                      env={"REGROUP_LOG": "debug"}) as job:
            try:
                counted = hurt(Soak(hosts, job, random.Random(seed)), seconds)
                with open(file, "w", encoding="utf-8"):
                    job.finish()
                job.check(fault_free(*FLAGS, "--steps", job.final_state()[0]))
                claim(not any(hosts.pids(h) for h in hosts.names),
                      "processes are left")
                return counted
            except BaseException:
                job.keep(keep)
                raise


def hurt_for(soak, seconds):
    """The number of faults that it survived."""
    faults, end = 0, time.monotonic() + seconds
    soak.whole()
    while time.monotonic() < end:
        begin = time.monotonic()
        soak.hurt()
        faults += 1
        time.sleep(max(0, begin + EVERY_S - time.monotonic()))
    return faults


def newest_cause(job):
    changes = (job.status() or {"changes": []})["changes"]
    return changes[-1]["cause"] if changes else "its cause is not known"


def load_for(soak, seconds):
    """Work for every processor and no fault: nobody is taken for lost. How many
    steps were made."""
    soak.whole()
    generation = soak.job.generation()
    load = subprocess.Popen(["stress-ng", "--quiet", "--cpu",
                             str(os.cpu_count()), "--timeout",
                             f"{int(seconds) + 60}s"],
                            stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            soak.job.alive()
            claim(load.poll() is None, "stress-ng has ended by itself")
            claim(soak.job.generation() == generation,
                  f"generation {soak.job.generation()} was made under load: "
                  f"{newest_cause(soak.job)}")
            time.sleep(0.5)
    finally:
        load.terminate()
        load.wait()
    return soak.job.step()


def run_loaded(seconds, seed, keep):
    """0, or 1 when somebody was evicted for being slow; 77 without
    stress-ng."""
    if shutil.which("stress-ng") is None:
        print("skipped: no stress-ng in PATH; ci/install load")
        return 77
    end, steps = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end:
            steps += play_round(min(ROUND_S, end - time.monotonic()), seed,
                                os.path.join(keep, "load"), load_for, "lan")
    except Failed as error:
        print(f"FAILED: {error}; log and history are in {keep}/load")
        return 1
    print(f"{steps} steps in {seconds:.0f} s under load, no generation "
          "changed: ok")
    return 0


def run(seconds, seed, keep):
    """0, or 1 after the first round that failed."""
    end, faults, number = time.monotonic() + seconds, 0, seed
    while time.monotonic() < end:
        print(f"--- a job with seed {number}", flush=True)
        folder = os.path.join(keep, f"soak-{number}")
        try:
            faults += play_round(min(ROUND_S, end - time.monotonic()), number,
                                 folder, hurt_for,
                                 f"{int(BUDGET_S * 1000)}ms")
        except Failed as error:
            print(f"\nFAILED: {error}\nseed {number}; log and history are in "
                  f"{folder}")
            return 1
        number += 1
    print(f"{faults} faults in {number - seed} jobs and {seconds:.0f} s: ok")
    return 0
