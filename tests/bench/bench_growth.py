#!/usr/bin/env python3
"""Does anything grow with the number of membership changes?

  build/bench/bin/bench_growth [--changes 2000] [--rows 10] [--etcd own]

One host and one job with a tiny state. The oldest worker is killed, it is
started again, and so on: two changes a kill. A row is what agent, supervisor
and etcd hold then: resident memory in KiB, open descriptors, what lies in
etcd's database and in its files (KiB), and, with --etcd own, how many keys the
job has. `written` is what etcd has written to its disk in a change since the
row before (0 where that is memory), `stored` what its database has gained by
one: with --etcd private (the default) etcd is as `regroup run` starts it, with
--etcd own it is never compacted."""

import argparse
import base64
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from bench_stamps import HERE, WAIT_S, WORKER, Stamps

os.environ.setdefault("REGROUP_BUILD", os.path.dirname(HERE))
os.environ.setdefault("REGROUP_SOURCE", "@CMAKE_SOURCE_DIR@")
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "lib"))
from house import (Etcd, agent_of,  # noqa: E402 pylint: disable=C0413
                   program_of)

PREFIX = "/regroup/v1/growth/"
COLUMNS = (("changes", 8), ("agent_kib", 10), ("supervisor_kib", 15),
           ("etcd_kib", 9), ("agent_fds", 10), ("supervisor_fds", 15),
           ("keys", 6), ("db_kib", 8), ("files_kib", 10), ("stored", 8),
           ("written", 9))


def parse_flags():
    flags = argparse.ArgumentParser(
        description="What agent, supervisor and etcd hold after many changes.")
    flags.add_argument("--changes", type=int, default=2000)
    flags.add_argument("--rows", type=int, default=10)
    flags.add_argument("--workers", type=int, default=20, help="more of them "
                       "are killed faster: a slot that fails within 5 s of its "
                       "start is started ever later (default: 20)")
    flags.add_argument("--etcd", choices=("private", "own"), default="private")
    flags.add_argument("--json", action="store_true")
    return flags.parse_args()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("etcd", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Private:
    """The etcd that `regroup run` starts."""

    def __init__(self, supervisor, folder):
        self.supervisor, self.folder = supervisor, folder
        self.flags = []

    @property
    def pid(self):
        for task in glob.glob(f"/proc/{self.supervisor()}/task/*/children"):
            with open(task, encoding="ascii") as file:
                for pid in map(int, file.read().split()):
                    if program_of(pid) == "etcd":
                        return pid
        raise RuntimeError("the job has no etcd")

    def database(self):
        """Bytes in use; of a private etcd anybody may ask that."""
        for path in glob.glob(f"{self.folder}/**/c:1", recursive=True):
            connection = UnixConnection(path)
            with contextlib.closing(connection):
                connection.request("POST", "/v3/maintenance/status", "{}")
                return int(json.load(connection.getresponse())["dbSizeInUse"])
        raise RuntimeError("the job's etcd has no socket")

    @staticmethod
    def keys():
        return None


class Own:
    """One that no job owns, and that is never compacted."""

    def __init__(self, etcd):
        self.etcd, self.folder = etcd, etcd.data
        self.flags = ["--etcd", etcd.url]

    @property
    def pid(self):
        return self.etcd.process.pid

    def database(self):
        return int(self.etcd.post("maintenance/status")["dbSizeInUse"])

    def keys(self):
        found = self.etcd.post(
            "kv/range", key=base64.b64encode(PREFIX.encode()).decode(),
            range_end=base64.b64encode(
                (PREFIX[:-1] + "0").encode()).decode(), count_only=True)
        return int(found.get("count", 0))


class Job:
    def __init__(self, flags, folder):
        self.workers, self.folder = flags.workers, folder
        self.stamps = Stamps(os.path.join(folder, "stamps"), flags.workers)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("REGROUP_")}
        self.env["REGROUP_RUN_DIR"] = os.path.join(folder, "run")
        self.process = None
        self.seen = []  # PIDs, the oldest first

    def start(self, etcd):
        with open(os.path.join(self.folder, "output"), "wb") as output:
            self.process = subprocess.Popen(
                [os.path.join(HERE, "regroup"), "run", "--job", "growth",
                 "--min", "1", "--max", str(self.workers), "--max-restarts",
                 "1000000", *etcd.flags, WORKER, "--bytes", "4096",
                 "--step-ms", "20", "--stamps", self.stamps.folder],
                env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_full(self, above):
        """Its generation, once all have stepped in one that is newer."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            found = self.stamps.full()
            if found is not None and found[0] > above:
                self.seen = [p for p in self.seen if p in found[1]] + [
                    p for p in found[1] if p not in self.seen]
                return found[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        with open(os.path.join(self.folder, "output"), encoding="utf-8",
                  errors="replace") as file:
            raise RuntimeError("the world is not full again:\n"
                               + file.read()[-3000:])

    def kill_oldest(self):
        pid = self.seen.pop(0)
        os.kill(pid, signal.SIGKILL)
        self.stamps.forget(pid)

    def status(self):
        shown = subprocess.run(
            [os.path.join(HERE, "regroup"), "status", "--json", "growth"],
            env=self.env, capture_output=True, text=True, timeout=WAIT_S,
            check=True)
        return json.loads(shown.stdout)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file
                    if line.startswith("VmRSS"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def written(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file
                    if line.startswith("write_bytes"))


def bytes_below(folder):
    """Of files that may go while they are counted."""
    total = 0
    for path in glob.glob(f"{folder}/**/member/**", recursive=True):
        with contextlib.suppress(OSError):
            total += os.stat(path).st_blocks * 512
    return total


def look(job, etcd, generation):
    agent = agent_of(job.process.pid)
    return {"changes": generation, "agent_kib": resident_kib(agent),
            "supervisor_kib": resident_kib(job.process.pid),
            "etcd_kib": resident_kib(etcd.pid),
            "agent_fds": descriptors(agent),
            "supervisor_fds": descriptors(job.process.pid),
            "keys": etcd.keys(),
            "db_kib": etcd.database() // 1024,
            "files_kib": bytes_below(etcd.folder) // 1024,
            "_written": written(etcd.pid), "_db": etcd.database()}


def add_rates(row, before):
    changes = max(1, row["changes"] - before["changes"])
    row["stored"] = (row["_db"] - before["_db"]) // changes
    row["written"] = (row["_written"] - before["_written"]) // changes


def print_row(row):
    print("".join(f"{'-' if row.get(name) is None else row[name]:>{width}}"
                  for name, width in COLUMNS), flush=True)


def measure(flags, job, etcd):
    """Rows, and what `regroup status` says at the end."""
    job.start(etcd)
    generation = job.wait_full(0)
    rows = [look(job, etcd, generation)]
    step = max(1, flags.changes // flags.rows)
    if not flags.json:
        print("".join(f"{name:>{width}}" for name, width in COLUMNS))
        print_row(rows[0])
    while rows[-1]["changes"] < flags.changes:
        job.kill_oldest()
        generation = job.wait_full(generation)
        if generation < min(rows[-1]["changes"] + step, flags.changes):
            continue
        rows.append(look(job, etcd, generation))
        add_rates(rows[-1], rows[-2])
        if not flags.json:
            print_row(rows[-1])
    return rows, job.status()


def run(flags, folder):
    job = Job(flags, folder)
    try:
        if flags.etcd == "private":
            return measure(flags, job, Private(
                lambda: job.process.pid, os.path.join(folder, "run")))
        with Etcd() as etcd:
            return measure(flags, job, Own(etcd))
    finally:
        job.stop()


def main():
    flags = parse_flags()
    folder = tempfile.mkdtemp(prefix="rg-growth-")
    try:
        rows, status = run(flags, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if flags.json:
        json.dump({"benchmark": "bench_growth", "etcd": flags.etcd,
                   "rows": rows, "kept": len(status["changes"]),
                   "changes_total": status.get("changes_total")}, sys.stdout,
                  indent=1)
        print()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except RuntimeError as failed:
        print(f"bench_growth: {failed}", file=sys.stderr)
        sys.exit(1)
