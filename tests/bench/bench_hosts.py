#!/usr/bin/env python3
"""Faults of hosts and workers in a job of several hosts; how long until every
survivor has finished its next step?

  build/release/bin/bench_hosts [--faults kill,stop,cut,cut-leader,drain,join]

Hosts are network namespaces with an agent each, etcd has one of its own (root
is needed). One job of bench_recovery_worker runs on 4 hosts with 2 workers
each; faults strike at random moments, one after another, and the world is full
again before the next:

  kill        SIGKILL to a random worker
  stop        SIGSTOP to a random worker
  cut         the switch drops all frames of a random host, not the leader's
  cut-leader  the same for the leader's host
  drain       SIGTERM to a random agent; then a new agent on that host: join

The time of a fault ends with the last survivor's first step in a later
generation, by the worker's own clock. `pause` is the longest time that a
survivor was between two steps (of drain and join, where nothing breaks, the
only one). `lost` are committed steps that were lost.
"""

import argparse
import contextlib
import glob
import json
import os
import random
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))
# pylint: disable=wrong-import-position
from hosts import Hosts, HostsJob  # noqa: E402
from house import Failed  # noqa: E402

ALL = ("kill", "stop", "cut", "cut-leader", "drain", "join")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
WAIT_S = 60
DEATHS_PER_JOB = 24  # a slot that fails often starts ever later


def bytes_of(text):
    unit = UNITS.get(text[-1:].upper(), 0)
    return int(text[:-1]) * unit if unit else int(text)


def parse_flags():
    flags = argparse.ArgumentParser(
        description="Time from a fault to every survivor's next step, on "
        "several hosts.")
    flags.add_argument("--faults", default="kill,stop,cut,cut-leader,drain,join",
                       help=f"of {', '.join(ALL)} (default: all)")
    flags.add_argument("--hosts", type=int, default=4)
    flags.add_argument("--slots", type=int, default=2, help="workers per host")
    flags.add_argument("--bytes", type=bytes_of, default=1 << 20,
                       help="state of each worker (default: 1M)")
    flags.add_argument("--times", type=int, default=100,
                       help="faults for each row (default: 100)")
    flags.add_argument("--step-ms", type=int, default=0,
                       help="pause in each step (default: 0)")
    flags.add_argument("--detect", default="lan")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    given = flags.parse_args()
    given.fault_list = given.faults.split(",")
    for fault in given.fault_list:
        if fault not in ALL:
            flags.error(f"--faults: there is no {fault}; choose from "
                        f"{', '.join(ALL)}")
    return given


class Bench(HostsJob):
    """A job of bench_recovery_worker and the stamps of its workers."""

    def __init__(self, flags, hosts, name):
        stamps = os.path.join(hosts.folder, name, "stamps")
        os.makedirs(stamps)
        worker = os.path.join(HERE, "bench_recovery_worker")
        super().__init__(
            hosts, ["--min", "1", "--max", str(flags.hosts * flags.slots),
                    "--max-restarts", "1000000"],
            ["--slots", str(flags.slots)],
            [worker, "--bytes", str(flags.bytes), "--step-ms",
             str(flags.step_ms), "--stamps", stamps], job=name,
            detect=flags.detect, env={"REGROUP_LOG": "warn"})
        self.world = flags.hosts * flags.slots
        self.stamps = stamps
        self.offset = {}
        self.firsts, self.lasts = {}, {}  # {pid: {generation: (t_ns, size)}}

    def read(self):
        for path in glob.glob(os.path.join(self.stamps, "*")):
            pid = int(os.path.basename(path))
            with open(path, "rb") as file:
                file.seek(self.offset.get(pid, 0))
                text = file.read()
            end = text.rfind(b"\n") + 1
            self.offset[pid] = self.offset.get(pid, 0) + end
            for line in text[:end].splitlines():
                t_ns, generation, _rank, size, what = line.split()
                into = self.firsts if what == b"first" else self.lasts
                into.setdefault(pid, {})[int(generation)] = (int(t_ns),
                                                             int(size))

    def full(self):
        """(generation, its PIDs) once the world is whole and has stepped."""
        self.read()
        newest = max((max(seen) for seen in self.firsts.values()), default=0)
        pids = [pid for pid, seen in self.firsts.items() if newest in seen and
                seen[newest][1] == self.world]
        return (newest, pids) if len(pids) == self.world else None

    def stepped(self, pids, generation):
        """[(t_ns, pause in ns)] of everybody's first step after a generation,
        None while somebody has none."""
        self.read()
        found = []
        for pid in pids:
            later = [g for g in self.firsts[pid] if g > generation]
            if not later:
                return None
            t_ns = self.firsts[pid][min(later)][0]
            before = self.lasts.get(pid, {}).get(generation)
            found.append((t_ns, t_ns - before[0] if before else None))
        return found

    def wait_for(self, what, condition):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            found = condition()
            if found is not None:
                return found
            time.sleep(0.003)
        raise Failed(f"no {what} within {WAIT_S} s")

    def host_of(self, pid):
        return next(h for h in self.hosts.names if pid in self.hosts.pids(h))

    def steps_lost(self):
        return sum(json.loads(text)["steps_lost"] for key, text in
                   self.hosts.keys(f"/regroup/v1/{self.name}/all/line").items())


def strike(job, fault, rng, pids):
    """(PIDs that survive, when it struck, what makes the world whole again)."""
    leader = job.leader()
    if fault in ("kill", "stop"):
        victim = rng.choice(pids)
        struck = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        return [p for p in pids if p != victim], struck, lambda: None
    if fault == "cut-leader":
        host = leader
    else:
        host = rng.choice([h for h in job.hosts.names if h != leader])
    gone = set(job.hosts.pids(host))
    rest = [p for p in pids if p not in gone]
    if fault in ("cut", "cut-leader"):
        struck = time.monotonic_ns()
        job.hosts.cut(host)
        return rest, struck, lambda: job.hosts.heal(host)
    agent = job.agents[host]
    job.drained.add(host)
    struck = time.monotonic_ns()
    agent.send_signal(signal.SIGTERM)
    return rest, struck, lambda: (agent.wait(WAIT_S), job.agent(host))


def once(job, fault, rng):
    """One fault: {ms, pause_ms}, and of the join that follows a drain."""
    generation, pids = job.wait_for("full world", job.full)
    time.sleep(rng.uniform(0.05, 0.25))
    if job.full() != (generation, pids):
        return None, None
    rest, struck, mend = strike(job, fault, rng, pids)
    stepped = job.wait_for("step of every survivor",
                           lambda: job.stepped(rest, generation))
    found = times(stepped, struck)
    after = job.firsts[rest[0]]
    generation = max(after)
    mend()
    began = time.monotonic_ns()
    job.wait_for("full world", job.full)
    joined = None
    if fault == "drain":
        joined = times(job.wait_for("step of all", lambda: job.stepped(
            rest, generation)), began)
    return found, joined


def times(stepped, struck):
    pauses = [pause for _, pause in stepped if pause is not None]
    return {"ms": (max(t for t, _ in stepped) - struck) / 1e6,
            "pause_ms": max(pauses, default=0) / 1e6}


def measure(flags, fault):
    rng = random.Random(f"{flags.seed} {fault}")
    found, joins, lost = [], [], 0
    with Hosts(flags.hosts) as hosts:
        hosts.need_nets()
        for number in range(1, 1000):
            if len(found) >= flags.times:
                break
            with Bench(flags, hosts, f"bench{number}") as job:
                for _ in range(DEATHS_PER_JOB):
                    if len(found) >= flags.times:
                        break
                    one, joined = once(job, fault, rng)
                    if one:
                        found.append(one)
                    if joined:
                        joins.append(joined)
                lost += job.steps_lost()
    return found, joins, lost


def percentile(values, p):
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def row_of(flags, fault, found, lost):
    ms = [one["ms"] for one in found]
    pause = [one["pause_ms"] for one in found]
    return {"fault": fault, "hosts": flags.hosts,
            "workers": flags.hosts * flags.slots, "bytes": flags.bytes,
            "detect": flags.detect, "times": len(found),
            "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99),
            "max_ms": max(ms), "pause_p50_ms": statistics.median(pause),
            "pause_p99_ms": percentile(pause, 99), "steps_lost": lost,
            "ms": ms}


def print_row(row):
    print(f"{row['fault']:>10}{row['hosts']:6d}{row['workers']:8d}"
          f"{row['bytes']:10d}{row['times']:6d} |{row['p50_ms']:9.1f}"
          f"{row['p99_ms']:9.1f}{row['max_ms']:9.1f} |"
          f"{row['pause_p50_ms']:9.1f}{row['pause_p99_ms']:9.1f} |"
          f"{row['steps_lost']:5d}", flush=True)


def main():
    flags = parse_flags()
    rows = []
    if not flags.json:
        print(f"# fault to every survivor's next step, ms; {os.cpu_count()} "
              f"CPUs; --detect {flags.detect}")
        print("#    fault hosts workers     bytes times |      p50      p99"
              "      max | pause p50      p99 | lost", flush=True)
    for fault in flags.fault_list:
        if fault == "join":
            continue  # measured with drain
        found, joins, lost = measure(flags, fault)
        rows.append(row_of(flags, fault, found, lost))
        if joins and "join" in flags.fault_list:
            rows.append(row_of(flags, "join", joins, 0))
        if not flags.json:
            for row in rows[-2:] if joins else rows[-1:]:
                print_row(row)
    if flags.json:
        json.dump({"benchmark": "bench_hosts", "cpus": os.cpu_count(),
                   "seed": flags.seed, "rows": rows}, sys.stdout, indent=1)
        print()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.suppress(KeyboardInterrupt):
        try:
            sys.exit(main())
        except Failed as failed:
            print(f"bench_hosts: {failed}", file=sys.stderr)
            sys.exit(1)
