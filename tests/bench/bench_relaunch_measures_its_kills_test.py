"""bench_relaunch kills ranks of a job and of a bare mpirun, and what else it
is asked to kill, and the parts of what it prints make up the whole. No
committed step is lost. It claims nothing about how fast that is.

Covers: bench_relaunch.py"""

import json

from benches import output_of
from house import claim, main


def test():
    rows = json.loads(output_of("bench_relaunch", "--worlds", "2x1", "--kinds",
                                "rank,host", "--kills", "1", "--bytes", "64K",
                                "--json"))["rows"]
    claim([row["name"] for row in rows] ==
          ["openmpi 2x1 rank", "openmpi 2x1 bare", "openmpi 2x1 host"],
          f"{rows}")
    for row in rows:
        claim(row["kills"] == 1 and row["min_ms"] > 0 and row["lost"] == 0,
              f"not a kill: {row}")
        claim(min(row["parts_ms"].values()) > -5, f"out of order: {row}")
        claim(abs(sum(row["parts_ms"].values()) - row["p50_ms"]) < 1,
              f"parts are missing: {row}")


main(test)
