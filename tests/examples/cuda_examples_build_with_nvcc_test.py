"""The installed CUDA examples compile without a warning, by the commands of
their README; without a driver they say so in one sentence.

Covers: 06_elastic_cuda.cu 07_gpt_cuda.cu examples/README.md"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from example import BUILD, SOURCE, alone, fail

NVCC = [path for path in (shutil.which("nvcc"),
                          *glob.glob("/usr/local/cuda*/bin/nvcc")) if path]
if not NVCC:
    print("skipped: no nvcc in PATH or in /usr/local/cuda*/bin")
    sys.exit(77)


def find(top, name):
    return next(folder for folder, _, files in os.walk(top) if name in files)


with open(SOURCE + "/examples/README.md", encoding="utf-8") as page:
    commands = re.findall(r"^    (nvcc .* -o (\S+) .*)$", page.read(), re.M)
with tempfile.TemporaryDirectory(prefix="rg-nvcc-") as prefix:
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix],
                   stdout=subprocess.DEVNULL, timeout=60, check=True)
    folder = find(prefix, "06_elastic_cuda.cu")
    env = dict(os.environ, PKG_CONFIG_PATH=find(prefix, "regroup.pc"),
               PATH=f"{os.path.dirname(NVCC[0])}:{os.environ['PATH']}",
               NVCC_APPEND_FLAGS="-Werror all-warnings")
    for command, program in commands:
        built = subprocess.run(command, shell=True, cwd=folder, env=env,
                               capture_output=True, text=True, timeout=100,
                               check=False)
        if built.returncode != 0 or built.stderr:
            fail(f"{command} ended with {built.returncode}", built.stderr)
        os.environ["REGROUP_CUDA_LIB"] = prefix + "/no-driver"
        os.chdir(SOURCE)
        said = alone(os.path.join(folder, program), expected=1)
        if "there is no NVIDIA driver" not in said or said.count("\n") != 1:
            fail(f"{program} without a driver", said)
if {program for _, program in commands} != {"elastic_cuda", "gpt_cuda"}:
    fail(f"README.md compiles {commands}")
