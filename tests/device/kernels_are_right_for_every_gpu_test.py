"""The kernels that Regroup carries are PTX that NVIDIA's assembler takes for
each kind of GPU that it knows, without a spill; they divide and round exactly,
and do not flush small numbers to 0.

Covers: nccl/scale.cl"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PTX = os.path.join(os.environ["REGROUP_BUILD"], "sdk", "scale.ptx")
GPUS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100",
        "sm_120"]
PTXAS = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"


def skip(why):
    print("skipped:", why)
    sys.exit(77)


if not os.path.exists(PTX):
    skip("this Regroup was built without kernels")
with open(PTX, encoding="ascii") as file:
    text = file.read()
kernels = re.findall(r"\.visible \.entry (\w+)\(", text)
assert len(kernels) == 10, kernels
for word in ("ftz", "approx", "div.full", "fma", "call"):
    assert word not in text, f"the kernels have {word}"
if not os.path.exists(PTXAS):
    skip("ptxas is not here; the text alone was looked at")
known = subprocess.run([PTXAS, "--help"], text=True, capture_output=True,
                       timeout=60, check=True).stdout
with tempfile.TemporaryDirectory() as folder:
    for gpu in GPUS:
        if f"'{gpu}'" not in known:
            print(gpu, "is not known to this ptxas")
            continue
        said = subprocess.run(
            [PTXAS, "-v", f"-arch={gpu}", PTX, "-o", folder + "/cubin"],
            text=True, capture_output=True, timeout=60, check=False)
        assert said.returncode == 0, said.stderr
        assert said.stderr.count("0 bytes spill stores") == len(kernels)
        print(gpu, max(map(int, re.findall(r"Used (\d+) reg", said.stderr))),
              "registers at most")
