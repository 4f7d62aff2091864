"""examples/04_halo.c, as an MPI program and with its reductions on a set, gives
the same results, which are those of its header, on any number of ranks;
whatever carries the set.

Covers: mpi/program.c 04_halo.c"""

import os
import re
import sys

import run

BUILD = os.environ["REGROUP_BUILD"]
flavour = sys.argv[1]
bare = f"{BUILD}/bin/halo-mpi-{flavour}"
ours = f"{BUILD}/bin/halo-{flavour}"
faults = []
with open(f"{os.environ['REGROUP_SOURCE']}/examples/04_halo.c",
          encoding="utf-8") as source:
    header = source.read().split("*/")[0]
PROMISED = re.findall(r"^ \*   ((?:step|sum) .*?) ?$", header, re.M)


def results(program, np, **environment):
    code, out, err = run.run(flavour, np, [program], **environment)
    if code != 0:
        faults.append(f"{program} on {np} ended with {code}:\n{out}{err}")
    return sorted(line for line in out.splitlines()
                  if line.startswith(("step", "sum")))


# MPICH's processes spin while they wait, and want a processor each.
for np in (1, 2, 4, 7) if flavour == "openmpi" else (1, 2):
    expected = results(bare, np)
    if len(expected) != 7 or len(PROMISED) != 3 or \
            not set(PROMISED) <= set(expected):
        faults.append(f"{bare} said {expected}, its header {PROMISED}")
    for transports in ("native,mpi", "mpi"):
        got = results(ours, np, REGROUP_TRANSPORTS=transports)
        if got != expected:
            faults.append(f"{np} ranks over {transports}: {got}, and alone "
                          f"{expected}")
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
