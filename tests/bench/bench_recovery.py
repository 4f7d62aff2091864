#!/usr/bin/env python3
"""Kill workers at random moments; how long until every survivor has finished
its next step?

  build/dev/bin/bench_recovery [--workers 2,4,8] [--bytes 1M,64M] [--kills 100]

For each number of workers and each size of the state it starts one job on a
private etcd (bench_recovery_worker: an allreduce and a commit in every step),
kills a random worker with SIGKILL, and waits until the world is full again and
has run on for a random time before the next. A kill's time ends with the last
survivor's first step of the next generation, by the worker's own clock. The
parts come from `regroup status --json`; the floor is one restore and one
commit of the same state, copied by as many processes in the same run.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench_stamps import (HERE, PARTS, WAIT_S, WORKER, Stamps, bytes_of,
                          floor_ms, percentile)

SLOWEST = 5
KILLS_PER_WORKER = 3  # in one job: a slot that fails often starts ever later


def parse_flags():
    flags = argparse.ArgumentParser(
        description="Time from a SIGKILL to every survivor's next step.")
    flags.add_argument("--workers", default="2,4,8",
                       help="sizes of the world (default: 2,4,8)")
    flags.add_argument("--bytes", default="1M,64M",
                       help="state of each worker (default: 1M,64M)")
    flags.add_argument("--kills", type=int, default=100,
                       help="kills for each row (default: 100)")
    flags.add_argument("--step-ms", type=int, default=0,
                       help="pause in each step (default: 0)")
    flags.add_argument("--seed", type=int, default=1,
                       help="of victims and moments (default: 1)")
    flags.add_argument("--etcd-bin", help="the etcd program (default: PATH)")
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    given = flags.parse_args()
    given.worker_list = [int(part) for part in given.workers.split(",")]
    given.byte_list = [bytes_of(part) for part in given.bytes.split(",")]
    if min(given.worker_list) < 2:
        flags.error("--workers: at least 2: one of them is killed")
    return given


class Job:
    """One job of bench_recovery_worker and the stamps of its workers."""

    def __init__(self, flags, workers, state_bytes, folder):
        self.flags, self.workers, self.bytes = flags, workers, state_bytes
        self.folder = folder
        self.stamps = Stamps(os.path.join(folder, "stamps"), workers)
        self.env = dict(os.environ,
                        REGROUP_RUN_DIR=os.path.join(folder, "run"))
        self.process = None

    def start(self):
        command = [os.path.join(HERE, "regroup"), "run", "--min", "1", "--max",
                   str(self.workers), "--job", "bench", "--max-restarts",
                   "1000000"]
        if self.flags.etcd_bin:
            command += ["--etcd-bin", self.flags.etcd_bin]
        command += [WORKER, "--bytes", str(self.bytes), "--step-ms",
                    str(self.flags.step_ms), "--stamps", self.stamps.folder]
        with open(os.path.join(self.folder, "output"), "wb") as output:
            self.process = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def output(self):
        with open(os.path.join(self.folder, "output"), encoding="utf-8",
                  errors="replace") as file:
            return file.read()[-4000:]

    def wait_for(self, what, condition):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            found = condition()
            if found is not None:
                return found
            if self.process.poll() is not None:
                raise RuntimeError(f"the job ended while waiting for {what}:\n"
                                   + self.output())
            time.sleep(0.005)
        raise RuntimeError(f"no {what} within {WAIT_S} s:\n" + self.output())

    def changes(self):
        shown = subprocess.run(
            [os.path.join(HERE, "regroup"), "status", "--json"], env=self.env,
            capture_output=True, text=True, timeout=WAIT_S, check=True)
        return {change["generation"]: change
                for change in json.loads(shown.stdout)["changes"]}


def kill_one(job, rng):
    """Kill a worker of the full world; what it took, in ns."""
    generation, pids = job.wait_for("full world", job.stamps.full)
    time.sleep(rng.uniform(0.05, 0.25))
    if job.stamps.full() != (generation, pids):
        return None  # the world has changed by itself; look again
    victim = rng.choice(pids)
    survivors = [pid for pid in pids if pid != victim]
    killed_ns = time.monotonic_ns()
    os.kill(victim, signal.SIGKILL)
    stepped = job.wait_for("step of every survivor", lambda:
                           job.stamps.stepped_after(survivors, generation))
    job.wait_for("full world", job.stamps.full)
    change = job.changes().get(max(at for at, _ in stepped.values()), {})
    return {"struck_ns": killed_ns,
            "stepped_ns": max(t_ns for _, t_ns in stepped.values()),
            "steps_lost": change.get("steps_lost"),
            **{key: change.get(key) for _, _, key in PARTS[:-1]}}


def parts_of(kills):
    """Median of each part, over the kills whose times are all known."""
    whole = [kill for kill in kills
             if all(kill[end] for _, _, end in PARTS)]
    return {name: statistics.median((kill[end] - kill[begin]) / 1e6
                                    for kill in whole)
            for name, begin, end in PARTS} if whole else {}


def slowest_of(kills):
    """The parts of those that took longest."""
    kills = sorted(kills, key=lambda k: k["struck_ns"] - k["stepped_ns"])
    return [{"ms": (kill["stepped_ns"] - kill["struck_ns"]) / 1e6,
             **parts_of([kill])} for kill in kills[:SLOWEST]]


def kill_some(flags, workers, state_bytes, rng, most):
    """The kills of one job."""
    kills = []
    with tempfile.TemporaryDirectory(prefix="rg-bench-") as folder:
        job = Job(flags, workers, state_bytes, folder)
        try:
            job.start()
            while len(kills) < most:
                found = kill_one(job, rng)
                if found:
                    kills.append(found)
        finally:
            job.stop()
    return kills


def measure(flags, workers, state_bytes):
    rng = random.Random(f"{flags.seed} {workers} {state_bytes}")
    kills = []
    while len(kills) < flags.kills:
        kills += kill_some(flags, workers, state_bytes, rng,
                           min(flags.kills - len(kills),
                               KILLS_PER_WORKER * workers))
    ms = [(kill["stepped_ns"] - kill["struck_ns"]) / 1e6 for kill in kills]
    return {"workers": workers, "bytes": state_bytes, "kills": len(kills),
            "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99),
            "max_ms": max(ms), "parts_ms": parts_of(kills),
            "floor_ms": floor_ms(workers - 1, 1, state_bytes),
            "steps_lost": sum(kill["steps_lost"] or 0 for kill in kills),
            "slowest": slowest_of(kills), "ms": ms}


def print_row(row):
    parts = "".join(f"{row['parts_ms'].get(name, float('nan')):8.2f}"
                    for name, _, _ in PARTS)
    print(f"{row['workers']:9d}{row['bytes']:11d}{row['kills']:7d} |"
          f"{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}{row['max_ms']:9.2f} |"
          f"{parts} |{row['floor_ms']:9.2f}{row['steps_lost']:6d}", flush=True)


def main():
    flags = parse_flags()
    rows = []
    if not flags.json:
        print(f"# SIGKILL to every survivor's next step, ms; "
              f"{os.cpu_count()} CPUs; the parts are medians")
        print("# workers      bytes  kills |      p50      p99      max |"
              + "".join(f"{name:>8}" for name, _, _ in PARTS)
              + " |    floor  lost", flush=True)
    for state_bytes in flags.byte_list:
        for workers in flags.worker_list:
            rows.append(measure(flags, workers, state_bytes))
            if not flags.json:
                print_row(rows[-1])
    if flags.json:
        json.dump({"benchmark": "bench_recovery", "cpus": os.cpu_count(),
                   "step_ms": flags.step_ms, "seed": flags.seed,
                   "rows": rows}, sys.stdout, indent=1)
        print()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except RuntimeError as failed:
        print(f"bench_recovery: {failed}", file=sys.stderr)
        sys.exit(1)
