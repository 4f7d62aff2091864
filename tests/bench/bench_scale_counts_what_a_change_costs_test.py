"""bench_scale counts its changes; a change of membership leaves at most a key
per host and writes as little for many hosts as for few."""

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
     os.path.join(os.environ["REGROUP_BUILD"], "bin/bench_scale"),
     "--agents", "4,12", "--times", "2", "--json"],
    stdout=subprocess.PIPE, timeout=100, check=False)
if done.returncode != 0:
    fail(f"bench_scale ended with {done.returncode}")
for row in json.loads(done.stdout)["rows"]:
    if row["times"] != 2 or len(row["ms"]) != 2:
        fail(f"not 2 changes: {row}")
    if not 0 < row["p50_ms"] <= row["max_ms"]:
        fail(f"times out of order: {row}")
    if not 0 < row["floor_ms"] or not 0 < row["cpu_ms"]:
        fail(f"no floor or no work: {row}")
    if row["keys_per_host"] > 1:
        fail(f"more than a key per host: {row}")
    if row["writes"] > 6:
        fail(f"a write for each host: {row}")
