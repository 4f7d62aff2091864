#!/usr/bin/env python3
"""Many agents on one machine: how long does a change of membership take, and
what does it cost in keys, writes and datagrams?

  build/release/bin/bench_scale [--agents 16,64,256] [--times 10]

Each agent is a host with one light worker, which computes nothing and moves no
data: only membership is measured. A random worker is killed and not replaced;
the change ends when every other worker has been told the decision. Agents,
workers and etcd share this machine's processors, so a row says more about them
than about a network.
"""

import argparse
import base64
import json
import mmap
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))
from house import Etcd  # noqa: E402 pylint: disable=wrong-import-position

WAIT_S = 120
PREFIX = "/regroup/v1/scale/"


def parse_flags():
    flags = argparse.ArgumentParser(
        description="What a change of membership takes with many agents.")
    flags.add_argument("--agents", default="16,64,256")
    flags.add_argument("--times", type=int, default=10,
                       help="workers killed for each row (default: 10)")
    flags.add_argument("--detect", default="cloud")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true")
    given = flags.parse_args()
    given.agent_list = [int(part) for part in given.agents.split(",")]
    return given


class House:
    """n agents and their etcd."""

    def __init__(self, flags, n, etcd, folder):
        self.n, self.etcd, self.folder = n, etcd, folder
        self.detect = flags.detect
        path = os.path.join(folder, "stamps")
        with open(path, "wb") as file:
            file.truncate(16 * n)
        with open(path, "r+b") as file:
            self.stamps = mmap.mmap(file.fileno(), 16 * n)
        self.agents = []

    def start(self):
        for i in range(self.n):
            kept = {k: v for k, v in os.environ.items()
                    if not k.startswith("REGROUP_")}
            env = dict(kept, LIGHT_NUMBER=str(i), REGROUP_LOG="error",
                       REGROUP_RUN_DIR=os.path.join(self.folder, "run"))
            with open(os.path.join(self.folder, f"log{i}"), "wb") as log:
                self.agents.append(subprocess.Popen(
                    [os.path.join(HERE, "regroup"), "agent", "--etcd",
                     self.etcd.url, "--job", "scale", "--host", f"h{i}",
                     "--slots", "1", "--min", "1", "--max", str(self.n),
                     "--start-timeout", "120s", "--max-restarts", "0",
                     "--detect", self.detect, "--",
                     os.path.join(HERE, "bench_scale_worker"),
                     os.path.join(self.folder, "stamps")], env=env,
                    stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True))

    def stamp(self, i):
        return struct.unpack_from("QQ", self.stamps, 16 * i)

    def wait_generation(self, members, above):
        """The last of them learns of a newer decision: when, in ns."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            seen = [self.stamp(i) for i in members]
            if min(g for _, g in seen) > above:
                return max(t for t, _ in seen), min(g for _, g in seen)
            time.sleep(0.005)
        raise RuntimeError(f"no generation above {above} on all of "
                           f"{len(members)} agents within {WAIT_S} s")

    def pid_of(self, i):
        record = json.loads(self.etcd.get(f"{PREFIX}lead/host/h{i}"))
        return record["workers"][0][2]

    def stop(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
        for agent in self.agents:
            agent.wait()


def count_keys(etcd):
    encode = lambda text: base64.b64encode(text.encode()).decode()
    found = etcd.post("kv/range", key=encode(PREFIX),
                      range_end=encode(PREFIX[:-1] + "0"), keys_only=True)
    return len(found.get("kvs", [])), int(found["header"]["revision"])


def datagrams():
    with open("/proc/net/snmp", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("Udp:")]
    return int(rows[1][rows[0].index("OutDatagrams")])


def measure(flags, n):
    rng = random.Random(f"{flags.seed} {n}")
    folder = tempfile.mkdtemp(prefix="rg-scale-")
    ms, writes = [], []
    try:
        with Etcd() as etcd:
            house = House(flags, n, etcd, folder)
            try:
                began = time.monotonic_ns()
                house.start()
                members = list(range(n))
                formed, generation = house.wait_generation(members, 0)
                before, t = datagrams(), time.monotonic()
                time.sleep(3)
                per_s = (datagrams() - before) / (time.monotonic() - t)
                for _ in range(min(flags.times, n - 1)):
                    victim = members.pop(rng.randrange(len(members)))
                    pid = house.pid_of(victim)
                    _, revision = count_keys(etcd)
                    struck = time.monotonic_ns()
                    os.kill(pid, signal.SIGKILL)
                    told, generation = house.wait_generation(members,
                                                             generation)
                    ms.append((told - struck) / 1e6)
                    keys, after = count_keys(etcd)
                    writes.append(after - revision)
            finally:
                house.stop()
    finally:
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
    return {"agents": n, "times": len(ms), "p50_ms": statistics.median(ms),
            "max_ms": max(ms), "form_ms": (formed - began) / 1e6,
            "keys": keys, "writes": statistics.median(writes),
            "datagrams_per_s": per_s, "ms": ms}


def main():
    flags = parse_flags()
    rows = []
    if not flags.json:
        print(f"# one of N leaves: until all others know the decision, ms; "
              f"{os.cpu_count()} CPUs for agents, workers and etcd")
        print("# agents times |      p50      max |  form all |   keys  "
              "writes/change  datagrams/s", flush=True)
    for n in flags.agent_list:
        row = measure(flags, n)
        rows.append(row)
        if not flags.json:
            print(f"{n:8d}{row['times']:6d} |{row['p50_ms']:9.1f}"
                  f"{row['max_ms']:9.1f} |{row['form_ms']:10.0f} |"
                  f"{row['keys']:7d}{row['writes']:15.0f}"
                  f"{row['datagrams_per_s']:13.0f}", flush=True)
    if flags.json:
        json.dump({"benchmark": "bench_scale", "cpus": os.cpu_count(),
                   "rows": rows}, sys.stdout, indent=1)
        print()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except RuntimeError as failed:
        print(f"bench_scale: {failed}", file=sys.stderr)
        sys.exit(1)
