"""bench_across measures workers on two hosts, and no result is wrong. It claims
nothing about how fast they are."""

import json
import os
import shutil
import subprocess
import sys


def fail(why):
    print(why, file=sys.stderr)
    sys.exit(1)


if shutil.which("etcd") is None:
    print("skipped: etcd is not installed (ci/install installs it)")
    sys.exit(77)
done = subprocess.run(
    [sys.executable, os.path.join(os.environ["REGROUP_BUILD"],
                                  "bin/bench_across"),
     "--hosts", "2", "--slots", "2", "--sizes", "8,64K,1M", "--seconds", "0.05",
     "--json"], stdout=subprocess.PIPE, timeout=100, check=False, text=True)
if done.returncode != 0:
    fail(f"bench_across ended with {done.returncode}")
rows = [json.loads(line[line.index("{"):])
        for line in done.stdout.splitlines() if "{" in line]
if [row["bytes"] for row in rows] != [8, 65536, 1048576]:
    fail(f"other rows: {rows}")
for row in rows:
    if row["wrong"] != 0 or not 0 < row["user_p10_us"] <= row["user_us"]:
        fail(f"wrong: {row}")
