"""bench_scale counts its changes; a change of membership leaves at most a key
per host and writes as little for many hosts as for few.

Covers: bench_scale.py publish.c mirror.c"""

import json

from benches import output_of
from house import claim, main


def test():
    shown = output_of("bench_scale", "--agents", "4,12", "--times", "2",
                      "--json")
    for row in json.loads(shown)["rows"]:
        claim(row["times"] == 2 and len(row["ms"]) == 2,
              f"not 2 changes: {row}")
        claim(0 < row["p50_ms"] <= row["max_ms"], f"times out of order: {row}")
        claim(0 < row["floor_ms"] and 0 < row["cpu_ms"],
              f"no floor or no work: {row}")
        claim(row["keys_per_host"] <= 1, f"more than a key per host: {row}")
        claim(row["writes"] <= 6, f"a write for each host: {row}")


main(test)
