"""bench_across measures workers on two hosts, and no result is wrong; with
`mpi`, ranks of Open MPI, whose calls stand beside. It claims nothing about how
fast they are.

Covers: bench_across.py"""

import json
import sys

from benches import output_of
from house import claim, main


MPI = sys.argv[1:] == ["mpi"]


def test():
    shown = output_of("bench_across", *["--mpi"] * MPI, "--hosts", "2",
                      "--slots", "2", "--sizes", "8,64K,1M", "--seconds",
                      "0.05", "--place", "in", "--memory", "user", "--json")
    rows = [json.loads(line[line.index("{"):])
            for line in shown.splitlines() if "{" in line]
    claim([row["size"] for row in rows] == [8, 65536, 1048576],
          f"other rows: {rows}")
    for row in rows:
        claim(row["wrong"] == 0 and 0 < row["p10_us"] <= row["time_us"],
              f"wrong: {row}")
        claim(not MPI or row["mpi"]["p10_us"] > 0, f"no MPI: {row}")


main(test)
