#!/usr/bin/env python3
"""Kill a rank under `regroup agent --mpi`; how long until the next launch has
ended its first collective?

  build/bench/bin/bench_relaunch [--worlds 2x2,4x1] [--kills 20]
      [--mpi openmpi,openmpi5,mpich] [--kinds rank,daemon,mpirun,host,early]

Hosts are network namespaces with an agent each (root is needed), and each world
is hosts x ranks. In turns a rank is killed, at a random moment, of a job of
Regroup's and of a bare `until mpirun ...; do :; done`, which keeps no state;
the other one takes few steps meanwhile, as waiting ranks of some MPIs spin.
A kill's time ends when the last rank has ended its first collective. Other
kinds are killed of a job of Regroup's alone: the MPI's daemon on a host, mpirun
itself, a whole host, where a spare one takes its ranks, and some process of a
launch that has just begun, after a rank (early).

  detect    the kill is seen by the agent of its host
  sweep     nothing of the launch is left on any host, and all have said so
  begin     the leader has written the next launch, and mpirun's host read it
  launch    the last rank has come to its main
  mpi_init  ... to the end of MPI_Init
  rg_init   ... of rg_init_mpi: the generation is decided
  restore   ... of rg_state_resume
  collective

cpu is the processor time of all processes of the job from the kill to its end,
and lost counts steps whose commit a rank has seen, and that are not there in
the next launch: it has to be 0.

With --ulfm also kills after which the ranks that are left go on in place (Open
MPI 5 of PyPI): restore is to the end of rg_state_resume. The kill after each
of them is another launch, with all ranks, and is not measured.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

from bench_stamps import HERE, WAIT_S, bytes_of, percentile

os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
TESTS = os.path.join(os.environ["REGROUP_SOURCE"], "tests")
sys.path[:0] = [os.path.join(TESTS, "lib"), os.path.join(TESTS, "mpirun")]
# pylint: disable=wrong-import-position
from hosts import (NETNS, Hosts, HostsJob, can_make_namespaces,
                   start_of)  # noqa: E402
from house import Failed, claim, program_of  # noqa: E402
from mpijob import DAEMONS, HOSTS_ENV, run  # noqa: E402

PARTS = ("detect", "sweep", "begin", "launch", "mpi_init", "rg_init",
         "restore", "collective")
BARE = ("launch", "mpi_init", "collective")
LINE = re.compile(r"\[regroup (\d+):(\d+):([\d.]+) .*launch (\d+) "
                  r"(is over|is swept|begins)")
DAY_S = 24 * 3600
KINDS = "rank", "daemon", "mpirun", "host", "early"
MPIRUNS = {"openmpi5": "prterun"}
EARLY_S = 0.3  # a launch has come to its world by then, or almost
# In place of ssh; behind these words a bare mpirun has its hosts.
SHELLS = {
    "openmpi": ("--mca plm rsh --mca plm_rsh_agent @ "
                "--mca plm_rsh_no_tree_spawn 1 --host"),
    "openmpi5": ("--prtemca plm ssh --prtemca plm_ssh_agent @ "
                 "--prtemca plm_ssh_no_tree_spawn 1 --host"),
    "mpich": "-launcher rsh -launcher-exec @ -hosts"}


def parse_flags():
    flags = argparse.ArgumentParser(
        description="Time from a SIGKILL to the next launch's first "
        "collective.")
    flags.add_argument("--worlds", default="2x2,4x1",
                       help="hosts x ranks on each (default: 2x2,4x1)")
    flags.add_argument("--mpi", default="openmpi",
                       help="flavours of the MPI (default: openmpi)")
    flags.add_argument("--kills", type=int, default=20,
                       help="for each row, and as many of bare mpirun")
    flags.add_argument("--kinds", default="rank",
                       help=f"what is killed: {','.join(KINDS)} (default: "
                       "rank)")
    flags.add_argument("--bytes", type=bytes_of, default=1 << 20,
                       help="state (default: 1M)")
    flags.add_argument("--ulfm", action="store_true",
                       help="also in place, on Open MPI 5")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    return flags.parse_args()


def environment_of(flavour):
    """Of an mpirun, and the folder of one that PyPI has."""
    env, folder = dict(HOSTS_ENV), None
    if flavour == "openmpi5":
        folder = run.wheel(flavour)
        env["LD_LIBRARY_PATH"] = folder + "/lib"
        env["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    return env, folder


def worker_of(flavour):
    built_for = {"openmpi5": "openmpi"}.get(flavour, flavour)
    return os.path.join(HERE, f"bench_relaunch_worker-{built_for}")


class Meter:
    """The processor time of all that is started inside, by cgroups."""
    root = "/sys/fs/cgroup"

    def __init__(self, name):
        v1 = os.path.join(self.root, "cpuacct")
        root, self.file = ((v1, "cpuacct.usage") if os.path.isdir(v1)
                           else (self.root, "cpu.stat"))
        self.folder = os.path.join(root, f"regroup-bench-{os.getpid()}-{name}")
        self.home = os.path.join(root, "cgroup.procs")

    @staticmethod
    def move(to):
        with open(to, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    @contextlib.contextmanager
    def around(self):
        """What starts in here counts; none does where that is not allowed."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.move(os.path.join(self.folder, "cgroup.procs"))
        except OSError:
            yield
            return
        try:
            yield
        finally:
            self.move(self.home)

    def ms(self):
        with contextlib.suppress(OSError), \
                open(os.path.join(self.folder, self.file),
                     encoding="ascii") as file:
            text = file.read().split()
            return (int(text[0]) / 1e6 if len(text) == 1 else
                    int(text[text.index("usage_usec") + 1]) / 1e3)
        return 0.0

    def remove(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)


class Stamps:
    """What the ranks of all launches have written."""

    def __init__(self, path, world):
        self.path, self.world = path, world
        self.read_to, self.lost = 0, 0
        self.found, self.of, self.complete = {}, {}, []

    def launches(self):
        """[{what: the time in ns when the last rank was there, "pids": [..]}]
        of those whose ranks have all come to their first collective."""
        with contextlib.suppress(OSError), \
                open(self.path, encoding="ascii") as file:
            file.seek(self.read_to)
            text = file.read()
            whole = text.rfind("\n") + 1
            self.read_to += whole
            for line in text[:whole].splitlines():
                self.take(*line.split())
        return self.complete

    def take(self, ns, pid, launch, what, count=0):
        seen = self.found.setdefault(int(pid), {})
        seen[what] = int(ns)
        self.lost += int(count)
        if what != "collective":
            return
        of = self.of.setdefault(launch, {})  # a bare one has no number
        of[int(pid)] = seen
        if len(of) == self.world:
            self.complete.append({**{
                part: max(one[part] for one in of.values())
                for part in seen}, "pids": list(of)})
            del self.of[launch]

    @contextlib.contextmanager
    def resting(self):
        """The job takes few steps, since it is another one's turn."""
        name = self.path + ".rests"
        with open(name, "w", encoding="ascii"):
            pass
        try:
            yield
        finally:
            os.unlink(name)

    def wait(self, count, alive):
        """The newest launch, once there are so many."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and alive():
            seen = self.launches()
            if len(seen) >= count:
                return seen[-1]
            time.sleep(0.01)
        raise Failed(f"no launch {count} within {WAIT_S} s")


def wall_of(hours, minutes, seconds):
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


class Job:
    """Ours."""
    parts = PARTS

    def __init__(self, flags, hosts, names, flavour, slots, spares=0):
        self.hosts, self.flavour = hosts, flavour
        self.meter = Meter("regroup")
        self.stamps = Stamps(os.path.join(hosts.folder, "stamps-regroup"),
                             (len(names) - spares) * slots)
        self.job = HostsJob(
            hosts, ["--mpi", "-n", str(self.stamps.world), "--max-restarts",
                    "1000000"], ["--slots", str(slots)],
            [worker_of(flavour), self.stamps.path, str(flags.bytes)],
            detect="lan", only=names,
            env=dict(environment_of(flavour)[0],
                     REGROUP_LOG="warn,agent=debug"))

    def __enter__(self):
        with self.meter.around():
            self.job.__enter__()
        return self

    def __exit__(self, *why):
        self.job.__exit__(*why)
        self.meter.remove()

    def programs(self, name):
        """Its processes of that name, by host."""
        return [(host, pid) for host in self.hosts.names
                for pid in self.hosts.pids(host)
                if is_program(pid, name)]

    def strike(self, kind, pids, rng):
        """A process, or a host; the host, which has to come back."""
        if kind == "host":
            host = self.host_of(rng.choice(pids))
            self.job.kill_host(host)
            return host
        if kind in ("daemon", "mpirun"):
            name = (DAEMONS[self.flavour] if kind == "daemon"
                    else MPIRUNS.get(self.flavour, "mpirun"))
            pids = [pid for _, pid in self.programs(name)]
            claim(pids, f"no process is {name}")
        os.kill(rng.choice(pids), signal.SIGKILL)
        return None

    def strike_early(self, rng):
        """Whatever there is of the next launch by then."""
        time.sleep(rng.uniform(0, EARLY_S))
        ours = [pid for name in (os.path.basename(worker_of(self.flavour)),
                                 DAEMONS[self.flavour],
                                 MPIRUNS.get(self.flavour, "mpirun"))
                for _, pid in self.programs(name)]
        with contextlib.suppress(OSError, IndexError):
            os.kill(rng.choice(ours), signal.SIGKILL)

    def host_of(self, pid):
        return next(host for host in self.hosts.names
                    if pid in self.hosts.pids(host))

    def restart(self, host):
        with self.meter.around():
            self.job.agent(host)

    def alive(self):
        return self.job.alive()

    def marks(self, struck_s):
        """{what: seconds after that wall-clock time} of the agents' lines."""
        found = {}
        for text in LINE.finditer(self.job.text()):
            after = (wall_of(*text.groups()[:3]) - struck_s) % DAY_S
            if after > WAIT_S:
                continue
            what = text.group(5)
            first = what == "is over"
            at = found.setdefault(what, after)
            found[what] = min(at, after) if first else max(at, after)
        return found

    def ends_of(self, struck, launch):
        """When each part ended, in ns."""
        struck_ns, struck_s = struck
        marks = self.marks(struck_s % DAY_S)
        lines = [struck_ns + int(marks.get(what, 0) * 1e9)
                 for what in ("is over", "is swept", "begins")]
        return lines + [launch[part] for part in PARTS[3:]]


class Bare:
    """until mpirun ...; do :; done"""
    parts = BARE

    def __init__(self, flags, hosts, names, flavour, slots):
        self.hosts, self.names, self.slots = hosts, names, slots
        self.flavour, self.bytes = flavour, flags.bytes
        self.meter = Meter("bare")
        self.stamps = Stamps(os.path.join(hosts.folder, "stamps-bare"),
                             len(names) * slots)
        self.process = None

    def shell(self):
        """The place of ssh, from one namespace to another."""
        path = os.path.join(self.hosts.folder, "shell")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\ncase $1 in\n")
            for name in self.names:
                file.write(f"{self.hosts.address(name)}) net={NETNS}/"
                           f"{self.hosts.net(name)};;\n")
            file.write("esac\nshift\nexec nsenter --net=$net sh -c \"$*\"\n")
        os.chmod(path, 0o700)
        return path

    def command(self):
        where = ",".join(f"{self.hosts.address(name)}:{self.slots}"
                         for name in self.names)
        folder = environment_of(self.flavour)[1]
        mpirun = (folder + "/bin/mpirun" if folder is not None
                  else "mpirun." + self.flavour)
        return [mpirun, *(self.shell() if word == "@" else word
                          for word in SHELLS[self.flavour].split()), where,
                "-n", str(self.stamps.world), worker_of(self.flavour),
                self.stamps.path, str(self.bytes), "--bare"]

    def __enter__(self):
        loop = f"until {shlex.join(self.command())}; do :; done"
        env = {**self.hosts.environment(self.names[0]),
               **environment_of(self.flavour)[0]}
        # pylint: disable=consider-using-with
        with self.meter.around():
            self.process = self.hosts.popen(
                self.names[0], ["sh", "-c", loop], env=env,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for name in self.names:
            self.hosts.kill_host(name)
        self.meter.remove()

    def alive(self):
        return self.process.poll() is None

    @staticmethod
    def strike(_kind, pids, rng):
        os.kill(rng.choice(pids), signal.SIGKILL)

    @staticmethod
    def ends_of(_struck, launch):
        return [launch[part] for part in BARE]


class InPlace:
    """Ours, with --mpi=ulfm."""
    parts = ("restore", "collective")

    def __init__(self, flags, hosts, names, slots):
        self.path = os.path.join(hosts.folder, "stamps-ulfm")
        self.world = len(names) * slots
        self.meter = Meter("ulfm")
        env = dict(environment_of("openmpi5")[0], REGROUP_LOG="warn")
        self.job = HostsJob(
            hosts, ["--mpi=ulfm", "--min", str(self.world - 1), "--max",
                    str(self.world), "--max-restarts", "1000000"],
            ["--slots", str(slots)],
            [os.path.join(HERE, "bench_relaunch_worker-openmpi"), self.path,
             str(flags.bytes), "--ulfm"], detect="lan", only=names, env=env)

    def after(self, struck_ns, size):
        """{what: when the last of so many ranks was there}, and their pids,
        once all have ended a collective."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and self.job.alive():
            seen = {}
            with contextlib.suppress(OSError), \
                    open(self.path, encoding="ascii") as file:
                for line in file.read().splitlines(keepends=True):
                    ns, pid, _rank, what, *_ = line.split()
                    if line.endswith("\n") and int(ns) > struck_ns:
                        seen.setdefault(what, {})[int(pid)] = int(ns)
            if len(seen.get("collective", ())) >= size:
                return ({part: max(seen[part].values())
                         for part in self.parts}, list(seen["collective"]))
            time.sleep(0.01)
        raise Failed(f"no {size} ranks within {WAIT_S} s")

    def kill(self, size, rng, pids):
        time.sleep(rng.uniform(0.2, 0.4))
        struck_ns = time.monotonic_ns()
        os.kill(rng.choice(pids), signal.SIGKILL)
        return struck_ns, *self.after(struck_ns, size)

    def measure(self, kills, rng):
        times = []
        _, pids = self.after(0, self.world)
        for _ in range(kills):
            cpu = self.meter.ms()
            struck_ns, at, pids = self.kill(self.world - 1, rng, pids)
            ends = [struck_ns, *(at[part] for part in self.parts)]
            times.append(((ends[-1] - struck_ns) / 1e6,
                          {part: (ends[i + 1] - ends[i]) / 1e6
                           for i, part in enumerate(self.parts)},
                          self.meter.ms() - cpu))
            _, _, pids = self.kill(self.world, rng, pids)
        return times


def is_program(pid, name):
    with contextlib.suppress(OSError):
        return (program_of(pid) or "").startswith(name[:15])
    return False


def living_launch(it):
    """The newest, and which one it is: an early kill may have come late."""
    count = max(1, len(it.stamps.launches()))
    while True:
        launch = it.stamps.wait(count, it.alive)
        time.sleep(0.05)
        if all(start_of(pid) is not None for pid in launch["pids"]):
            return count, launch
        count += 1


def kill_one(it, kind, rng):
    """Of a launch that has come to its first collective; what it took in all,
    by parts, and of processors, in ms."""
    count, launch = living_launch(it)
    time.sleep(rng.uniform(0.2, 0.4))
    cpu = it.meter.ms()
    struck = time.monotonic_ns(), time.time() + time.localtime().tm_gmtoff
    host = it.strike(kind, launch["pids"], rng)
    if kind == "early":
        it.strike_early(rng)
    ends = it.ends_of(struck, it.stamps.wait(count + 1, it.alive))
    cpu = it.meter.ms() - cpu
    if host is not None:
        it.restart(host)
    begins = [struck[0], *ends[:-1]]
    return ((ends[-1] - struck[0]) / 1e6,
            {part: (end - begin) / 1e6
             for part, begin, end in zip(it.parts, begins, ends)}, cpu)


def row_of(name, times, of, lost=0):
    ms = [one[0] for one in times]
    parts = {part: statistics.median(one[1][part] for one in times)
             for part in of.parts}
    return {"name": name, "kills": len(ms), "p50_ms": percentile(ms, 50),
            "p99_ms": percentile(ms, 99), "min_ms": min(ms), "parts_ms": parts,
            "cpu_ms": statistics.median(one[2] for one in times),
            "lost": lost, "ms": ms}


def measure_beside_bare(flags, flavour, n, slots, rng):
    """In turns; each has hosts of its own."""
    ours, bare = [], []
    with Hosts(2 * n, renames=True) as hosts:
        with Job(flags, hosts, hosts.names[:n], flavour, slots) as job, \
                Bare(flags, hosts, hosts.names[n:], flavour, slots) as loop:
            for _ in range(flags.kills):
                with loop.stamps.resting():
                    ours.append(kill_one(job, "rank", rng))
                with job.stamps.resting():
                    bare.append(kill_one(loop, "rank", rng))
            lost = job.stamps.lost
    name = f"{flavour} {n}x{slots}"
    return [row_of(f"{name} rank", ours, Job, lost),
            row_of(f"{name} bare", bare, Bare)]


def measure_kind(flags, flavour, n, slots, kind, rng):
    spares = int(kind == "host")
    with Hosts(n + spares, renames=True) as hosts:
        with Job(flags, hosts, hosts.names, flavour, slots, spares) as job:
            times = [kill_one(job, kind, rng) for _ in range(flags.kills)]
            return [row_of(f"{flavour} {n}x{slots} {kind}", times, Job,
                           job.stamps.lost)]


def measure(flags, flavour, world, kind):
    """A row, or two."""
    n, slots = map(int, world.split("x"))
    rng = random.Random(f"{flags.seed} {flavour} {world} {kind}")
    if kind == "rank":
        return measure_beside_bare(flags, flavour, n, slots, rng)
    return measure_kind(flags, flavour, n, slots, kind, rng)


def measure_in_place(flags, world):
    n, slots = map(int, world.split("x"))
    rng = random.Random(f"{flags.seed} ulfm {world}")
    with Hosts(n, renames=True) as hosts:
        it = InPlace(flags, hosts, hosts.names, slots)
        with it.meter.around():
            it.job.__enter__()
        with contextlib.ExitStack() as stack:
            stack.callback(it.meter.remove)
            stack.push(it.job)
            return row_of(f"openmpi5 {world} in place",
                          it.measure(flags.kills, rng), InPlace)


def print_row(row):
    parts = "".join(f"{row['parts_ms'][part]:11.1f}"
                    if part in row["parts_ms"] else f"{'-':>11}"
                    for part in PARTS)
    print(f"{row['name']:20}{row['kills']:6d}{row['lost']:5d} |"
          f"{row['p50_ms']:8.0f}{row['p99_ms']:8.0f}{row['min_ms']:8.0f}"
          f"{row['cpu_ms']:8.0f} |{parts}", flush=True)


def main():
    flags = parse_flags()
    rows = []
    if not can_make_namespaces():
        print("skipped: hosts need network namespaces, so root")
        return 77
    if not flags.json:
        print(f"# SIGKILL of a rank to the next launch's first collective, ms; "
              f"{os.cpu_count()} CPUs; the parts are medians")
        print(f"# {'':18} kills lost |     p50     p99     min     cpu |"
              + "".join(f"{part:>11}" for part in PARTS), flush=True)
    for flavour, world, kind in itertools.product(
            flags.mpi.split(","), flags.worlds.split(","),
            flags.kinds.split(",")):
        measured = measure(flags, flavour, world, kind)
        rows += measured
        for row in () if flags.json else measured:
            print_row(row)
    for world in flags.worlds.split(",") if flags.ulfm else ():
        rows.append(measure_in_place(flags, world))
        if not flags.json:
            print_row(rows[-1])
    if flags.json:
        json.dump({"benchmark": "bench_relaunch", "cpus": os.cpu_count(),
                   "bytes": flags.bytes, "rows": rows}, sys.stdout, indent=1)
        print()
    claim(not any(row["lost"] for row in rows), "a committed step was lost")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"bench_relaunch: {failed}", file=sys.stderr)
        sys.exit(1)
