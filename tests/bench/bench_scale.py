#!/usr/bin/env python3
"""Many agents on one machine: how long does a change of membership take, and
what does it cost in keys, writes, messages and processor time?

  build/bench/bin/bench_scale [--agents 16,64,256] [--times 10]

Each agent is a host with one light worker, which computes nothing and moves no
data: only membership is measured. A random worker is killed and not replaced;
the change ends when every other worker has been told the decision. Agents,
workers and etcd share this machine's processors, so a row says more about them
than about a network. `floor` is what etcd alone takes for the same change:
three small writes in a row, each told to as many watchers, measured while the
agents of the row are at rest.
"""

import argparse
import base64
import json
import mmap
import os
import random
import selectors
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))
from house import Etcd  # noqa: E402 pylint: disable=wrong-import-position

WAIT_S = 120
AT_ONCE = 32  # agents that are started before these are waited for
REST_S = 3
WRITES = 3    # of a change: the reason, the proposal, the decision
PREFIX = "/regroup/v1/scale/"


def parse_flags():
    flags = argparse.ArgumentParser(
        description="What a change of membership takes with many agents.")
    flags.add_argument("--agents", default="16,64,256")
    flags.add_argument("--times", type=int, default=10,
                       help="workers killed for each row (default: 10)")
    flags.add_argument("--detect", default="cloud")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    given = flags.parse_args()
    given.agent_list = [int(part) for part in given.agents.split(",")]
    if min(given.agent_list) < 2:
        flags.error("--agents: at least 2: one of them leaves")
    return given


def encode(text):
    return base64.b64encode(text.encode()).decode()


def patient(what, function):
    """etcd may be slow while hundreds of processes start."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            return function()
        except OSError as failed:
            if time.monotonic() > end:
                raise RuntimeError(f"{what}: {failed}") from failed
            time.sleep(0.05)


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
        while len(self.agents) < self.n:
            for _ in range(min(AT_ONCE, self.n - len(self.agents))):
                self.start_one(len(self.agents))
            self.wait_until("have come", lambda: self.keys("lead/host/")[0] ==
                            len(self.agents))

    def start_one(self, i):
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

    def check_agents(self):
        for i, agent in enumerate(self.agents):
            if agent.poll() is not None:
                with open(os.path.join(self.folder, f"log{i}"),
                          encoding="utf-8", errors="replace") as log:
                    raise RuntimeError(f"agent {i} ended with "
                                       f"{agent.returncode}: {log.read()}")

    def wait_until(self, what, condition):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if condition():
                return
            self.check_agents()
            time.sleep(0.005)
        raise RuntimeError(f"not all of {self.n} agents {what} in {WAIT_S} s")

    def wait_generation(self, members, above):
        """The last of them learns of a newer decision: when, in ns."""
        self.wait_until(f"know a generation above {above}", lambda: all(
            self.stamp(i)[1] > above for i in members))
        seen = [self.stamp(i) for i in members]
        return max(t for t, _ in seen), min(g for _, g in seen)

    def keys(self, below=""):
        """(how many, the store's revision)."""
        prefix = PREFIX + below
        found = patient("no keys", lambda: self.etcd.post(
            "kv/range", key=encode(prefix),
            range_end=encode(prefix[:-1] + "0"), count_only=True))
        return int(found.get("count", 0)), int(found["header"]["revision"])

    def pid_of(self, i):
        text = patient("no host", lambda: self.etcd.get(
            f"{PREFIX}lead/host/h{i}"))
        return json.loads(text)["workers"][0][2]

    def stop(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
        for agent in self.agents:
            agent.wait()


# ------------------------------------------------------------------ counters

def datagrams():
    with open("/proc/net/snmp", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("Udp:")]
    return int(rows[1][rows[0].index("OutDatagrams")])


def etcd_counts(etcd):
    """(requests, messages to watchers, bytes sent), so far."""
    def ask():
        with urllib.request.urlopen(f"{etcd.url}/metrics", timeout=20) as page:
            return page.read().decode()
    requests = told = sent = 0
    for line in patient("no metrics", ask).splitlines():
        if line.startswith("grpc_server_msg_received_total"):
            requests += float(line.split()[-1])
        elif (line.startswith("grpc_server_msg_sent_total") and
              'grpc_method="Watch"' in line):
            told += float(line.split()[-1])
        elif line.startswith("etcd_network_client_grpc_sent_bytes_total"):
            sent += float(line.split()[-1])
    return requests, told, sent


def descendants(pid):
    found = [pid]
    for parent in found:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children",
                      encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    return found


def cpu_ms(pids):
    """Processor time of all threads so far; ended ones do not count."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat",
                          encoding="ascii") as file:
                    total += int(file.read().split()[0])
        except OSError:
            continue
    return total / 1e6


# --------------------------------------------------------------------- floor

class Watchers:
    """n watches of one key, as bare connections."""

    def __init__(self, etcd, n, key):
        self.etcd, self.key = etcd, key
        self.selector = selectors.DefaultSelector()
        body = json.dumps({"create_request": {"key": encode(key)}}).encode()
        head = (f"POST /v3/watch HTTP/1.1\r\nHost: etcd\r\nContent-Type: "
                f"application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        self.socks = []
        for _ in range(n):
            sock = socket.create_connection(("127.0.0.1", etcd.port), WAIT_S)
            sock.sendall(head.encode() + body)
            self.socks.append(sock)
        for sock in self.socks:
            self.until(sock, b'"created"')
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ)

    @staticmethod
    def until(sock, mark):
        seen = b""
        while mark not in seen:
            more = sock.recv(65536)
            if not more:
                raise RuntimeError("etcd closed a watch")
            seen += more

    def put(self):
        """Until all have been told, in s."""
        began = time.monotonic()
        told = set()
        self.etcd.post("kv/put", key=encode(self.key), value=encode("x" * 200))
        while len(told) < len(self.socks):
            for ready, _ in self.selector.select(WAIT_S):
                if b'"events"' in ready.fileobj.recv(65536):
                    told.add(ready.fileobj)
        return time.monotonic() - began

    def close(self):
        self.selector.close()
        for sock in self.socks:
            sock.close()


def floor_ms(etcd, n):
    watchers = Watchers(etcd, n, "/floor")
    try:
        return statistics.median(
            sum(watchers.put() for _ in range(WRITES)) * 1e3 for _ in range(9))
    finally:
        watchers.close()


# ---------------------------------------------------------------------- rows

def change(house, members, victim, generation, at_rest):
    """One worker leaves: what that took and cost."""
    pid = house.pid_of(victim)
    agents = [one for agent in house.agents for one in descendants(agent.pid)
              if one != pid]
    _, revision = house.keys()
    counts, sent = etcd_counts(house.etcd), datagrams()
    cpu, etcd_cpu = cpu_ms(agents), cpu_ms([house.etcd.process.pid])
    struck = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    told, generation = house.wait_generation(members, generation)
    took = time.monotonic_ns() - struck
    cpu = cpu_ms(agents) - cpu
    etcd_cpu = cpu_ms([house.etcd.process.pid]) - etcd_cpu
    beats = at_rest * took / 1e9
    datagrams_sent = max(0, datagrams() - sent - beats)
    after = etcd_counts(house.etcd)
    return generation, {
        "ms": (told - struck) / 1e6, "writes": house.keys()[1] - revision,
        "requests": after[0] - counts[0], "told": after[1] - counts[1],
        "etcd_bytes": after[2] - counts[2], "datagrams": datagrams_sent,
        "cpu_ms": cpu, "etcd_cpu_ms": etcd_cpu}


def measure(flags, n):
    rng = random.Random(f"{flags.seed} {n}")
    folder = tempfile.mkdtemp(prefix="rg-scale-")
    house = None
    try:
        with Etcd() as etcd:
            house = House(flags, n, etcd, folder)
            try:
                return measure_house(flags, house, rng)
            finally:
                house.stop()
    finally:
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)


def measure_house(flags, house, rng):
    began = time.monotonic_ns()
    house.start()
    members = list(range(house.n))
    formed, generation = house.wait_generation(members, 0)
    before, at = datagrams(), time.monotonic()
    time.sleep(REST_S)
    per_s = (datagrams() - before) / (time.monotonic() - at)
    changes = []
    for _ in range(min(flags.times, house.n - 1)):
        victim = members.pop(rng.randrange(len(members)))
        generation, one = change(house, members, victim, generation, per_s)
        changes.append(one)
    ms = [one["ms"] for one in changes]
    row = {name: statistics.median(one[name] for one in changes)
           for name in changes[0] if name != "ms"}
    return {"agents": house.n, "times": len(ms),
            "p50_ms": statistics.median(ms), "max_ms": max(ms),
            "floor_ms": floor_ms(house.etcd, house.n),
            "form_ms": (formed - began) / 1e6,
            "keys_per_host": house.keys("lead/")[0] / house.n,
            "keys": house.keys()[0], "datagrams_per_s": per_s, **row, "ms": ms}


def print_row(row):
    print(f"{row['agents']:8d}{row['times']:6d} |{row['p50_ms']:9.1f}"
          f"{row['max_ms']:9.1f}{row['floor_ms']:9.1f} |{row['cpu_ms']:8.0f}"
          f"{row['etcd_cpu_ms']:7.0f} |{row['keys_per_host']:9.2f}"
          f"{row['writes']:8.0f} |{row['requests'] / row['agents']:9.2f}"
          f"{row['told'] / row['agents']:8.2f}"
          f"{row['datagrams'] / row['agents']:10.2f}"
          f"{row['etcd_bytes'] / row['agents']:8.0f} |"
          f"{row['datagrams_per_s'] / row['agents']:8.1f}", flush=True)


def main():
    flags = parse_flags()
    rows, failed = [], 0
    if not flags.json:
        print(f"# one of N leaves: until all others know the decision, ms; "
              f"{os.cpu_count()} CPUs for agents, workers and etcd")
        print("#             |                           | CPU ms of  etcd | "
              "keys per writes | per host and change:                |  at "
              "rest,\n# agents times |      p50      max    floor |  agents"
              "        |    host        | requests    told datagrams   bytes "
              "| beats/s", flush=True)
    for n in flags.agent_list:
        try:
            rows.append(measure(flags, n))
        except (RuntimeError, OSError) as why:
            print(f"bench_scale: {n} agents: {why}", file=sys.stderr)
            failed += 1
            continue
        if not flags.json:
            print_row(rows[-1])
    if flags.json:
        json.dump({"benchmark": "bench_scale", "cpus": os.cpu_count(),
                   "failed": failed, "rows": rows}, sys.stdout, indent=1)
        print()
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
