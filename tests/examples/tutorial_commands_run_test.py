"""A page, a tutorial or the top README, does what it says: its blocks are run
in order, in one shell. A tutorial's folder looks like the repository after
ci/build dev; beside the README's program Regroup is installed. See
tutorials/README.md for what each kind of block means.

Covers: run_cmd.c 03_elastic_digits.c"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from example import BUILD, SOURCE, fail, need_etcd, own_environment

# A small machine, and root, are as good to Open MPI as any other.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
       "OMPI_MCA_mpi_yield_when_idle": "1"}
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.S | re.M)


def script_of(page, folder):
    """(the shell script, [(number of the block, line)] that it must print)."""
    script, expected, block = ["set -eu"], [], 0
    for kind, name, body in BLOCK.findall(page):
        if kind in ("c", "py") and name:
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(body)
        elif kind == "sh":
            block += 1
            script.append(f"echo '=== block {block}'\n{body}")
        elif kind == "text":
            expected += [(block, line) for line in body.splitlines()]
        elif kind not in ("c", "py", "python"):
            fail(f"a block of {kind}: tests do not run that")
    return "\n".join(script), expected


def installed(folder):
    """What a shell needs beside an installed Regroup."""
    prefix = os.path.join(folder, "installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix],
                   check=True, capture_output=True)
    pc = glob.glob(f"{prefix}/**/regroup.pc", recursive=True)
    libraries = os.path.dirname(os.path.dirname(pc[0]))
    return {"PATH": f"{prefix}/bin:/usr/bin:{os.environ['PATH']}",
            "PKG_CONFIG_PATH": os.path.dirname(pc[0]),
            "LD_LIBRARY_PATH": libraries}


def need_mpi(page):
    """Ends the test with 77 where a page's MPI is not there."""
    library = os.path.join(BUILD, "lib/libregroup_mpi-openmpi.so")
    if "mpicc.openmpi" in page and not (shutil.which("mpicc.openmpi") and
                                        os.path.exists(library)):
        print("skipped: no Open MPI; ci/install mpi installs it")
        sys.exit(77)


def run(script, folder, environment):
    """The output; everything that the shell started ends with it."""
    with subprocess.Popen(["bash", "-c", script], cwd=folder,
                          env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as shell:
        try:
            output, _ = shell.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGTERM)
            output, _ = shell.communicate(timeout=20)
            fail("the tutorial did not end", output)
    if shell.returncode != 0:
        fail(f"a command ended with {shell.returncode}", output)
    return output


def check(path, is_installed=False):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    need_mpi(page)
    with tempfile.TemporaryDirectory(prefix="rg-tutorial-") as folder:
        environment = {**own_environment(folder), **MPI}
        environment["PATH"] = "/usr/bin:" + environment["PATH"]  # numpy
        if is_installed:
            environment.update(installed(folder))
        else:
            os.symlink(os.path.join(SOURCE, "sdk"),
                       os.path.join(folder, "sdk"))
            os.mkdir(os.path.join(folder, "build"))
            os.symlink(BUILD, os.path.join(folder, "build/dev"))
        script, expected = script_of(page, folder)
        output = run(script, folder, environment)
    printed = re.split(r"^=== block \d+\n", output, flags=re.M)
    for block, line in expected:
        if line not in printed[block]:
            fail(f"{path}: block {block} does not print: {line}",
                 printed[block])


need_etcd()
if "libasan" in subprocess.run(
        ["ldd", os.path.join(BUILD, "lib/libregroup.so")],
        capture_output=True, text=True, check=True).stdout:
    print("skipped: a plain program can't load a library with AddressSanitizer")
    sys.exit(77)
check(os.path.join(SOURCE, sys.argv[1]), sys.argv[1] == "README.md")
