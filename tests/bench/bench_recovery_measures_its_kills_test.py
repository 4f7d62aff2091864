"""bench_recovery counts its kills, its percentiles are in order, its parts are
there, and the floor is a time. It claims nothing about how fast recovery is.

Covers: bench_recovery.py"""

import json

from benches import output_of
from house import claim, main


def test():
    row = json.loads(output_of("bench_recovery", "--workers", "3", "--bytes",
                               "1M", "--kills", "3", "--json"))["rows"][0]
    claim(row["kills"] == 3 and len(row["ms"]) == 3, f"not 3 kills: {row}")
    claim(0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"],
          f"percentiles out of order: {row}")
    claim(row["parts_ms"] and min(row["parts_ms"].values()) >= 0,
          f"parts are missing or negative: {row}")
    slow = row["slowest"][0]
    claim(slow["ms"] == row["max_ms"] and abs(
        slow["ms"] - sum(v for k, v in slow.items() if k != "ms")) < 0.01,
          f"the parts of the slowest kill are not its time: {row}")
    claim(0 < row["floor_ms"] < row["max_ms"], f"no floor: {row}")


main(test)
