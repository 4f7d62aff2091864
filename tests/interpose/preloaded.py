"""Programs that know nothing about Regroup, under an MPI's mpirun with the
interposer preloaded."""

import os
import re
import sys

from house import BUILD, SOURCE, claim, skip

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run as mpirun  # pylint: disable=wrong-import-position

COUNTED = re.compile(r"interpose\] (\w+): (\d+) of (\d+) calls went over")


def built(flavour):
    """The MPI that programs for that one are built with."""
    return flavour.rstrip("5")


def library(flavour):
    path = f"{BUILD}/lib/libregroup_interpose-{built(flavour)}.so"
    if not os.path.exists(path):
        skip(f"there is no {os.path.basename(path)}; ci/install mpi")
    return path


def run_preloaded(flavour, np, words, wanted="all:always", flags=(),
                  **extra):
    """The exit code, and what was said on standard output and error; wanted
    None: the library is there, and nothing is interposed."""
    if wanted is not None:
        extra["REGROUP_INTERPOSE"] = wanted
    return mpirun.run(flavour, np, words, *flags, limit_s=60,
                      LD_PRELOAD=library(flavour),
                      REGROUP_LOG="warn,interpose=debug", **extra)


def preload(flavour, np, program, *args, **how):
    """The same of a program of the build."""
    path = f"{BUILD}/tests/{program}-{built(flavour)}"
    return run_preloaded(flavour, np, [path, *args], **how)


def counted(err):
    """{operation: (calls over native, all calls)} of all ranks."""
    found = {}
    for name, native, every in COUNTED.findall(err):
        before = found.get(name, (0, 0))
        found[name] = before[0] + int(native), before[1] + int(every)
    return found


def need_success(what, result):
    code, out, err = result
    claim(code == 0, f"{what}: exit code {code}\n{out}{err}")
    return out, err
