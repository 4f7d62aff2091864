"""The program of `regroup run --mpi` under a plain mpirun: its commits become
checkpoints, in one file or in one for each rank, and the next mpirun goes on
from the newest, with as many ranks or others; without a directory a warning
says that nothing is kept, and without a function for them the parts of other
ranks are refused on all ranks.

Covers: write_world.c state_resume.c local.c"""

import os
import shutil
import subprocess
import sys
import tempfile

import run

BUILD = os.environ["REGROUP_BUILD"]
flavour = sys.argv[1]
keeps = f"{BUILD}/tests/keeps-{flavour}"
halo = f"{BUILD}/bin/halo-{flavour}"
bare = f"{BUILD}/bin/halo-mpi-{flavour}"
faults = []


def hold(holds, what):
    if not holds:
        faults.append(what)


def said(np, program, *words, code=0, **environment):
    got, out, err = run.run(flavour, np, [program, *words], **environment)
    hold((got == 0) == (code == 0), f"{words} on {np} ended with {got}:\n"
         f"{out}{err}")
    return out + err


def checkpoints(folder):
    return sorted(n for n in os.listdir(folder) if n.endswith(".rgck"))


def all_kinds(folder):
    into = {"REGROUP_CHECKPOINT_DIR": folder, "REGROUP_CHECKPOINT_EVERY": "2"}
    text = said(4, keeps, "5", **into)
    hold("resumed at 0\n" in text and "saved 6\n" in text, text)
    hold([n.split("-step")[1].split("-")[0] for n in checkpoints(folder)]
         == ["4", "6"], f"there are {checkpoints(folder)}")
    newest = os.path.join(folder, checkpoints(folder)[-1])
    shown = subprocess.run([f"{BUILD}/bin/regroup", "checkpoint", "verify",
                            newest], capture_output=True, text=True)
    hold(shown.returncode == 0, shown.stdout + shown.stderr)
    text = said(3, keeps, "9", "refuse", code=1, **into)
    hold(text.count("buffer local has parts of 4 ranks, and there are 3 ranks "
                    "now") >= 1, text)
    text = said(4, keeps, "7", "refuse", **into)
    hold("resumed at 6\n" in text and "saved 8\n" in text, text)
    text = said(3, keeps, "9", **into)
    hold("resumed at 8\n" in text and text.count("dealt 4 parts") == 3, text)
    text = said(2, keeps, "10", **into)
    hold("resumed at 10\n" in text and text.count("dealt 3 parts") == 2, text)


def without_a_directory():
    text = said(2, keeps, "3")
    hold(text.count("nothing that is committed outlives this program") == 1 and
         "saved" not in text, text)


def a_solver(folder):
    into = {"REGROUP_CHECKPOINT_DIR": folder, "REGROUP_CHECKPOINT_EVERY": "2"}
    np = 2 if flavour == "mpich" else 4  # MPICH's ranks spin while they wait
    text = said(np, halo, "2000", **into)  # commits behind 500, 1000, 1500
    hold(text.count("memory has changed since") == 1, text)
    text = said(np - 1, halo, **into)
    hold("step 1000:" not in text and "step 1500:" in text,
         f"it did not go on from the second commit:\n{text}")
    wanted = [line for line in said(2, bare).splitlines() if "sum" in line]
    hold(len(wanted) == 1 and wanted[0] in text.splitlines(),
         f"{wanted} was wanted of {text}")


for part in all_kinds, a_solver:
    made = tempfile.mkdtemp(prefix="rg-keeps-")
    try:
        part(made)
    finally:
        shutil.rmtree(made)
without_a_directory()
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
