"""With a driver and an NCCL that take no time a launch takes at most 1.3 us, 2
with a request, a commit of device memory at most 1.15 times as long as one of
host memory, and an idle device no CPU: the part own of ci/gpu misses no goal.

Covers: nccl/operations.c on_device.c"""
import os
import subprocess
import tempfile

from house import BUILD, SOURCE, claim, main


def test():
    with tempfile.TemporaryDirectory(prefix="rg-gpu-") as folder:
        run = subprocess.run(
            [os.path.join(SOURCE, "ci", "gpu"), "--stand-in", "--out", folder,
             "own"], env=dict(os.environ, REGROUP_BUILD=BUILD), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    print(run.stdout)
    claim(run.returncode == 0, f"it ended with {run.returncode}")
    claim(run.stdout.count(", goal ") == 6, "a goal was not looked at")
    claim("MISS" not in run.stdout, "a goal is missed")


main(test)
