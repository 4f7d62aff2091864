"""Programs that were linked with the last release run with the libraries of this
build: ci/abi finds nothing gone or changed. It does find a name that is gone and
a layout that differs.

Covers: regroup.h regroup_mpi.h ci/abi"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["REGROUP_BUILD"]
SOURCE = os.environ["REGROUP_SOURCE"]
RECORDS = SOURCE + "/tests/abi"
MEMBER = """layout-offset-in-bits='%s'>
        <var-decl name='%s'"""
FAULTS = {
    "a name that is gone": ("'rg_finalize'", "'rg_gone'", "rg_gone"),
    "a member that has moved": (MEMBER % (64, "elastic"),
                                MEMBER % (96, "elastic"), "rg_params"),
    "a member of what the library fills": (
        MEMBER % (320, "rank"), MEMBER % (352, "rank"), "rg_set_info"),
}
faults = []


def compare(*words):
    return subprocess.run([SOURCE + "/ci/abi", *words, BUILD], text=True,
                          capture_output=True, check=False, timeout=60)


def notices(what, before, after, named):
    """The record of a release that offered something else."""
    with open(RECORDS + "/libregroup.abi", encoding="utf-8") as file:
        record = file.read()
    if before not in record:
        faults.append(f"{what}: the record has no {before}")
    with tempfile.TemporaryDirectory(prefix="rg-abi-") as folder:
        with open(folder + "/libregroup.abi", "w", encoding="utf-8") as file:
            file.write(record.replace(before, after))
        got = compare("--against", folder)
    if got.returncode != 1 or named not in got.stdout:
        faults.append(f"{what} goes unnoticed: {got.returncode}, {got.stdout}")


if shutil.which("abidiff") is None:
    print("skipped: abidiff is not installed; ci/install tests installs it")
    sys.exit(77)
if not glob.glob(RECORDS + "/*.abi"):
    faults.append("there is no record of a release")
whole = compare()
if whole.returncode != 0:
    faults.append(whole.stdout + whole.stderr)
for fault, (was, becomes, about) in FAULTS.items():
    notices(fault, was, becomes, about)
print("\n".join(faults))
sys.exit(1 if faults else 0)
