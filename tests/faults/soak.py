"""A training on four hosts, and a spare one, that is hurt every few
seconds, at no particular moment, for a long time. It looks for phases that
are on no list. Jobs of a few minutes follow each other, so that each can be
checked whole. nemesis.py says how they are hurt."""

import contextlib
import os
import random
import shutil
import subprocess
import time

import nemesis
from house import BUILD, Failed, claim, fault_free, trainer, until
from hosts import Hosts, HostsJob

EVERY_S = 5.0
ROUND_S = 180.0  # of one job
BACK_S = 30  # within this the world is whole again
BUDGET_S = nemesis.BUDGET_S
HOSTS, SLOTS, MEMBERS = 5, 2, 3
WORLD = 8  # so that one host is a spare
# Agents' wall clocks can be set; those of workers go right.
CLOCK = os.path.join(BUILD, "tests", "libclock_shim.so")
FLAGS = ("--bytes", 65536, "--coll-bytes", 8192)


class Soak:
    def __init__(self, hosts, job, chance):
        self.hosts, self.job, self.chance = hosts, job, chance
        self.before, self.lost = {}, set()
        self.may_move = False  # members may become spares
        self.acts = nemesis.ACTS
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

    def pids_of(self, host):
        status = self.job.status() or {"hosts": []}
        return [w["pid"] for h in status["hosts"] if h["id"] == host
                for w in h["workers"] if w["pid"]]

    def living_spares(self):
        """A change goes on without a host that etcd does not answer: a spare
        takes its place, and its workers live on."""
        return {w["pid"] for w in self.before.values() if self.may_move and
                os.path.exists(f"/proc/{w['pid']}")}

    # ------------------------------------------------------- means of acts

    def through(self, what, *rules, within=None):
        """The wire does this for a while, and something else befalls the job
        meanwhile."""
        if self.hosts.wire is None:
            return "nothing: no wire"
        for sender, receiver, how in rules:
            self.hosts.wire.rule(sender, receiver, **how)
        if within is not None:
            what = f"{what}, {within(self)}"
        time.sleep(nemesis.FOR_S)
        self.hosts.wire.clear()
        return what

    def tell_agent_ports(self):
        ports = [self.job.agent_port(host) for host in self.hosts.names]
        self.hosts.wire.tell("ports " + " ".join(map(str, ports)))

    def clock(self, host):
        return os.path.join(self.hosts.folder, f"{host}.r.clock")

    def start_again(self, host):
        """If its agent has left by itself."""
        process = self.job.agents[host]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        if process.poll() is not None:
            self.job.agent(host)
        self.job.lost.discard(host)

    # ---------------------------------------------------------------- round

    def hurt(self):
        """One fault, and the world whole again."""
        self.before = self.whole()
        self.lost, self.may_move = set(), False
        name, _, act = self.chance.choices(
            self.acts, [weight for _, weight, _ in self.acts])[0]
        print(f"{time.strftime('%T')} {name:<12} ", end="", flush=True)
        begin = time.monotonic()
        what = act(self)
        print(f"{what:<30} ", end="", flush=True)
        after = {w["pid"]: rank for rank, w in self.whole().items()}
        for worker in self.before.values():
            claim(worker["pid"] in after.keys() | self.lost |
                  self.living_spares(),
                  f"{name} of {what} cost worker {worker}, which was no target;"
                  f" targets: {self.lost}, ranks now: {after}")
        print(f"whole again after {time.monotonic() - begin:.1f} s, generation "
              f"{self.job.generation()}, step {self.job.step()}", flush=True)

    def whole(self):
        def reached():
            self.job.alive()
            world = self.job.workers()
            is_whole = len(world) == WORLD and \
                all(w["pid"] for w in world.values())
            return world if is_whole else None
        world = until(reached, BACK_S, "the world is whole")
        step = self.job.step()
        until(lambda: self.job.step() > step, BACK_S, "it steps")
        return world


def play_round(seconds, seed, keep, hurt, detect):
    """One job that is hurt; what hurt() counted."""
    with Hosts(HOSTS, MEMBERS, wire=True) as hosts:
        file = os.path.join(hosts.folder, "until")
        command = ["env", "-u", "LD_PRELOAD",
                   *trainer("--until", file, "--step-ms", 20, "--commit-every",
                            3, *FLAGS)]
        with HostsJob(hosts, ["--min", "1", "--max", str(WORLD),
                              "--max-restarts", "1000"],
                      ["--slots", str(SLOTS)], command,
                      detect=detect,
                      env={"REGROUP_LOG": "debug",
                           "LD_PRELOAD": CLOCK}) as job:
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
    """Work for every processor and no fault: no host counts as lost. How many
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
    """0, or 1 when a worker was evicted for being slow; 77 without
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
