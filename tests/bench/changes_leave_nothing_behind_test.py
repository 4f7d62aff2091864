"""After more changes than a job keeps decisions of: what is kept is bounded,
what is not is counted, and as many keys, descriptors and about as much memory
are in use as before.

Covers: agent.c vault.c"""

import json

from benches import output_of
from house import claim, main

CHANGES = 80  # 64 decisions are kept, and three ancestors
KEPT = 67
GROWTH_KIB = 400  # of the first changes; 0.1.0 needed as much in 80


def test():
    found = json.loads(output_of(
        "bench_growth", "--changes", str(CHANGES), "--rows", "2", "--workers", "12",
        "--etcd", "own", "--json"))
    rows = found["rows"]
    claim(found["kept"] <= KEPT, f"{found['kept']} decisions are kept")
    claim(found["changes_total"] >= rows[-1]["changes"] - 5 >= KEPT,
          f"changes were not counted: {found}")
    claim(rows[-1]["keys"] <= rows[0]["keys"] + KEPT + 18,
          f"keys stay: {rows}")
    for name in ("agent_fds", "supervisor_fds"):
        claim(rows[-1][name] <= rows[1][name] + 4, f"{name} grow: {rows}")
    claim(rows[-1]["agent_kib"] <= rows[1]["agent_kib"] + GROWTH_KIB,
          f"the agent grows: {rows}")


main(test)
