#!/usr/bin/env python3
"""Many agents on one machine: how long does a change of membership take, and
what does it cost in keys, writes, messages and processor time?

  build/bench/bin/bench_scale [--agents 16,64,256] [--times 10]
                              [--kinds one,ten,leader,etcd]

Each agent is a host with one light worker, which computes nothing and moves no
data: only membership is measured. A change ends when every host that stays has
told its worker the decision of the world without those that left:

  one     a random worker is killed and not replaced
  ten     ten of them at once, or a third of all where that is fewer
  leader  every process of the leader's host is killed
  etcd    a random worker and, just before, the leader of three etcd members

Agents, workers and etcd share this machine's processors, so a row says more
about them than about a network. etcd has a session of its own, and the agents
share one, since the kernel shares processors out by sessions (sched(7),
autogroups): with one for each agent, etcd got as little as one of them. `floor` is what
etcd alone takes for a change: three small writes in a row, each told to as
many watchers, measured while the agents of the row are at rest.

All of it runs in a namespace of processes, whose end is the end of everything
in it: a benchmark that is killed leaves no agent behind.
"""

import argparse
import base64
import contextlib
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
# pylint: disable=wrong-import-position
from etcd_cluster import Cluster  # noqa: E402
from house import LIBC, PR_SET_PDEATHSIG, Etcd  # noqa: E402
# pylint: enable=wrong-import-position

WAIT_S = 240
AT_ONCE = 32  # agents that are started before these are waited for
REST_S = 3
LOOK_S = 0.02  # between looks at a world that is to come
END_S = 8     # for what is left behind, once it is told to end
CHECK_S = 0.5  # between looks at all agents' processes, which take processor
WRITES = 3    # of a change: the reason, the proposal, the decision
PREFIX = "/regroup/v1/scale/"
KINDS = ("one", "ten", "leader", "etcd")
SAMPLE = 8    # hosts whose memory is looked at
SKIPPED = 77


def parse_flags():
    flags = argparse.ArgumentParser(
        description="What a change of membership takes with many agents.")
    flags.add_argument("--agents", default="16,64,256")
    flags.add_argument("--times", type=int, default=10,
                       help="changes of each row, at most (default: 10)")
    flags.add_argument("--kinds", default="one",
                       help="what leaves: " + ", ".join(KINDS))
    flags.add_argument("--detect", default="cloud")
    flags.add_argument("--min", default="1",
                       help="of the job; with hundreds of agents half of them, "
                       "as leases follow it (default: 1)")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--json", action="store_true",
                       help="print JSON with every single time")
    given = flags.parse_args()
    given.agent_list = [int(part) for part in given.agents.split(",")]
    given.kind_list = given.kinds.split(",")
    if min(given.agent_list) < 2:
        flags.error("--agents: at least 2: one of them leaves")
    for kind in set(given.kind_list) - set(KINDS):
        flags.error(f"--kinds: no {kind}: it is one of {', '.join(KINDS)}")
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


class Store:
    """One etcd, or three members and what becomes of their leader."""

    def __init__(self, cluster=None):
        self.cluster = cluster
        self.alone = None if cluster else Etcd(has_session=True)
        self.open = contextlib.ExitStack()

    def __enter__(self):
        self.open.enter_context(self.cluster or self.alone)
        return self

    def __exit__(self, *_):
        self.open.close()

    @property
    def urls(self):
        return (",".join(self.own_urls()) if self.cluster
                else self.alone.url)

    def members(self):
        return [m for m in self.cluster.members if m.process is not None]

    def own_urls(self):
        return ([m.own_url for m in self.members()] if self.cluster
                else [self.alone.url])

    def pids(self):
        return [m.process.pid for m in
                (self.members() if self.cluster else [self.alone])]

    def post(self, call, **fields):
        return (self.members()[0] if self.cluster
                else self.alone).post(call, **fields)

    def get(self, key):
        found = patient(f"no {key}", lambda: self.post(
            "kv/range", key=encode(key)))
        return base64.b64decode(found["kvs"][0]["value"])


class House:
    """n agents and their etcd."""

    def __init__(self, flags, n, etcd, folder):
        self.n, self.etcd, self.folder = n, etcd, folder
        self.detect, self.min = flags.detect, flags.min
        path = os.path.join(folder, "stamps")
        with open(path, "wb") as file:
            file.truncate(16 * n)
        with open(path, "r+b") as file:
            self.stamps = mmap.mmap(file.fileno(), 16 * n)
        self.agents = []
        self.members = list(range(n))
        self.lost = set()  # hosts of which nothing is left

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
                 self.etcd.urls, "--job", "scale", "--host", f"h{i}",
                 "--slots", "1", "--min", self.min, "--max", str(self.n),
                 "--start-timeout", "240s", "--max-restarts", "0",
                 "--detect", self.detect, "--",
                 os.path.join(HERE, "bench_scale_worker"),
                 os.path.join(self.folder, "stamps")], env=env,
                stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT))

    def stamp(self, i):
        return struct.unpack_from("QQ", self.stamps, 16 * i)

    def check_agents(self):
        for i, agent in enumerate(self.agents):
            if i not in self.lost and agent.poll() is not None:
                with open(os.path.join(self.folder, f"log{i}"),
                          encoding="utf-8", errors="replace") as log:
                    raise RuntimeError(f"agent {i} ended with "
                                       f"{agent.returncode}: {log.read()}")

    def wait_until(self, what, condition, pause_s=0.005):
        end, checked = time.monotonic() + WAIT_S, 0
        while time.monotonic() < end:
            if condition():
                return
            if time.monotonic() - checked > CHECK_S:
                self.check_agents()
                checked = time.monotonic()
            time.sleep(pause_s)
        raise RuntimeError(f"not all of {self.n} agents {what} in {WAIT_S} s")

    def wait_generation(self, least):
        """The last member learns of that decision, or a newer one: when."""
        self.wait_until(f"know generation {least}", lambda: all(
            self.stamp(i)[1] >= least for i in self.members))
        return max(self.stamp(i)[0] for i in self.members)

    def decided(self):
        """(generation, its members), of the newest decision."""
        cur = json.loads(self.etcd.get(f"{PREFIX}all/cur"))
        if cur["phase"] != "decided":
            return 0, 0
        line = json.loads(self.etcd.get(f"{PREFIX}all/line/{cur['g']:016x}"))
        return cur["g"], line["to_size"]

    def wait_world(self):
        """A decided world of those that are left: its generation."""
        found = [0, 0]

        def is_there():
            found[:] = self.decided()
            return found[1] == len(self.members)
        self.wait_until(f"come to a world of {len(self.members)}", is_there,
                        LOOK_S)
        return found[0]

    def keys(self, below=""):
        """(how many, the store's revision)."""
        prefix = PREFIX + below
        found = patient("no keys", lambda: self.etcd.post(
            "kv/range", key=encode(prefix),
            range_end=encode(prefix[:-1] + "0"), count_only=True))
        return int(found.get("count", 0)), int(found["header"]["revision"])

    def leader(self):
        host = json.loads(self.etcd.get(f"{PREFIX}all/leader"))["host"]
        return int(host[1:])

    def pid_of(self, i):
        return json.loads(self.etcd.get(
            f"{PREFIX}lead/host/h{i}"))["workers"][0][2]

    def processes(self):
        return [one for i, agent in enumerate(self.agents)
                if i not in self.lost for one in descendants(agent.pid)]

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


def etcd_counts(urls):
    """(requests, messages to watchers, bytes sent), so far, by these."""
    requests = told = sent = 0
    for url in urls:
        def ask(url=url):
            with urllib.request.urlopen(f"{url}/metrics", timeout=20) as page:
                return page.read().decode()
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


def memory_kb(pids):
    """Their share of what they have mapped."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), \
                open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file
                         if line.startswith("Pss:"))
    return total


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
            sock = socket.create_connection(
                ("127.0.0.1", int(etcd.own_urls()[0].split(":")[2])), WAIT_S)
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

def victims(house, kind, rng):
    """(hosts that leave the world, processes to kill, in that order)."""
    led = house.leader()
    if kind == "leader":
        return [led], list(descendants(house.agents[led].pid))
    others = [i for i in house.members if i != led]
    leave = rng.sample(others, min(10, max(1, len(others) // 3))
                       if kind == "ten" else 1)
    return leave, [house.pid_of(i) for i in leave]


def strike(house, kind, pids):
    if kind == "etcd":
        house.etcd.cluster.leader().kill()
    struck = time.monotonic_ns()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return struck


def change(house, kind, rng, at_rest):
    """Some leave: what that took and cost."""
    leave, pids = victims(house, kind, rng)
    agents = [one for one in house.processes() if one not in pids]
    _, revision = house.keys()
    urls = house.etcd.own_urls()
    if kind == "etcd":
        led = house.etcd.cluster.leader().own_url
        urls = [url for url in urls if url != led]
    etcds, (generation, _) = house.etcd.pids(), house.decided()
    counts, sent = etcd_counts(urls), datagrams()
    cpu, etcd_cpu = cpu_ms(agents), cpu_ms(etcds)
    struck = strike(house, kind, pids)
    house.members = [i for i in house.members if i not in leave]
    if kind == "leader":
        house.lost |= set(leave)
    if len(leave) == 1 and kind == "one":  # no look disturbs etcd
        told = house.wait_generation(generation + 1)
    else:
        told = house.wait_generation(house.wait_world())
    took = time.monotonic_ns() - struck
    cpu, etcd_cpu = cpu_ms(agents) - cpu, cpu_ms(etcds) - etcd_cpu
    beats = at_rest * took / 1e9
    datagrams_sent = max(0, datagrams() - sent - beats)
    after = etcd_counts(urls)
    return {
        "ms": (told - struck) / 1e6, "writes": house.keys()[1] - revision,
        "generations": house.decided()[0] - generation,
        "requests": after[0] - counts[0], "told": after[1] - counts[1],
        "etcd_bytes": after[2] - counts[2], "datagrams": datagrams_sent,
        "cpu_ms": cpu, "etcd_cpu_ms": etcd_cpu}


def measure(flags, n, kinds):
    """Rows of n agents, one for each kind, each as soon as it is there."""
    folder = tempfile.mkdtemp(prefix="rg-scale-")
    try:
        cluster = Cluster(has_session=True) if "etcd" in kinds else None
        with Store(cluster) as etcd:
            house = House(flags, n, etcd, folder)
            try:
                yield from measure_house(flags, house, kinds)
            finally:
                house.stop()
    finally:
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)


def rest(house):
    """What it costs that nothing happens, by the second."""
    pids, etcds = house.processes(), house.etcd.pids()
    counts, sent = etcd_counts(house.etcd.own_urls()), datagrams()
    cpu, etcd_cpu, at = cpu_ms(pids), cpu_ms(etcds), time.monotonic()
    time.sleep(REST_S)
    took = time.monotonic() - at
    sample = [one for agent in house.agents[:SAMPLE]
              for one in descendants(agent.pid)]
    return {"datagrams_per_s": (datagrams() - sent) / took,
            "rest_requests_per_s": (etcd_counts(house.etcd.own_urls())[0] -
                                    counts[0]) / took,
            "rest_cpu_ms_per_s": (cpu_ms(pids) - cpu) / took,
            "rest_etcd_cpu_ms_per_s": (cpu_ms(etcds) - etcd_cpu) / took,
            "host_kb": memory_kb(sample) / min(SAMPLE, house.n),
            "etcd_kb": memory_kb(etcds)}


def measure_house(flags, house, kinds):
    began = time.monotonic_ns()
    house.start()
    come = time.monotonic_ns()
    formed = house.wait_generation(1)
    at_rest = {"come_ms": (come - began) / 1e6,
               "form_ms": (formed - began) / 1e6,
               "start_requests": etcd_counts(house.etcd.own_urls())[0],
               "start_etcd_bytes": etcd_counts(house.etcd.own_urls())[2],
               **rest(house)}
    at_rest["floor_ms"] = floor_ms(house.etcd, house.n)
    for kind in kinds:
        rng = random.Random(f"{flags.seed} {house.n} {kind}")
        changes = []
        most = 1 if kind == "etcd" else flags.times  # of three, one may go
        while len(changes) < most and len(house.members) > 1:
            changes.append(change(house, kind, rng,
                                  at_rest["datagrams_per_s"]))
        yield row_of(house, kind, changes, at_rest)


def row_of(house, kind, changes, at_rest):
    ms = [one["ms"] for one in changes]
    row = {name: statistics.median(one[name] for one in changes)
           for name in changes[0] if name != "ms"}
    return {"agents": house.n, "kind": kind, "times": len(ms),
            "p50_ms": statistics.median(ms), "max_ms": max(ms),
            "keys_per_host": house.keys("lead/")[0] / house.n,
            "keys": house.keys()[0], **at_rest, **row, "ms": ms}


def print_heads():
    print(f"# some of N hosts leave: until all others know the decision, ms; "
          f"{os.cpu_count()} CPUs for agents, workers and etcd\n"
          "#                      |                           | CPU ms of  "
          "etcd | keys per writes | per host and change:                |  at "
          "rest,\n# agents    who times |      p50      max    floor |  "
          "agents        |    host        | requests    told datagrams   bytes "
          "| beats/s", flush=True)


def print_row(row):
    print(f"{row['agents']:8d}{row['kind']:>7s}{row['times']:6d} |"
          f"{row['p50_ms']:9.1f}"
          f"{row['max_ms']:9.1f}{row['floor_ms']:9.1f} |{row['cpu_ms']:8.0f}"
          f"{row['etcd_cpu_ms']:7.0f} |{row['keys_per_host']:9.2f}"
          f"{row['writes']:8.0f} |{row['requests'] / row['agents']:9.2f}"
          f"{row['told'] / row['agents']:8.2f}"
          f"{row['datagrams'] / row['agents']:10.2f}"
          f"{row['etcd_bytes'] / row['agents']:8.0f} |"
          f"{row['datagrams_per_s'] / row['agents']:8.1f}", flush=True)


def print_rest(row):
    n = row["agents"]
    print(f"# {n} agents: the last came after {row['come_ms'] / 1e3:.1f} s, "
          f"the world {row['form_ms'] / 1e3:.1f} s, with "
          f"{row['start_requests'] / n:.1f} requests and "
          f"{row['start_etcd_bytes'] / n / 1e3:.0f} kB of etcd for each host; "
          f"at rest {row['rest_cpu_ms_per_s']:.0f} ms of CPU a second, etcd "
          f"{row['rest_etcd_cpu_ms_per_s']:.0f} with "
          f"{row['rest_requests_per_s']:.0f} requests; "
          f"{row['host_kb'] / 1e3:.1f} MB a host, etcd "
          f"{row['etcd_kb'] / 1e3:.0f}", flush=True)


def houses(flags):
    """Three etcd members are for the kind that loses one."""
    for n in flags.agent_list:
        for kinds in ([k for k in flags.kind_list if k != "etcd"],
                      [k for k in flags.kind_list if k == "etcd"]):
            if kinds:
                yield n, kinds


def main():
    flags = parse_flags()
    rows, failed = [], 0
    if not flags.json:
        print_heads()
    for n, kinds in houses(flags):
        try:
            for row in measure(flags, n, kinds):
                rows.append(row)
                if not flags.json and row["kind"] == kinds[0]:
                    print_rest(row)
                if not flags.json:
                    print_row(row)
        except (RuntimeError, OSError) as why:
            print(f"bench_scale: {n} agents: {why}", file=sys.stderr)
            failed += 1
    if flags.json:
        json.dump({"benchmark": "bench_scale", "cpus": os.cpu_count(),
                   "failed": failed, "rows": rows}, sys.stdout, indent=1)
        print()
    return 1 if failed else 0


# ----------------------------------------------------------------- namespace

NAMESPACE = "BENCH_SCALE_NAMESPACE"  # says that our children get one


def enter_namespace():
    """Start again as the parent of a new namespace of processes."""
    words = ["unshare", "--pid", "--mount"]
    if os.geteuid() != 0:
        words.append("--map-root-user")
    if subprocess.run([*words, "true"], check=False).returncode != 0:
        print("bench_scale: needs a namespace of its own for its processes",
              file=sys.stderr)
        sys.exit(SKIPPED)
    os.environ[NAMESPACE] = "1"
    os.execvp("unshare", [*words, sys.executable, *sys.argv])


def be_first():
    """Process 1: the kernel ends all others with us, and us with our parent."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    return main()


def wait_for_first(pid):
    """One that can't end in time takes all with it."""
    def end(*_):
        os.kill(pid, signal.SIGTERM)
        signal.alarm(END_S)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it gets that itself
    return abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    if os.environ.pop(NAMESPACE, None) is None:
        enter_namespace()
    first = os.fork()
    sys.exit(wait_for_first(first) if first else be_first())
