"""ci/gpu --stand-in goes through all its parts and ends with a table in which
nothing failed; an unknown part is refused, and where there is no GPU
it says so and ends with 77.

Covers: reclaim.c lanes.c nccl/device.c"""

import os
import shutil
import subprocess
import tempfile

from house import BUILD, PATIENCE, SOURCE, claim, main_all

GPU = os.path.join(SOURCE, "ci", "gpu")
# Beside each other: they wait more than they compute. `own` is what
# regroup_adds_little_on_the_device_test.py runs.
GROUPS = (("questions", "kinds", "costs", "examples"),
          ("sets", "kills", "stops", "commits"),
          ("beginnings", "scales", "leftovers", "gone"))


def start(*words, **more):
    return subprocess.Popen([GPU, *words], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT,
                            env=dict(os.environ, REGROUP_BUILD=BUILD, **more))


def test_all_parts():
    folder = tempfile.mkdtemp(prefix="rg-gpu-")
    try:
        runs = [start("--stand-in", "--out", os.path.join(folder, group[0]),
                      *group) for group in GROUPS]
        for group, run in zip(GROUPS, runs):
            text = run.communicate(timeout=90 * PATIENCE)[0]
            print(text)
            claim(run.returncode == 0, f"{group} ended with {run.returncode}")
            for part in group:
                claim(f"\n{part} " in "\n" + text, f"no row of {part}")
            with open(os.path.join(folder, group[0], "table.txt"),
                      encoding="utf-8") as table:
                claim(table.read() in text, "the table is another one")
    finally:
        shutil.rmtree(folder)


def test_what_is_not_there():
    run = start("--stand-in", "nothing")
    claim("there is no part nothing" in run.communicate()[0], "it is taken")
    claim(run.returncode == 2, f"it ended with {run.returncode}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bash", "grep", "dirname", "mkdir"):
            os.symlink(shutil.which(name), os.path.join(folder, name))
        run = start(PATH=folder)
        claim("skipped: nvidia-smi sees no GPU" in run.communicate()[0],
              "a GPU is seen")
        claim(run.returncode == 77, f"it ended with {run.returncode}")


main_all(globals())
