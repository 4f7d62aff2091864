"""Descriptors 0, 1 and 2 that are closed when `regroup` is started: no file of
its own gets their number, what would be printed there is lost, and everything
else works as usual.

Covers: main.c"""

import itertools
import os
import subprocess

from command import REGROUP, TIMEOUT_S, Claims, RunDir

# Its parent is the agent.
LOOKS = """
for fd in 0 1 2; do readlink /proc/$PPID/fd/$fd; done >"$1"
echo printed; echo complained >&2; exit 7
"""
CLOSES = {0: "<&-", 1: ">&-", 2: "2>&-"}


def run(d, closed, *words):
    """As a shell does that closes these."""
    return subprocess.run(
        ["sh", "-c", 'exec "$@" ' + " ".join(CLOSES[fd] for fd in closed),
         "sh", REGROUP, *words], text=True, capture_output=True, check=False,
        timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, env=d.environment())


claims = Claims()
with RunDir() as d:
    seen = os.path.join(d.path, "seen")
    for n in (1, 2, 3):
        for closed in itertools.combinations(CLOSES, n):
            got = run(d, closed, "run", "-n", "1", "sh", "-c", LOOKS,
                      "sh", seen)
            claims.equal(got.returncode, 7, f"{closed} closed: its code")
            with open(seen, encoding="utf-8") as links:
                what = links.read().split("\n")
            claims.equal({what[fd] for fd in closed}, {"/dev/null"},
                         f"{closed} closed: what the agent has there")
            claims.equal("printed" in got.stdout, 1 not in closed,
                         f"{closed} closed: {got.stdout}")
            claims.equal("complained" in got.stderr, 2 not in closed,
                         f"{closed} closed: {got.stderr}")
            claims.equal(got.stdout.count("\n") + got.stderr.count("\n"),
                         (1 not in closed) + 2 * (2 not in closed),
                         f"{closed} closed: {got.stdout}{got.stderr}")
    got = run(d, (0, 1), "jobs")
    claims.equal(got.returncode, 0, f"jobs: {got.stderr}")
claims.end()
