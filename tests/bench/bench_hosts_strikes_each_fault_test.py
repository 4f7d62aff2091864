"""bench_hosts strikes every kind of fault, and what it prints fits together. It
claims nothing about how fast recovery is."""

import json
import os
import shutil
import subprocess
import sys


def fail(why):
    print(why, file=sys.stderr)
    sys.exit(1)


if shutil.which("etcd") is None:
    print("skipped: no etcd in PATH; apt-get install etcd-server")
    sys.exit(77)
done = subprocess.run(
    [sys.executable,
     os.path.join(os.environ["REGROUP_BUILD"], "bin/bench_hosts"), "--times",
     "2", "--bytes", "64K", "--step-ms", "5", "--json"],
    stdout=subprocess.PIPE, timeout=170, check=False)
if done.returncode == 77:
    print("skipped: hosts need network namespaces")
    sys.exit(77)
if done.returncode != 0:
    fail(f"bench_hosts ended with {done.returncode}")
rows = {row["fault"]: row for row in json.loads(done.stdout)["rows"]}
if set(rows) != {"kill", "stop", "cut", "cut-leader", "drain", "join"}:
    fail(f"rows are missing: {list(rows)}")
for row in rows.values():
    if row["times"] != 2 or len(row["ms"]) != 2:
        fail(f"not 2 faults: {row}")
    if not 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]:
        fail(f"percentiles out of order: {row}")
    if not 0 < row["floor_ms"] < row["max_ms"]:
        fail(f"no floor: {row}")
if set(rows["kill"]["parts_ms"]) != {"detect", "agree", "rebuild", "decide",
                                     "sync", "step"}:
    fail(f"parts are missing: {rows['kill']}")
for fault in ("stop", "cut", "cut-leader"):
    if min(rows[fault]["ms"]) < 250:
        fail(f"noticed before it was silent: {rows[fault]}")
for fault in ("drain", "join"):
    if rows[fault]["steps_lost"] != 0:
        fail(f"steps were lost: {rows[fault]}")
