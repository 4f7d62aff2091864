#!/usr/bin/env python3
"""Faults of hosts and workers in a job of several hosts; how long until every
survivor has finished its next step?

  build/bench/bin/bench_hosts [--faults kill,stop,cut,cut-leader,drain,join]
  build/bench/bin/bench_hosts --stress MINUTES [--detect lan]
  build/bench/bin/bench_hosts --etcd-away MINUTES

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
only one). `floor` is one restore and one commit of the same state, copied
by as many processes, on as many hosts (vaults), as survive, in the same
run. The parts are medians of the times that the agent of a host noted which
the fault did not strike. `lost` are committed steps that were lost. `goal`
is what is to be reached (README.md). A fault that goes wrong is counted as
`bad`, and a new job goes on; a row that goes wrong throughout says so, and
the next one begins.

With --stress nothing is struck, but stress-ng works on every processor for so
long. Each change of the world is one that should not be: a false eviction, or
the host that comes back after one. The exit code is 1 if there was one.

With --etcd-away etcd is stopped (SIGSTOP) for so long and goes on for as long
as a lease lasts. The longest time between two steps is to be at most 500 ms,
or five mean steps, and the world is not to change; else the exit code is 1."""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from bench_stamps import (HERE, PARTS, WAIT_S, WORKER, Stamps, bytes_of,
                          floor_ms, percentile)

os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))
# pylint: disable=wrong-import-position
from hosts import Hosts, HostsJob, start_of  # noqa: E402
from house import Failed  # noqa: E402

ALL = ("kill", "stop", "cut", "cut-leader", "drain", "join")
DEATHS_PER_JOB = 24  # a slot that fails often starts ever later
BAD_IN_A_ROW = 3     # then a row is given up
DETECT_MS = {"lan": 500, "cloud": 3000}
# --detect auto: the goal, the time that agents observe before the budget
# falls, and the length of a cut that does not count as noise afterwards.
AUTO_GOAL_MS = (350, 600)
AUTO_CALM_S = 22
AUTO_CUT_S = 3.5


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
    flags.add_argument("--stress", type=float, metavar="MINUTES",
                       help="no fault, but stress-ng on every processor: "
                       "count the hosts and workers that are evicted")
    flags.add_argument("--etcd-away", type=float, metavar="MINUTES",
                       help="no fault, but etcd is stopped: the longest time "
                       "between two steps")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    given = flags.parse_args()
    given.fault_list = given.faults.split(",")
    if not re.fullmatch(r"auto|lan|cloud|\d+ms", given.detect):
        flags.error(f"--detect: {given.detect} is not auto, lan, cloud or e.g. "
                    "800ms")
    for fault in given.fault_list:
        if fault not in ALL:
            flags.error(f"--faults: there is no {fault}; choose from "
                        f"{', '.join(ALL)}")
    return given


class Bench(HostsJob):
    """A job of bench_recovery_worker and the stamps of its workers."""

    KEEPS_HISTORY = False

    def __init__(self, flags, hosts, name):
        world = flags.hosts * flags.slots
        self.stamps = Stamps(os.path.join(hosts.folder, name, "stamps"), world)
        super().__init__(
            hosts, ["--min", "1", "--max", str(world),
                    "--max-restarts", "1000000"],
            ["--slots", str(flags.slots)],
            [WORKER, "--bytes", str(flags.bytes), "--step-ms",
             str(flags.step_ms), "--stamps", self.stamps.folder], job=name,
            detect=flags.detect, env={"REGROUP_LOG": "warn"})

    def stepped(self, pids, generation):
        """[(t_ns, pause in ns)] of each worker's first step in a generation,
        None while a worker has none."""
        for pid in pids:
            if start_of(pid) is None:
                raise Failed(f"worker {pid} ended, which the fault did not "
                             "strike")
        found = self.stamps.stepped_after(pids, generation)
        return found and [(t_ns, self.pause(pid, generation, t_ns))
                          for pid, (_, t_ns) in found.items()]

    def pause(self, pid, generation, t_ns):
        before = self.stamps.lasts.get(pid, {}).get(generation)
        return t_ns - before[0] if before else None

    def wait_for(self, what, condition):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            found = condition()
            if found is not None:
                return found
            time.sleep(0.003)
        raise Failed(f"no {what} within {WAIT_S} s")

    def budget_ms(self):
        """That counts now; None: no agent says it."""
        status = self.status(self.hosts.names[0]) or {}
        return status.get("detect", {}).get("budget_ms")

    def await_calm(self, detect):
        """Agents have observed for long enough, and the budget follows."""
        end = time.monotonic() + AUTO_CALM_S
        self.wait_for("full world", self.stamps.full)
        while detect == "auto" and time.monotonic() < end:
            time.sleep(0.2)

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


def times(stepped, struck):
    pauses = [pause for _, pause in stepped if pause is not None]
    return {"ms": (max(t for t, _ in stepped) - struck) / 1e6,
            "pause_ms": max(pauses, default=0) / 1e6, "parts": {}}


def parts(job, pids, struck, generation):
    """{part: ms} of the change to that generation, as the host of a survivor
    noted it by the time of the next one."""
    status = job.status(job.host_of(pids[0])) or {"changes": []}
    for change in status["changes"]:
        stamps = dict(change, struck_ns=struck)
        if change["generation"] == generation:
            return {name: (stamps[end] - stamps[begin]) / 1e6
                    for name, begin, end in PARTS
                    if stamps[begin] and stamps[end]}
    return {}


def stay_cut(detect, fault, struck):
    if detect == "auto" and fault in ("cut", "cut-leader"):
        time.sleep(max(0, AUTO_CUT_S - (time.monotonic_ns() - struck) / 1e9))


def once(job, fault, rng, detect):
    """One fault, and the join that follows a drain; None: not struck."""
    generation, pids = job.wait_for("full world", job.stamps.full)
    time.sleep(rng.uniform(0.05, 0.25))
    if job.stamps.full() != (generation, pids):
        return None, None
    budget_ms = job.budget_ms()
    rest, struck, mend = strike(job, fault, rng, pids)
    stepped = job.wait_for("step of every survivor",
                           lambda: job.stepped(rest, generation))
    found = times(stepped, struck)
    found["budget_ms"] = budget_ms
    found["budget_after_ms"] = job.budget_ms()
    generation = min(g for g in job.stamps.firsts[rest[0]] if g > generation)
    stay_cut(detect, fault, struck)
    mend()
    began = time.monotonic_ns()
    job.wait_for("full world", job.stamps.full)
    found["parts"] = parts(job, rest, struck, generation)
    joined = None
    if fault == "drain":
        joined = times(job.wait_for("step of all", lambda: job.stepped(
            rest, generation)), began)
    return found, joined


class Row:
    """The faults of one kind, in as many jobs as it takes."""

    def __init__(self, flags, fault):
        self.flags, self.fault = flags, fault
        self.rng = random.Random(f"{flags.seed} {fault}")
        self.found, self.joins = [], []
        self.lost = self.bad = 0

    def is_complete(self):
        return len(self.found) >= self.flags.times

    def measure(self):
        bad_in_a_row = number = 0
        with Hosts(self.flags.hosts) as hosts:
            hosts.need_nets()
            while not self.is_complete() and bad_in_a_row < BAD_IN_A_ROW:
                number += 1
                before = len(self.found)
                try:
                    self.one_job(hosts, f"bench{number}")
                except (Failed, OSError, StopIteration, KeyError,
                        subprocess.SubprocessError) as why:
                    print(f"bench_hosts: {self.fault}: {why}",
                          file=sys.stderr)
                    self.bad += 1
                    hosts.heal()
                    bad_in_a_row += 1
                if len(self.found) > before:
                    bad_in_a_row = 0

    def one_job(self, hosts, name):
        with Bench(self.flags, hosts, name) as job:
            job.await_calm(self.flags.detect)
            for _ in range(DEATHS_PER_JOB):
                if self.is_complete():
                    break
                one, joined = once(job, self.fault, self.rng,
                                   self.flags.detect)
                self.found += [one] if one else []
                self.joins += [joined] if joined else []
            self.lost += job.steps_lost()


# ------------------------------------------------------------------ stress

def show(flags, name, found, line):
    """Of a job without faults: the line, and why its world changed."""
    if flags.json:
        json.dump({"benchmark": "bench_hosts", "cpus": os.cpu_count(),
                   name: found}, sys.stdout, indent=1)
        print()
    else:
        print(line, *found["causes"], sep="\n  ")


EVICTIONS = ("death", "broken", "host")


def changes_of(job):
    """{generation: change} that an agent that answers knows."""
    for host in job.hosts.names:
        status = job.status(host)
        if status:
            return {c["generation"]: c for c in status["changes"]}
    return {}


def stressed(job, seconds):
    """(changes made meanwhile, [budgets that counted])"""
    known, budgets = changes_of(job), []
    load = subprocess.Popen(["stress-ng", "--quiet", "--cpu",
                             str(os.cpu_count()), "--timeout",
                             f"{int(seconds) + 60}s"],
                            stdin=subprocess.DEVNULL)
    made, end = {}, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if load.poll() is not None:
                raise Failed("stress-ng has ended by itself")
            time.sleep(1)
            budgets.append(job.budget_ms())
            made |= {g: c for g, c in changes_of(job).items() if g not in known}
    finally:
        load.terminate()
        load.wait()
    return list(made.values()), [ms for ms in budgets if ms is not None]


def stress(flags):
    """One job, and a line of what it was."""
    if shutil.which("stress-ng") is None:
        print("bench_hosts: no stress-ng in PATH; ci/install load",
              file=sys.stderr)
        return 77
    with Hosts(flags.hosts) as hosts:
        hosts.need_nets()
        with Bench(flags, hosts, "stress") as job:
            job.await_calm(flags.detect)
            made, budgets = stressed(job, 60 * flags.stress)
    evicted = [c for c in made if c["kind"] in EVICTIONS]
    found = {"minutes": flags.stress, "detect": flags.detect,
             "load": os.getloadavg()[1], "evictions": len(evicted),
             "changes": len(made), "causes": [c["cause"] for c in made],
             "budget_ms": [min(budgets, default=None),
                           max(budgets, default=None)]}
    show(flags, "stress", found,
         f"{flags.stress:g} minutes of stress-ng on {os.cpu_count()} CPUs, "
         f"--detect {flags.detect} (budgets of {found['budget_ms'][0]} to "
         f"{found['budget_ms'][1]} ms): {len(evicted)} false evictions")
    return 1 if evicted else 0


# --------------------------------------------------------------- etcd away

AFTERWARDS_S = 15  # in which a lease that was lost would be missed
GAP_MS, GAP_STEPS = 500, 5


def without_etcd(job, seconds):
    """(mean step in ms, longest in ms, changes), over all workers"""
    generation, pids = job.wait_for("full world", job.stamps.full)
    known = changes_of(job)
    member = job.hosts.etcd[0]
    member.stop()
    try:
        time.sleep(seconds)
    finally:
        member.go_on()
    time.sleep(AFTERWARDS_S)
    changed = [c for g, c in changes_of(job).items() if g not in known]
    job.run_on(job.hosts.names[0], "stop", job.name)
    for agent in job.agents.values():
        agent.wait(WAIT_S)
    job.stamps.read()
    steps, longest, began, ended = 0, 0, [], []
    for pid in pids:
        for of, pace in job.stamps.pace[pid].items():
            if of >= generation:
                steps += pace[0]
                longest = max(longest, pace[1])
                began.append(job.stamps.firsts[pid][of][0])
                ended.append(job.stamps.lasts[pid][of][0])
    mean = (sum(ended) - sum(began)) / max(steps, 1)
    return mean / 1e6, longest / 1e6, changed


def etcd_away(flags):
    """One job, and a line of what it was."""
    with Hosts(flags.hosts) as hosts:
        hosts.need_nets()
        with Bench(flags, hosts, "away") as job:
            job.await_calm(flags.detect)
            mean, longest, changed = without_etcd(job, 60 * flags.etcd_away)
    goal = max(GAP_MS, GAP_STEPS * mean)
    found = {"minutes": flags.etcd_away, "detect": flags.detect,
             "step_ms": mean, "longest_ms": longest, "goal_ms": goal,
             "changes": len(changed), "causes": [c["cause"] for c in changed]}
    show(flags, "etcd_away", found,
         f"{flags.etcd_away:g} minutes without etcd: steps of {mean:.2f} ms, "
         f"the longest {longest:.1f} (goal {goal:.0f}), {len(changed)} changes")
    return 0 if longest <= goal and not changed else 1


# -------------------------------------------------------------------- rows

def survivors(flags, fault):
    """(workers, hosts)"""
    gone = {"kill": 1, "stop": 1, "join": 0}.get(fault, flags.slots)
    return (flags.hosts * flags.slots - gone,
            flags.hosts - gone // flags.slots)


def goal_of(flags, fault, floor):
    """(p50, p99) in ms; of drain and join they are the pause's."""
    if fault in ("drain", "join"):
        return flags.step_ms + 50, flags.step_ms + 50
    if fault == "kill":
        return (40, 100) if flags.bytes <= 1 << 20 else (floor + 20,
                                                         floor + 60)
    if flags.detect == "auto":
        return AUTO_GOAL_MS
    budget = DETECT_MS.get(flags.detect) or float(
        flags.detect.removesuffix("ms"))
    return budget + 200, budget + 500


def row_of(flags, fault, found, lost, bad):
    ms = [one["ms"] for one in found]
    pause = [one["pause_ms"] for one in found]
    floor = floor_ms(*survivors(flags, fault), flags.bytes)
    noted = {name: [one["parts"][name] for one in found
                    if name in one["parts"]] for name, _, _ in PARTS}
    return {"fault": fault, "hosts": flags.hosts,
            "workers": flags.hosts * flags.slots, "bytes": flags.bytes,
            "detect": flags.detect, "times": len(found), "bad": bad,
            "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99),
            "max_ms": max(ms), "pause_p50_ms": statistics.median(pause),
            "pause_p99_ms": percentile(pause, 99), "floor_ms": floor,
            "goal_ms": goal_of(flags, fault, floor),
            "parts_ms": {name: statistics.median(all_of)
                         for name, all_of in noted.items() if all_of},
            "budget_ms": [one.get("budget_ms") for one in found],
            "budget_after_ms": [one.get("budget_after_ms") for one in found],
            "steps_lost": lost, "ms": ms}


def print_head(flags):
    print(f"# fault to every survivor's next step, ms; {os.cpu_count()} "
          f"CPUs; --detect {flags.detect}; the parts are medians")
    print("#    fault hosts workers     bytes times bad |      p50      p99"
          "      max | pause p50      p99 |    floor   goal p50   p99 |"
          + "".join(f"{name:>8}" for name, _, _ in PARTS) + " | lost",
          flush=True)


def print_row(row):
    shown = "".join(f"{row['parts_ms'].get(name, float('nan')):8.1f}"
                    for name, _, _ in PARTS)
    print(f"{row['fault']:>10}{row['hosts']:6d}{row['workers']:8d}"
          f"{row['bytes']:10d}{row['times']:6d}{row['bad']:4d} |"
          f"{row['p50_ms']:9.1f}{row['p99_ms']:9.1f}{row['max_ms']:9.1f} |"
          f"{row['pause_p50_ms']:10.1f}{row['pause_p99_ms']:9.1f} |"
          f"{row['floor_ms']:9.1f}{row['goal_ms'][0]:11.0f}"
          f"{row['goal_ms'][1]:6.0f} |{shown} |{row['steps_lost']:5d}",
          flush=True)


def rows_of(flags, fault):
    """The rows of a fault: none when it went wrong throughout."""
    row = Row(flags, fault)
    try:
        row.measure()
    except (Failed, OSError) as why:
        print(f"bench_hosts: {fault}: {why}", file=sys.stderr)
    rows = []
    if row.found and fault in flags.fault_list:
        rows.append(row_of(flags, fault, row.found, row.lost, row.bad))
    if row.joins and "join" in flags.fault_list:
        rows.append(row_of(flags, "join", row.joins, 0, row.bad))
    if not row.is_complete():
        print(f"bench_hosts: {fault}: {len(row.found)} of {flags.times}",
              file=sys.stderr)
    return rows, row.is_complete()


def faults_to_strike(flags):
    """A join is measured behind each drain."""
    struck = [fault for fault in flags.fault_list if fault != "join"]
    if "join" in flags.fault_list and "drain" not in struck:
        struck.append("drain")
    return struck


def main():
    flags = parse_flags()
    if flags.stress:
        return stress(flags)
    if flags.etcd_away:
        return etcd_away(flags)
    rows, are_complete = [], True
    if not flags.json:
        print_head(flags)
    for fault in faults_to_strike(flags):
        found, is_complete = rows_of(flags, fault)
        are_complete = are_complete and is_complete
        rows += found
        if not flags.json:
            for row in found:
                print_row(row)
    if flags.json:
        json.dump({"benchmark": "bench_hosts", "cpus": os.cpu_count(),
                   "seed": flags.seed, "rows": rows}, sys.stdout, indent=1)
        print()
    return 0 if are_complete else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
