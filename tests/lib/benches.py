"""Running a benchmark of tests/bench as a test does: short, for its rows."""

import os
import subprocess

from house import BUILD, PATIENCE, claim, skip


def output_of(name, *flags, seconds=100):
    """What it prints; a benchmark that can't run here skips the test."""
    done = subprocess.run([os.path.join(BUILD, "bin", name), *flags],
                          stdout=subprocess.PIPE, timeout=seconds * PATIENCE,
                          check=False, text=True)
    if done.returncode == 77:
        skip("it needs namespaces, which can't be made here")
    claim(done.returncode == 0, f"{name} ended with {done.returncode}")
    return done.stdout
