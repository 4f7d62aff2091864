"""bench_interposer, bench_interposer_apps and bench_skew print a time of MPI and
one of the interposed call in each row.

Covers: bench_interposer.c bench_interposer_apps.c bench_skew.c"""

import os
import re
import sys

from house import BUILD, SOURCE, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run  # pylint: disable=wrong-import-position

ROW = re.compile(r" +[-\d.]+ +[-\d.]+ +[\d.]+ \(")


def test():
    for name, rows in (("bench_interposer", 6), ("bench_interposer_apps", 8),
                       ("bench_skew", 5)):
        words = [BUILD + "/bin/regroup", "mpirun-preload", "--interpose",
                 "all:always", f"{BUILD}/bin/{name}-openmpi", "1", "allreduce"]
        code, out, err = run.run("openmpi", 2, words)
        claim(code == 0 and len(ROW.findall(out)) == rows,
              f"{name}: {code}\n{out}{err}")


main(test)
