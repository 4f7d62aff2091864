"""libregroup_mpi-abi and programs of the other tests, built against the standard
ABI of MPI 5 and run on an MPI that has it: the one that REGROUP_MPI_ABI named to
CMake, or MPICH 5 of PyPI. They have a build folder of their own, and no
optimiser: the ABI is what differs from the other builds.

Covers: mpi/world.c offer.c"""

import os
import re
import subprocess
import sys

import run

BUILD = os.environ["REGROUP_BUILD"]
SOURCE = os.environ["REGROUP_SOURCE"]
FOLDER = BUILD + "/with_abi"
# Program, number of ranks, arguments, environment.
RUNS = [
    ("every_collective_matches_mpi", 2, [], {}),
    ("sets_follow_communicators", 4, [], {}),
    ("regroup_keeps_out_of_the_programs_mpi", 2, [], {}),
    ("mpi_is_finalized_by_the_side_that_initialized_it", 2, ["program_too_early"], {}),
    ("operations_keep_to_the_thread_level", 2, ["multiple"], {}),
    ("mismatches_are_named", 2, ["count"], {"REGROUP_CHECK": "late"}),
]
faults = []


def cached(name):
    with open(BUILD + "/CMakeCache.txt") as file:
        got = re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M)
    return got.group(1) if got else ""


def build(prefix):
    same = [f"-D{name}={cached(name)}"
            for name in ("CMAKE_C_COMPILER", "CMAKE_C_COMPILER_LAUNCHER",
                         "CMAKE_GENERATOR")
            if cached(name)]
    for words in (["cmake", "-S", SOURCE, "-B", FOLDER, *same,
                   "-DREGROUP_MPI_ABI=" + prefix],
                  ["cmake", "--build", FOLDER, "-j2", "--target",
                   *(program + "-abi" for program, *_ in RUNS)]):
        got = subprocess.run(words, capture_output=True, text=True)
        if got.returncode != 0:
            print(" ".join(words) + "\n" + got.stdout + got.stderr)
            sys.exit(1)


def needed(file):
    got = subprocess.run(["readelf", "-d", file], capture_output=True,
                         text=True, check=True)
    return re.findall(r"NEEDED.*\[(.*)\]", got.stdout)


def claim(program, np, words, environment):
    code, out, err = run.run(
        "abi", np, [f"{FOLDER}/tests/{program}-abi", *words],
        REGROUP_TRANSPORTS="mpi", **environment)
    if code != 0:
        faults.append(f"{program} {words} ended with {code}:\n{out}{err}")


if cached("REGROUP_MPI_ABI"):
    run.PLACES["abi"] = cached("REGROUP_MPI_ABI")
build(run.wheel("abi"))
libraries = [n for n in needed(FOLDER + "/lib/libregroup_mpi-abi.so")
             if n.startswith("libmp")]
if libraries != ["libmpi_abi.so.1"]:
    faults.append(f"libregroup_mpi-abi needs {libraries}")
for one in RUNS:
    claim(*one)
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
