"""With a driver and an NCCL that take no time a launch takes at most 1.3 us, 2
with a request, a commit of device memory at most 1.15 times as long as one of
host memory, and an idle device no CPU. These goals of ci/gpu's part own hold on
a quiet machine; beside other tests each may be missed by a factor, no more.

Covers: nccl/operations.c on_device.c"""
import os
import re
import subprocess
import tempfile

from house import BUILD, SOURCE, claim, main

ROW = re.compile(r"own +(?:ok|MISS) .* ([0-9.]+) ?(?:us|%|x), goal ([0-9.]+)")
BESIDE_OTHERS = 4


def test():
    with tempfile.TemporaryDirectory(prefix="rg-gpu-") as folder:
        run = subprocess.run(
            [os.path.join(SOURCE, "ci", "gpu"), "--stand-in", "--out", folder,
             "own"], env=dict(os.environ, REGROUP_BUILD=BUILD), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    print(run.stdout)
    claim(run.returncode == 0, f"it ended with {run.returncode}")
    rows = [(float(is_), float(goal)) for is_, goal in ROW.findall(run.stdout)]
    claim(len(rows) == 4 and run.stdout.count(", goal ") == 6,
          "a goal was not looked at")
    for is_, goal in rows:
        claim(is_ <= BESIDE_OTHERS * goal, f"{is_} where {goal} is the goal")


main(test)
