"""Jobs under `regroup run --mpi`: the environment that their mpirun needs, the
processes of a launch, and what solver.c must come to."""

import os
import re

from house import BUILD, claim, program_of, skip, until, words_of

SOLVER = os.path.join(BUILD, "tests", "solver-openmpi")
FINAL = re.compile(r"final step (\d+) value ([0-9a-f]{16}) of (\d+)")
LAUNCH = re.compile(r"regroup: launch (\d+): (\d+) ranks on (.*?), from (.*?), "
                    r"(\d+) ms (.*)")
# Open MPI refuses root unless it is told twice; ranks may outnumber processors.
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_mpi_yield_when_idle": "1"}
# Hosts that are namespaces share /dev/shm and the machine's name, under which
# shared-memory transports of two hosts would take each other's files.
HOSTS_ENV = dict(MPI_ENV, OMPI_MCA_btl="self,tcp", OMPI_MCA_pml="ob1")


def need_solver():
    if not os.path.exists(SOLVER):
        skip("solver-openmpi was not built; ci/install mpi")


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


def scratch_of(rank):
    """Directories that hold the files of its launch, by process id."""
    with open(f"/proc/{rank}/environ", encoding="ascii") as file:
        return [word.split("=", 1)[1] for word in file.read().split("\0")
                if re.match("OMPI_MCA_[a-z_]+=/.*/regroup-mpi-[^/]*$", word)]


def mpirun_of(job):
    return pids_of(job, lambda name, words: name.startswith("mpirun"))


def shims_of(job):
    return pids_of(job, lambda name, words: words[1:2] == ["rank"] and
                   name == "regroup")


def check_value(job, size):
    """The result is that of a run that nobody disturbed."""
    found = set(FINAL.findall(job.text()))
    claim(len(found) == 1, f"one final line was expected, not {found}")
    step, value, ranks = found.pop()
    claim(int(ranks) == size, f"the last world had {ranks} ranks")
    claim(int(value, 16) == value_after(int(step), size),
          f"after {step} steps the value is {value}, and should be "
          f"{value_after(int(step), size):016x}")
    return int(step)
