"""bench_gradients reduces every tensor in each of its ways, and no element is
wrong. It claims nothing about how fast they are.

Covers: tests/bench/bench_gradients.c"""

import os
import sys

from house import BUILD, SOURCE, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run as mpi  # pylint: disable=wrong-import-position

FLAVOUR = sys.argv[1]
PROGRAM = BUILD + "/bin/bench_gradients-" + FLAVOUR
WAYS = ("views", "registered", "copied", "loop", "mpi", "pack", "floor")


def test():
    code, out, err = mpi.run(FLAVOUR, 2, [PROGRAM, "--rounds", "1"])
    claim(code == 0, f"it ended with {code}:\n{out}{err}")
    rows = [line.split() for line in out.splitlines()
            if line and not line.startswith("#")]
    claim([row[0] for row in rows] == list(WAYS), out)
    claim(all(row[-1] == "0" for row in rows), f"elements are wrong:\n{out}")
    claim("161 tensors, 102.2 MB" in out, out)


main(test)
