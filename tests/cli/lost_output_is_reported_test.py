"""A full disk: commands whose output is lost say so and end with 71; for
workers it is reported once for each stream, and their job goes on.

Covers: main.c"""

import os
import subprocess

from command import REGROUP, TIMEOUT_S, Claims, RunDir

SPEAKS = "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 7"
LOSS = (" can't be written: No space left on device; what h1.0 prints there "
        "is lost until it can, training goes on\n")


def run_full(d, *words):
    with open("/dev/full", "wb") as full:
        return subprocess.run([REGROUP, *words], text=True, stdout=full,
                              stderr=subprocess.PIPE, check=False,
                              timeout=TIMEOUT_S, env=d.environment())


claims = Claims()
with RunDir() as d:
    for words in (["config"], ["config", "--json"], ["jobs", "--json"],
                  ["--help"], ["--version"], ["run", "--help"]):
        got = run_full(d, *words)
        claims.equal(got.returncode, 71, f"{words} with a full disk")
        claims.equal(got.stderr.count("\n"), 1, got.stderr)
        claims.hold("standard output can't be written" in got.stderr,
                    got.stderr)

    got = run_full(d, "run", "-n", "1", "--host", "h1", "sh", "-c", SPEAKS)
    claims.equal(got.returncode, 7, "a job on a full disk")
    claims.equal(got.stderr.count("standard output" + LOSS), 1, got.stderr)

    out = os.path.join(d.path, "out")
    os.mkdir(out)
    file = os.path.join(out, "h1.0.1.out")
    os.symlink("/dev/full", file)
    got = d.run("run", "-n", "1", "--host", "h1", "--output", out, "sh", "-c",
                SPEAKS)
    claims.equal(got.returncode, 7, "a job with a file on a full disk")
    claims.equal(got.stderr.count(file + LOSS), 1, got.stderr)
claims.end()
