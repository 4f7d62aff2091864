"""bench_hosts strikes every kind of fault, and what it prints fits together. It
claims nothing about how fast recovery is.

Covers: bench_hosts.py"""

import json

from benches import output_of
from house import claim, main


def test():
    shown = output_of("bench_hosts", "--times", "2", "--bytes", "64K",
                      "--step-ms", "20", "--json", seconds=170)
    rows = {row["fault"]: row for row in json.loads(shown)["rows"]}
    claim(set(rows) == {"kill", "stop", "cut", "cut-leader", "drain", "join"},
          f"rows are missing: {list(rows)}")
    for row in rows.values():
        claim(row["times"] == 2 and len(row["ms"]) == 2, f"not 2 faults: {row}")
        claim(0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"],
              f"percentiles out of order: {row}")
        claim(0 < row["floor_ms"] < row["max_ms"], f"no floor: {row}")
    claim(set(rows["kill"]["parts_ms"]) == {"detect", "agree", "rebuild",
                                            "decide", "sync", "step"},
          f"parts are missing: {rows['kill']}")
    for fault in ("stop", "cut", "cut-leader"):
        # half a budget, less what the last beat was late on a busy machine
        claim(min(rows[fault]["ms"]) >= 100,
              f"noticed before it was silent: {rows[fault]}")
    for fault in ("drain", "join"):
        claim(rows[fault]["steps_lost"] == 0, f"steps were lost: {rows[fault]}")


main(test)
