"""One cell of the table: a job on several hosts, the phase, the fault, and
what must hold afterwards."""

import contextlib
import os
import random
import re
import signal
import time

import cells
from house import PATIENCE, Tails, claim, fault_free, skip, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1.0 * PATIENCE
COMMIT_EVERY = 3
LEASE_S = 10
# What a job leaves in etcd for people that ask what became of it.
KEPT = re.compile(r"meta$|shape$|all/(cur|end|begun|checkpoint|probe)$|"
                  r"all/(gen|line|ev|claim)/")
MOST_PAUSE_S = 6 * BUDGET_S  # not to be quick, but to see what waits forever
MOST_CHANGE_S = 8 * PATIENCE  # likewise: from the fault to the world it leads
#                               to, and from the end of the training to the
#                               job's; the leader gives up on an ack after 20


def is_stopped(pid):
    with contextlib.suppress(OSError), \
            open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b")")[2].split()[0] == b"T"
    return False


@contextlib.contextmanager
def in_time(what):
    begin = time.monotonic()
    yield
    took = time.monotonic() - begin
    claim(took < MOST_CHANGE_S, f"{what} for {took:.1f} s")


class Scene:
    def __init__(self, cell, seed, hosts=4, slots=2, may_have_nets=True):
        self.cell, self.seed = cell, seed
        self.nets = None if may_have_nets else False
        self.count, self.slots = hosts, slots
        self.phase = cells.PHASES[cell.phase]
        self.fault = cells.FAULTS[cell.fault]
        self.random = random.Random(f"{seed}/{cell.name}")
        self.step = COMMIT_EVERY * self.random.randint(3, 5)
        self.coll_bytes = self.random.choice((520, 8192, 65536))
        self.lost = set()  # pids that need not live on
        self.gone = set()  # hosts that are out for good
        self.is_ending = False

    # --------------------------------------------------------------- who

    @property
    def last(self):
        """The host that joins, drains or loses a worker first."""
        return f"h{self.count}"

    @property
    def role(self):
        """The host where the target is."""
        if self.phase.marks in ("leader", "source") or \
                (self.cell.target == "leader" and
                 self.phase.marks not in ("sink", "newcomer")):
            return "h1"
        return self.last if self.phase.marks in ("sink", "newcomer") else \
            f"h{self.count // 2 + 1}"

    @property
    def rank(self):
        first = self.slots * (int(self.role[1:]) - 1)
        return first if self.role in ("h1", self.last) else \
            first + self.slots - 1

    @property
    def other(self):
        """A host that takes no other part."""
        return next(h for h in ("h2", "h1") if h != self.role)

    def failpoint(self):
        who = f":rank{self.rank}" if self.phase.marks in \
            ("rank", "newcomer") else ""
        when = self.phase.when.format(step=self.step)
        return f"{self.phase.point}{who}:{when}:start1:stop"

    # --------------------------------------------------------------- run

    def run(self, keep=None):
        """Milliseconds of the longest pause of a survivor."""
        self.check_what_is_needed()
        members = 3 if self.cell.fault.startswith("etcd") else 1
        with Hosts(self.count, members, self.nets,
                   self.cell.has_tls) as self.hosts:
            self.until_file = os.path.join(self.hosts.folder, "until")
            with self.make_job() as self.job:
                try:
                    self.play()
                    return self.pause_ms()
                except BaseException:
                    if keep is not None:
                        self.job.keep(keep)
                    raise

    def check_what_is_needed(self):
        is_local = self.fault.loses == "worker" or self.cell.fault == "pause"
        if self.count < 3 and not (is_local and self.cell.second_ms < 0 and
                                   self.phase.after not in ("join", "drain")):
            skip("it needs several hosts")

    def make_job(self):
        names = self.hosts.names
        is_join = self.phase.after == "join"
        is_short = self.cell.phase == "door" and self.fault.then == "less"
        only = names[:-1] if is_join else names
        command = trainer("--until", self.until_file, "--bytes", 65536,
                          "--coll-bytes", self.coll_bytes, "--step-ms", 10,
                          "--commit-every", COMMIT_EVERY,
                          *(["--sets-every", 7]
                            if self.cell.phase == "set create" else []))
        return HostsJob(
            self.hosts, ["--min", "1", "--max", str(self.count * self.slots),
                         "--start-timeout", "2500ms" if is_join else
                         "5s" if is_short else "20s",
                         "--max-restarts", "10"],
            ["--slots", str(self.slots)], command,
            detect=f"{int(BUDGET_S * 1000)}ms", only=only,
            env={"REGROUP_LOG": "debug,base=info",
                 self.role: {"REGROUP_FAILPOINT": self.failpoint()}})

    def play(self):
        self.logs = Tails(os.path.join(self.job.folder, "*.log"))
        self.size = self.slots * len(self.job.first)
        if self.phase.marks != "worker":
            self.check_first_world()
            self.job.wait_world(self.size)
            self.job.wait_step(6)
            self.before = until(self.whole_world, 10, "the world is whole")
            self.begun_in = self.job.generation()
            self.set_off()
        else:
            self.before = {}
        self.wait_mark()
        with in_time("the fault was not over"):
            self.befall()
            self.recover()
        with in_time("the job did not end"):
            self.finish()
        self.check()

    def whole_world(self):
        """{rank: worker} once all are there and have their pids, which an agent
        does not know of other hosts while etcd is slow; else None."""
        found = self.job.workers()
        return found if len(found) == self.size and \
            all(w["pid"] for w in found.values()) else None

    def check_first_world(self):
        """Phases count generations from a first one in which all hosts are."""
        self.job.wait_step(1)
        size = self.job.events("step")[0]["size"]
        if size != self.size:
            skip(f"the first world had {size} of {self.size} workers: too "
                 "much else runs on this machine")

    # ------------------------------------------------------ to the phase

    def set_off(self):
        after = self.phase.after
        if after == "death":
            is_its = self.cell.phase in ("detect", "reported")
            host = self.role if is_its else self.last
            rank = self.slots * int(host[1:]) - 1
            if rank == self.rank and self.slots > 1:
                rank -= 1
            self.lost.add(self.before[rank]["pid"])
            os.kill(self.before[rank]["pid"], signal.SIGKILL)
        elif after == "join":
            self.size += self.slots
            self.job.agent(self.last)
        elif after == "drain":
            self.size -= self.slots
            self.drain(self.last)
        elif after == "end":
            self.end()

    def end(self):
        self.is_ending = True
        with open(self.until_file, "w", encoding="utf-8"):
            pass

    def drain(self, host):
        self.lost |= self.workers_of(host)
        self.gone.add(host)
        self.job.drain(host)

    def workers_of(self, host):
        first = self.slots * (int(host[1:]) - 1)
        return {w["pid"] for rank, w in self.before.items()
                if first <= rank < first + self.slots}

    def wait_mark(self):
        """The target has stopped itself at its failpoint."""
        def strikes():
            if any(f"{self.phase.point} strikes" in line
                   for _, line in self.logs.lines()):
                return True
            if self.phase.point.endswith("expected") and any(
                    step["generation"] > 1
                    for step in self.job.events("step")):
                skip("building took so long that the offer went on record "
                     "first: too much else runs on this machine")
            return False
        until(strikes, 20, f"failpoint {self.failpoint()} strikes on "
              f"{self.role}")
        count = self.slots if self.phase.marks == "worker" else 1

        def stopped():
            pids = [p for p in self.hosts.pids(self.role) if is_stopped(p)]
            return pids if len(pids) == count else None
        self.marked = until(stopped, 20, "the target stops")

    def release(self, but=()):
        for pid in self.marked:
            if pid not in but:
                self.send(pid, signal.SIGCONT)

    @staticmethod
    def send(pid, signum):
        with contextlib.suppress(OSError):
            os.kill(pid, signum)

    # ---------------------------------------------------------- the fault

    def befall(self):
        self.generation = self.job.generation()
        self.fault_ns = time.monotonic_ns()
        if self.cell.second_ms >= 0:
            self.send(self.marked[0], signal.SIGKILL)
            self.lost.add(self.marked[0])
            time.sleep(self.cell.second_ms / 1000)
        self.ACTS[self.cell.fault](self)

    def victim(self):
        """The worker that is hit: the marked one, else one of its host; of two
        faults the second hits another host's."""
        if self.cell.second_ms >= 0:
            return self.before[0]["pid"]
        if self.phase.marks in ("worker", "rank", "newcomer"):
            return self.marked[0]
        if self.phase.marks == "sink":
            return self.newcomer()
        return self.before[self.rank]["pid"]

    def newcomer(self):
        """A worker of the host that joins."""
        status = until(self.job.status, 20, "an agent answers")
        return next(w["pid"] for h in status["hosts"] if h["id"] == self.last
                    for w in h["workers"])

    @property
    def host(self):
        return self.other if self.cell.second_ms >= 0 else self.role

    def kill(self, signum=signal.SIGKILL):
        pid = self.victim()
        self.lost.add(pid)
        self.send(pid, signum)
        self.release()

    def crash(self):
        self.kill(signal.SIGSEGV)

    def stop(self):
        pid = self.victim()
        self.lost.add(pid)
        self.send(pid, signal.SIGSTOP)
        self.release(but=[pid])

    def pause(self):
        pid = self.victim()
        self.send(pid, signal.SIGSTOP)
        self.release(but=[pid])
        time.sleep(BUDGET_S / 3)
        self.send(pid, signal.SIGCONT)

    def agent_kill(self):
        self.job.kill_agent(self.host)
        self.release()

    def supervisor_kill(self):
        self.lost |= self.workers_of(self.host)
        self.gone.add(self.host)
        self.job.kill_supervisor(self.host)
        self.release()

    def agent_stop(self, seconds=2 * BUDGET_S):
        agent = self.job.agent_pid(self.host)
        self.send(agent, signal.SIGSTOP)
        self.release(but=[agent])
        time.sleep(seconds)
        self.send(agent, signal.SIGCONT)
        if seconds > BUDGET_S:
            self.lost |= self.workers_of(self.host)

    def agent_pause(self):
        self.agent_stop(BUDGET_S / 3)

    def cut(self):
        self.hosts.cut(self.host)
        self.lose_host()

    def unplug(self):
        self.hosts.unplug(self.host)
        self.lose_host()

    def one_way_cut(self):
        """Either end may be held to be the one that fails. A way that nothing
        takes may be cut and nobody knows; the leader beats to all, and all to
        the leader."""
        other = "h2" if self.host == "h1" else "h1"
        self.hosts.cut_one_way(self.host, other)
        self.lost |= self.workers_of(other)
        self.lose_host()

    def lose_host(self):
        """It is out while it lives, and comes back by itself."""
        self.lost |= self.workers_of(self.host)
        self.release()
        self.wait_out()
        self.hosts.heal()

    def wait_out(self):
        """The others have gone on without the host."""
        if self.is_ending:
            self.wait_others()
        elif self.phase.marks == "worker":
            time.sleep(2 * BUDGET_S)  # they wait for the first generation
        else:
            self.job.wait_world(self.size - self.slots, above=self.generation)
            self.generation = self.job.generation()

    def wait_others(self):
        """The job ends where nothing is cut."""
        others = [p for h, p in self.job.agents.items()
                  if h not in (self.host, *self.gone)]
        with contextlib.suppress(Exception):
            until(lambda: all(p.poll() is not None for p in others), 10, "")

    def kill_host(self):
        self.lost |= self.workers_of(self.host)
        self.job.kill_host(self.host)
        self.wait_out()
        if not self.is_ending:
            self.job.agent(self.host)

    def fail_power(self):
        self.lost |= self.workers_of(self.host)
        self.gone.add(self.host)
        self.job.fail_power(self.host)

    def drain_host(self):
        self.release()
        self.drain(self.host)

    def reset(self):
        self.hosts.reset(self.host, self.other)
        self.release()

    def etcd_leader(self):
        member = self.hosts.etcd_leader()
        member.kill()
        self.release()
        time.sleep(BUDGET_S)
        member.start()

    def etcd_cut(self):
        self.hosts.cut_between([self.host], [m.name for m in self.hosts.etcd])
        self.release()
        time.sleep(2 * BUDGET_S)
        self.hosts.heal()

    def etcd_away(self):
        for member in self.hosts.etcd:
            member.kill()
        self.release()
        time.sleep(2 * BUDGET_S)
        for member in self.hosts.etcd:
            member.start()

    ACTS = {"kill": kill, "crash": crash, "stop": stop, "pause": pause,
            "agent kill": agent_kill, "supervisor kill": supervisor_kill,
            "agent stop": agent_stop, "agent pause": agent_pause,
            "drain": drain_host, "cut": cut, "unplug": unplug,
            "one-way cut": one_way_cut, "host": kill_host,
            "power": fail_power, "reset": reset, "etcd leader": etcd_leader,
            "etcd cut": etcd_cut, "etcd away": etcd_away}

    # ----------------------------------------------------------- recovery

    def recover(self):
        """The world that the fault leads to is there and steps on."""
        if self.is_ending:
            return
        size = self.size
        if self.fault.then == "less":
            size -= self.slots
        self.job.wait_world(size, above=self.floor())
        self.job.wait_step(self.job.step() + 4)

    def floor(self):
        """The recovered world's generation is newer than this."""
        if self.phase.marks == "worker":
            return 0
        if self.fault.then != "same" or self.cell.second_ms >= 0:
            return self.generation
        return self.begun_in if self.phase.after else 0

    def finish(self):
        self.end()
        self.job.finish(seconds=30)

    # -------------------------------------------------------------- oracle

    def check(self):
        flags = ["--bytes", 65536, "--coll-bytes", self.coll_bytes,
                 "--steps", self.job.final_state()[0]]
        self.job.check(fault_free(*flags))
        self.check_processes()
        self.check_generations()
        claim(self.pause_ms() < 1000 * MOST_PAUSE_S,
              f"a worker made no step for {self.pause_ms():.0f} ms")
        self.check_nothing_is_left()

    def check_processes(self):
        newest = max(e["generation"] for e in self.job.events())
        kept = {e["pid"] for e in self.job.events("leave")
                if e["generation"] == newest}
        for rank, worker in self.before.items():
            claim(worker["pid"] in kept | self.lost,
                  f"rank {rank}, process {worker['pid']}, was no target and "
                  "did not live to the end")

    def check_generations(self):
        """What only takes time changes no membership."""
        is_pause = "pause" in self.cell.fault or "etcd" in self.cell.fault
        if is_pause and self.phase.after in ("", "end"):
            claim(self.job.generation() <= max(1, self.generation),
                  f"generation {self.job.generation()} was made for nothing")

    def check_nothing_is_left(self):
        for host in self.hosts.names:
            left = until(lambda: not self.hosts.pids(host) or None, 20,
                         f"no process is left on {host}")
            claim(left, f"processes are left on {host}")
            bound = self.hosts.bound_ports(host)
            claim(not bound, f"ports stay bound on {host}: {bound}")
        dead = self.gone | self.job.lost | self.job.killed
        self.check_keys(dead)
        for host in set(self.hosts.names) - dead:
            folder = os.path.join(self.hosts.folder, host + ".r")
            stays = {".lock", ".story-" + self.job.name}  # what gc removes
            left = set(os.listdir(folder)) - stays \
                if os.path.isdir(folder) else set()
            claim(not left, f"files are left on {host}: {left}")
        # Files of mpirun are of other jobs: none here runs under it.
        shared = [n for n in os.listdir("/dev/shm")
                  if "regroup" in n and not n.startswith("regroup-mpi-")]
        claim(not shared, f"shared memory is left: {shared}")

    def check_keys(self, dead):
        """Those of hosts are gone; where one died they are under its lease,
        which no process keeps alive any more."""
        prefix = f"/regroup/v1/{self.job.name}/"
        leased = self.hosts.leased_keys(prefix)
        claim(dead or not leased, f"keys of agents are left in etcd: {leased}")
        odd = [key for key in self.hosts.keys(prefix)
               if key not in leased and not KEPT.match(key, len(prefix))]
        claim(not odd, f"keys of hosts are left without a lease: {odd}")
        until(lambda: self.hosts.most_ttl_s() < LEASE_S, 5,
              "a lease is kept alive")

    def pause_ms(self):
        """The longest time between two steps of a worker that lived through
        the fault."""
        longest, last = 0, {}
        for event in self.job.events("step"):
            pid = event["pid"]
            if pid in last and event["t_ns"] > self.fault_ns and \
                    pid not in self.lost:
                longest = max(longest, event["t_ns"] - last[pid])
            last[pid] = event["t_ns"]
        return longest / 1e6
