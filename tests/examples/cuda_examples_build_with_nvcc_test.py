"""The CUDA examples compile without a warning, by the commands of their README;
without a driver they say so in one sentence.

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
PACKAGE = f"""Name: regroup
Description: as it is built
Version: 0
Cflags: -I{SOURCE}/sdk/include
Libs: -L{BUILD}/lib -Wl,-rpath,{BUILD}/lib -lregroup
"""

with open(SOURCE + "/examples/README.md", encoding="utf-8") as page:
    commands = re.findall(r"^    (nvcc .* -o (\S+) .*)$", page.read(), re.M)
if {program for _, program in commands} != {"elastic_cuda", "gpt_cuda"}:
    fail(f"README.md compiles {commands}")
with tempfile.TemporaryDirectory(prefix="rg-nvcc-") as top:
    folder = shutil.copytree(SOURCE + "/examples", top + "/examples",
                             ignore=shutil.ignore_patterns("__pycache__"))
    with open(top + "/regroup.pc", "w", encoding="utf-8") as package:
        package.write(PACKAGE)
    env = dict(os.environ, PKG_CONFIG_PATH=top,
               PATH=f"{os.path.dirname(NVCC[0])}:{os.environ['PATH']}",
               NVCC_APPEND_FLAGS="-Werror all-warnings")
    building = [subprocess.Popen(
        command, shell=True, cwd=folder, env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True) for command, _ in commands]
    os.environ["REGROUP_CUDA_LIB"] = top + "/no-driver"
    os.chdir(SOURCE)
    for (command, program), process in zip(commands, building):
        output, _ = process.communicate(timeout=100)
        if process.returncode != 0 or output:
            fail(f"{command} ended with {process.returncode}", output)
        said = alone(os.path.join(folder, program), expected=1)
        if "there is no NVIDIA driver" not in said or said.count("\n") != 1:
            fail(f"{program} without a driver", said)
