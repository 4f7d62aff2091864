"""bench_recovery counts its kills, its percentiles are in order, its parts add
up to about the whole, and the floor is a time. It claims nothing about how
fast recovery is."""

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
    [os.path.join(os.environ["REGROUP_BUILD"], "bin/bench_recovery"),
     "--workers", "3", "--bytes", "1M", "--kills", "3", "--json"],
    stdout=subprocess.PIPE, timeout=100, check=False)
if done.returncode != 0:
    fail(f"bench_recovery ended with {done.returncode}")
row = json.loads(done.stdout)["rows"][0]
if row["kills"] != 3 or len(row["ms"]) != 3:
    fail(f"not 3 kills: {row}")
if not 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]:
    fail(f"percentiles out of order: {row}")
if not row["parts_ms"] or min(row["parts_ms"].values()) < 0:
    fail(f"parts are missing or negative: {row}")
if not 0 < row["floor_ms"] < row["max_ms"]:
    fail(f"no floor: {row}")
