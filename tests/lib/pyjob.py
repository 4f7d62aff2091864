"""Tests of the Python package: a file is its own test and, as `FILE work`, the
program of the workers that the test starts.

    def work():                  # in each worker; what it claims, it asserts
        ...
    pyjob.main(work, sizes=(1, 3))

A worker finds the package of the source tree and the library of the build; its
interpreter is one that has the modules which the test needs: the one that the
variable PYTHON names, the test's own, or Debian's.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile

# The last argument of workers that train until Job.finish.
UNTIL_FINISH = "file-that-finish-makes"
INTERPRETERS = (os.environ.get("PYTHON"), sys.executable,
                "/usr/bin/python3")


def is_worker():
    return sys.argv[1:2] == ["work"]


@functools.cache
def python_with(*modules):
    """The first interpreter that has them all; ends the test with 77 where
    none has."""
    finds = ("import sys, importlib as i, importlib.util as u; "
             "sys.exit(not all(i.import_module(m) if '.' in m else "
             "u.find_spec(m) for m in sys.argv[1:]))")
    for python in INTERPRETERS:
        if python and os.path.exists(python) and subprocess.run(
                [python, "-c", finds, *modules], capture_output=True,
                check=False).returncode == 0:
            return python
    print(f"skipped: no python3 with {', '.join(modules)}; ci/install "
          "installs numpy, mpi4py and torch, and PYTHON names another python3")
    sys.exit(77)


def environment(**more):
    """Ours without Regroup's settings, with the package and the library."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("REGROUP_")}
    env.update(
        PYTHONPATH=os.pathsep.join(
            os.path.join(os.environ["REGROUP_SOURCE"], part)
            for part in ("sdk/python", "tests/lib")),
        REGROUP_LIBRARY=os.path.join(os.environ["REGROUP_BUILD"],
                                     "lib/libregroup.so"))
    env.update(more)
    return env


def command(*arguments, modules=("numpy",)):
    """The test's own file, as a worker."""
    return [python_with(*modules), os.path.abspath(sys.argv[0]), "work",
            *map(str, arguments)]


def end(started, seconds=100):
    """The output and code of a process, which is ended when it is late."""
    try:
        output, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        output, _ = started.communicate()
        print(f"{started.args} did not end within {seconds} s\n{output}",
              file=sys.stderr)
        sys.exit(1)
    return output, started.returncode


def run(arguments, expected=0, **more):
    """The output of a process that ends with the expected code."""
    from house import Process  # it needs the test's environment
    with Process(arguments, env=environment(**more),
                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                 stderr=subprocess.STDOUT, text=True) as started:
        output, code = end(started)
    if code != expected:
        print(f"{arguments} ended with {code}, not {expected}\n{output}",
              file=sys.stderr)
        sys.exit(1)
    return output


def job(size, workers, expected=0, flags=(), **more):
    """The output of a job of that many workers; of one without an agent when
    the size is 1."""
    if size == 1:
        return run(workers, expected, **more)
    from house import DETECT
    regroup = os.path.join(os.environ["REGROUP_BUILD"], "bin/regroup")
    with tempfile.TemporaryDirectory(prefix="rg-py-") as folder:
        return run([regroup, "run", "-n", str(size), "--detect", DETECT,
                    *flags, "--", *workers], expected,
                   REGROUP_RUN_DIR=os.path.join(folder, "run"), **more)


def need_mpi(flavour):
    """Its mpirun; ends the test with 77 where that or the library that was
    built with it is missing."""
    mpirun = shutil.which(f"mpirun.{flavour}")
    library = os.path.join(os.environ["REGROUP_BUILD"],
                           f"lib/libregroup_mpi-{flavour}.so.0")
    if mpirun is None or not os.path.exists(library):
        print(f"skipped: no mpirun.{flavour}, or no {library} (ci/install "
              "installs what both need)")
        sys.exit(77)
    return mpirun


def mpirun(flavour, size, workers, expected=0, **more):
    """The output of that many processes under a flavour's mpirun."""
    here = [need_mpi(flavour), "-n", str(size)]
    if flavour == "openmpi":
        here += ["--allow-run-as-root", "--oversubscribe"]
    return run([*here, *workers], expected, **more)


def goes_on(ctx):
    """In a worker of command(UNTIL_FINISH): has the test not called
    Job.finish yet? Equal on all ranks."""
    import array

    import regroup
    is_over = array.array("b", [os.path.exists(sys.argv[-1])])
    return not ctx.world.allreduce(is_over, op=regroup.MAX)[0]


def main(work, sizes=(1, 3), modules=("numpy",), test=None):
    """As a worker: work. Else the test, by default a job of each size that
    must end with 0: without the package's compiled part if alone."""
    if is_worker():
        work()
        return
    from house import main as house_main  # it needs the test's environment
    house_main(test or (lambda: [
        job(size, command(modules=modules),
            REGROUP_PYTHON_FAST="off" if size == 1 else "on")
        for size in sizes]))
