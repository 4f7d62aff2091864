#!/usr/bin/env python3
"""Kill a rank under `regroup agent --mpi`; how long until the next launch has
ended its first collective?

  build/bench/bin/bench_relaunch [--worlds 2x2,4x1] [--mpi openmpi] [--kills 20]

Hosts are network namespaces with an agent each (root is needed), and each world
is hosts x ranks. In turns a rank is killed, at a random moment, of a job of
Regroup's and of a bare `until mpirun ...; do :; done`, which keeps no state.
A kill's time ends when the last rank has ended its first collective.

  detect    the kill is seen by the agent of its host
  sweep     nothing of the launch is left on any host, and all have said so
  begin     the leader has written the next launch, and mpirun's host read it
  launch    the last rank has come to its main
  mpi_init  ... to the end of MPI_Init
  rg_init   ... of rg_init_mpi: the generation is decided
  restore   ... of rg_state_resume
  collective

With --ulfm also kills after which the ranks that are left go on in place (Open
MPI 5 of PyPI): restore is to the end of rg_state_resume. The kill after each
of them is another launch, with all ranks, and is not measured.
"""

import argparse
import contextlib
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
from hosts import NETNS, Hosts, HostsJob  # noqa: E402
from house import Failed, claim  # noqa: E402
from mpijob import HOSTS_ENV, run  # noqa: E402

PARTS = ("detect", "sweep", "begin", "launch", "mpi_init", "rg_init",
         "restore", "collective")
BARE = ("launch", "mpi_init", "collective")
LINE = re.compile(r"\[regroup (\d+):(\d+):([\d.]+) .*launch (\d+) "
                  r"(is over|is swept|begins)")
DAY_S = 24 * 3600


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
    flags.add_argument("--bytes", type=bytes_of, default=1 << 20,
                       help="state (default: 1M)")
    flags.add_argument("--ulfm", action="store_true",
                       help="also in place, on Open MPI 5")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    return flags.parse_args()


class Stamps:
    """What the ranks of all launches have written."""

    def __init__(self, path, world):
        self.path, self.world = path, world

    def launches(self):
        """[{what: the time in ns when the last rank was there, "pids": [..]}]
        of those whose ranks have all come to their first collective."""
        found, complete, of = {}, [], {}
        with contextlib.suppress(OSError), \
                open(self.path, encoding="ascii") as file:
            for line in file.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    ns, pid, _rank, what = line.split()
                    found.setdefault(int(pid), {})[what] = int(ns)
        for pid, seen in found.items():
            if "collective" in seen:
                of[pid] = seen
            if len(of) == self.world:
                latest = {what: max(one[what] for one in of.values())
                          for what in seen}
                complete.append({**latest, "pids": list(of)})
                of = {}
        return complete

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

    def __init__(self, flags, hosts, names, flavour, slots):
        self.stamps = Stamps(os.path.join(hosts.folder, "stamps-regroup"),
                             len(names) * slots)
        self.job = HostsJob(
            hosts, ["--mpi", "-n", str(self.stamps.world), "--max-restarts",
                    "1000000"], ["--slots", str(slots)],
            [os.path.join(HERE, f"bench_relaunch_worker-{flavour}"),
             self.stamps.path, str(flags.bytes)], detect="lan", only=names,
            env=dict(HOSTS_ENV, REGROUP_LOG="warn,agent=debug"))

    def __enter__(self):
        self.job.__enter__()
        return self

    def __exit__(self, *why):
        self.job.__exit__(*why)

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
        return ["mpirun", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
                self.shell(), "--mca", "plm_rsh_no_tree_spawn", "1", "--host",
                where, "-n", str(self.stamps.world), os.path.join(
                    HERE, f"bench_relaunch_worker-{self.flavour}"),
                self.stamps.path, str(self.bytes), "--bare"]

    def __enter__(self):
        loop = f"until {shlex.join(self.command())}; do :; done"
        env = {**self.hosts.environment(self.names[0]), **HOSTS_ENV}
        # pylint: disable=consider-using-with
        self.process = self.hosts.popen(
            self.names[0], ["sh", "-c", loop], env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for name in self.names:
            self.hosts.kill_host(name)

    def alive(self):
        return self.process.poll() is None

    @staticmethod
    def ends_of(_struck, launch):
        return [launch[part] for part in BARE]


class InPlace:
    """Ours, with --mpi=ulfm."""
    parts = ("restore", "collective")

    def __init__(self, flags, hosts, names, slots):
        self.path = os.path.join(hosts.folder, "stamps-ulfm")
        self.world = len(names) * slots
        env = dict(HOSTS_ENV, REGROUP_LOG="warn",
                   LD_LIBRARY_PATH=run.wheel("openmpi5") + "/lib",
                   PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
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
                    ns, pid, _rank, what = line.split()
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
            struck_ns, at, pids = self.kill(self.world - 1, rng, pids)
            ends = [struck_ns, *(at[part] for part in self.parts)]
            times.append(((ends[-1] - struck_ns) / 1e6,
                          {part: (ends[i + 1] - ends[i]) / 1e6
                           for i, part in enumerate(self.parts)}))
            _, _, pids = self.kill(self.world, rng, pids)
        return times


def kill_one(it, count, rng):
    """A rank of launch `count`; what it took in all, and by parts, in ms."""
    launch = it.stamps.wait(count, it.alive)
    time.sleep(rng.uniform(0.2, 0.4))
    struck = time.monotonic_ns(), time.time() + time.localtime().tm_gmtoff
    os.kill(rng.choice(launch["pids"]), signal.SIGKILL)
    ends = it.ends_of(struck, it.stamps.wait(count + 1, it.alive))
    begins = [struck[0], *ends[:-1]]
    return ((ends[-1] - struck[0]) / 1e6,
            {part: (end - begin) / 1e6
             for part, begin, end in zip(it.parts, begins, ends)})


def row_of(name, times, of):
    ms = [one[0] for one in times]
    parts = {part: statistics.median(one[1][part] for one in times)
             for part in of.parts}
    return {"name": name, "kills": len(ms), "p50_ms": percentile(ms, 50),
            "p99_ms": percentile(ms, 99), "min_ms": min(ms), "parts_ms": parts,
            "ms": ms}


def measure(flags, flavour, world):
    """A row of each; each has hosts of its own."""
    n, slots = map(int, world.split("x"))
    rng = random.Random(f"{flags.seed} {flavour} {world}")
    ours, bare = [], []
    with Hosts(2 * n) as hosts:
        if not hosts.has_nets:
            print("skipped: hosts need network namespaces, so root")
            sys.exit(77)
        with Job(flags, hosts, hosts.names[:n], flavour, slots) as job, \
                Bare(flags, hosts, hosts.names[n:], flavour, slots) as loop:
            for k in range(flags.kills):
                ours.append(kill_one(job, k + 1, rng))
                bare.append(kill_one(loop, k + 1, rng))
    return [row_of(f"{flavour} {world} {name}", times, of)
            for name, times, of in (("regroup", ours, Job),
                                    ("bare", bare, Bare))]


def measure_in_place(flags, world):
    n, slots = map(int, world.split("x"))
    rng = random.Random(f"{flags.seed} ulfm {world}")
    with Hosts(n, renames=True) as hosts:
        it = InPlace(flags, hosts, hosts.names, slots)
        with it.job:
            return row_of(f"openmpi5 {world} in place",
                          it.measure(flags.kills, rng), InPlace)


def print_row(row):
    parts = "".join(f"{row['parts_ms'][part]:11.1f}"
                    if part in row["parts_ms"] else f"{'-':>11}"
                    for part in PARTS)
    print(f"{row['name']:24}{row['kills']:6d} |{row['p50_ms']:9.0f}"
          f"{row['p99_ms']:9.0f}{row['min_ms']:9.0f} |{parts}", flush=True)


def main():
    flags = parse_flags()
    rows = []
    if not flags.json:
        print(f"# SIGKILL of a rank to the next launch's first collective, ms; "
              f"{os.cpu_count()} CPUs; the parts are medians")
        print(f"# {'':22} kills |      p50      p99      min |"
              + "".join(f"{part:>11}" for part in PARTS), flush=True)
    for flavour in flags.mpi.split(","):
        for world in flags.worlds.split(","):
            rows += measure(flags, flavour, world)
            if not flags.json:
                print_row(rows[-2])
                print_row(rows[-1])
    for world in flags.worlds.split(",") if flags.ulfm else ():
        rows.append(measure_in_place(flags, world))
        if not flags.json:
            print_row(rows[-1])
    if flags.json:
        json.dump({"benchmark": "bench_relaunch", "cpus": os.cpu_count(),
                   "bytes": flags.bytes, "rows": rows}, sys.stdout, indent=1)
        print()
    claim(rows, "no row")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"bench_relaunch: {failed}", file=sys.stderr)
        sys.exit(1)
