"""What Regroup declares of CUDA and NCCL is what their headers declare.

Covers: declarations.cc"""

import glob
import os
import subprocess
import sys
import sysconfig

SOURCE = os.environ["REGROUP_SOURCE"]
PLACES = ["/usr/local/cuda/include", "/usr/include",
          *glob.glob("/usr/local/cuda-*/include"),
          *glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/*/include")]


def folder_of(header):
    """Where a header lies that names NVIDIA's own types, or None."""
    for folder in PLACES:
        if os.path.exists(os.path.join(folder, header)):
            return folder
    return None


folders = {folder_of("cuda.h"), folder_of("cuda_runtime.h"),
           folder_of("nccl.h")}
if None in folders:
    print("skipped: cuda.h or nccl.h is not here")
    sys.exit(77)
got = subprocess.run(
    ["g++", "-std=c++17", "-fsyntax-only", "-I", SOURCE,
     *["-isystem" + folder for folder in folders],
     os.path.join(SOURCE, "tests/device/declarations.cc")],
    text=True, capture_output=True, timeout=100, check=False)
print(got.stderr)
sys.exit(got.returncode)
