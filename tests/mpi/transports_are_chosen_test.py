"""REGROUP_TRANSPORTS says what carries a world under mpirun; rg_init loads
libregroup_mpi by itself; where there is none, the program is refused, and told
what to do.

Covers: adapter.c offer.c transport/launcher.c launched.c"""

import os
import shutil
import sys
import tempfile

import run

BUILD = os.environ["REGROUP_BUILD"]
flavour, program = sys.argv[1:]
faults = []


def claim(what, np, code, *said, words=(program,), **environment):
    # By a file: MPICH's mpirun may drop what was said before a failure.
    with tempfile.NamedTemporaryFile("r") as errors:
        got, out, err = run.run(
            flavour, np, ["sh", "-c", 'exec "$0" "$@" 2>>' + errors.name,
                          *words], **environment)
        text = out + err + errors.read()
    for sentence in said:
        if sentence not in text:
            faults.append(f"{what}: no line says \"{sentence}\":\n{text}")
    if (got == 0) != (code == 0):
        faults.append(f"{what}: ended with {got}:\n{text}")


def carried(transport):
    return f"transport {transport} carries the world"


LOUD = {"REGROUP_LOG": "debug"}
claim("one host", 2, 0, carried("native"), **LOUD)
claim("alone", 1, 0, carried("self"), **LOUD)
claim("mpi", 2, 0, carried("mpi"), REGROUP_TRANSPORTS="mpi,native", **LOUD)
claim("self is for one", 2, 0, carried("mpi"), REGROUP_TRANSPORTS="self,mpi",
      **LOUD)
claim("none", 2, 1, "none of the transports self carries a world of 2 tasks",
      REGROUP_TRANSPORTS="self")
claim("unknown", 2, 1, 'REGROUP_TRANSPORTS names "tcp"',
      REGROUP_TRANSPORTS="tcp")
claim("another MPI's mpirun", 1, 1, "a launcher started 3 tasks",
      "start it with the mpirun of the MPI that it is linked with",
      words=["sh", "-c", "OMPI_COMM_WORLD_SIZE=3 exec " + program])
claim("an srun that does not know the MPI", 1, 1,
      "a launcher started 3 tasks (SLURM_NTASKS)", "srun --mpi=list",
      words=["sh", "-c", "SLURM_NTASKS=3 SLURM_STEP_ID=0 exec " + program])
claim("in an allocation, and no step", 1, 0,
      words=["sh", "-c", "SLURM_NTASKS=3 exec " + program])
claim("check", 2, 1, 'REGROUP_CHECK is "never"', REGROUP_CHECK="never")
claim("differs", 2, 1, "REGROUP_TRANSPORTS is",
      words=["sh", "-c", "REGROUP_TRANSPORTS=mpi,$$ exec " + program])
ONE_IS_LATE = "test ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 && check=late; "
claim("check differs", 2, 1,
      "REGROUP_CHECK is late on rank 0 and each on rank 1", "give all ranks",
      words=["sh", "-c", "check=each; " + ONE_IS_LATE
             + "REGROUP_CHECK=$check exec " + program],
      REGROUP_TRANSPORTS="mpi")
# Linked with libregroup alone: rg_init loads what lies beside that.
hello = BUILD + "/bin/hello"
claim("loaded by rg_init", 2, 0, "rank 1 of 2 on host", words=[hello])
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(BUILD + "/lib/libregroup.so.0", folder)
    claim("without the library", 2, 1, "install libregroup_mpi",
          words=["env", "LD_LIBRARY_PATH=" + folder, hello])
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
