"""Under `regroup run --mpi` the loss of a rank, of what mpirun takes for a
rank, of mpirun, of a daemon of the MPI on mpirun's own host (MPICH) or of the
agent, or of what mpirun asks for a daemon by (MPICH), is a new launch with all ranks in their order; no committed step is lost,
no process or file of a launch outlives it, and the result is that of an
undisturbed run. What an outer launcher has left in the environment is not
handed on, what a person sets for the MPI is, and hosts come from no allocation
around. No rank looks for hardware that is not here: of MPICH's for none, of
Open MPI 5's for no network that its MPI_Init would sleep for.

Covers: mpirun/mpirun.c sweep.c ranks.c proxies.c clients.c mpirun_line.c rank_main.c
state_resume.c scratch.c slots.c plan.c flavour.c fabric.c which_mpi.c capture.c elf.c
"""

import glob
import os
import signal
import tempfile

from house import UNTIL_FINISH, Job, claim, main, until
from mpijob import (DAEMON, FLAVOUR, IS_LONG, MPI_ENV, SOLVER, check_value, launches,
                    mpirun_of, need_solver, pids_of, scratch_of, shims_of,
                    variables_of, wait_launch)

# An outer launcher's rank 7 of 9; a person's own settings, and those of an
# allocation whose hosts are not ours.
OUTER = {"OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "9",
         "PMIX_RANK": "7", "PMI_RANK": "7", "PMI_SIZE": "9", "PMI_FD": "0"}
OWN = {"PMIX_MCA_gds": "hash", "MPIR_CVAR_ODD_EVEN_CLIQUES": "0",
       "SLURM_JOBID": "5", "SLURM_NODELIST": "n[1-2]",
       "SLURM_TASKS_PER_NODE": "2(x2)"}
HARDWARE = ("/sys/class/infiniband/*", "/sys/class/cxi/*", "/dev/nvidia*",
            "/dev/kfd", "/dev/dri/renderD*", "/dev/accel/*")


def kill_rank(job):
    os.kill(job.pid(1), signal.SIGKILL)


def check_environment(rank):
    found = variables_of(rank)
    outer = [f"{name}={value}" for name, value in OUTER.items()
             if found.get(name) == value]
    claim(not outer, f"{outer} of an outer launcher came to a rank")
    claim(OWN.items() <= found.items(), f"not all of {OWN} came to a rank")
    if FLAVOUR == "openmpi5" and not any(map(glob.glob, HARDWARE[:2])):
        claim(found.get("OMPI_MCA_btl") == "^ofi", f"{found}")
    if FLAVOUR == "mpich" and not any(map(glob.glob, HARDWARE)):
        claim(found.get("UCX_TLS") == "tcp,self" and
              "-pci" in found.get("HWLOC_COMPONENTS", ""), f"{found}")


def kill_shim(job):
    os.kill(shims_of(job)[0], signal.SIGKILL)


def kill_mpirun(job):
    os.kill(mpirun_of(job)[0], signal.SIGKILL)


def kill_daemon(job):
    """Open MPI has none on mpirun's own host."""
    os.kill(pids_of(job, lambda name, _words: name == DAEMON[:15])[0],
            signal.SIGKILL)


def kill_agent(job):
    os.kill(job.agent(), signal.SIGKILL)


def is_solver(name, _words):
    return name == os.path.basename(SOLVER)[:15]


def check_lost_client():
    """hydra would wait for --launch-timeout, which is a minute."""
    strikes = {"REGROUP_FAILPOINT": "proxy.ask:gen1:kill"}
    with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1]],
             env={**MPI_ENV, **strikes}) as job:
        until(lambda: launches(job) and job.step() > 3, 30, "the next launch")
        job.finish()
        claim("by which mpirun on host" in job.text(), "why it broke")
        claim([one[0] for one in launches(job)] == [2], f"{launches(job)}")
        check_value(job, 2)


def check_settings_in_a_file():
    """Of a person; the variable would overrule them."""
    with tempfile.TemporaryDirectory() as home:
        os.mkdir(os.path.join(home, ".openmpi"))
        with open(os.path.join(home, ".openmpi", "mca-params.conf"), "w",
                  encoding="ascii") as file:
            file.write("# pml = cm\n btl= tcp,self\nbtl_base_verbose = 0\n")
        with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1]],
                 env={**MPI_ENV, "HOME": home}) as job:
            wait_launch(job, 1)
            found = variables_of(job.pid(0))
            claim(found.get("OMPI_MCA_btl", "tcp,self") == "tcp,self",
                  f"{found}")
            if not any(map(glob.glob, HARDWARE[:2])):
                claim(found.get("OMPI_MCA_pml") == "^cm,ucx", f"{found}")
            job.finish()


def test():
    need_solver()
    if FLAVOUR == "openmpi5":
        check_settings_in_a_file()
    if FLAVOUR == "mpich":
        check_lost_client()
    with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1]],
             env={**MPI_ENV, **OUTER, **OWN}) as job:
        faults = ([kill_rank, kill_mpirun] + IS_LONG * [kill_shim, kill_agent]
                  + (FLAVOUR == "mpich") * [kill_daemon])
        for number, fault in enumerate(faults, 1):
            wait_launch(job, number)
            at = job.step()
            job.wait_step(at + 5)
            before = pids_of(job, is_solver)
            claim(len(before) == 2, f"ranks of launch {number}: {before}")
            check_environment(before[0])
            places = scratch_of(before[0])
            claim(places, f"places of launch {number}: {places}")
            job.run("gc")
            claim(all(os.path.exists(place) for place in places),
                  f"`regroup gc` has removed {places} of a living job")
            fault(job)
            wait_launch(job, number + 1)
            left = [pid for pid in before if job.is_ours(pid)]
            claim(not left, f"{left} of launch {number} live after "
                  f"{fault.__name__}")
            claim(not any(os.path.exists(place) for place in places),
                  f"{places} are left after {fault.__name__}")
            places = scratch_of(pids_of(job, is_solver)[0])
        job.finish()
        until(lambda: not pids_of(job, lambda name, words: True), 10,
              "no process of the job is left")
        claim(not any(os.path.exists(place) for place in places),
              f"{places} are left when the job is done")
        job.check(is_mpi=True)
        step = check_value(job, 2)
        told = launches(job)
        claim([one[0] for one in told] == list(range(1, len(faults) + 2)),
              f"one line was expected for each launch: {told}")
        claim(all(one[1] == 2 for one in told), f"{told}")
        claim(FLAVOUR != "mpich" or "a daemon of the MPI on host" in
              told[-1][5] and "ended by signal 9" in told[-1][5], f"{told}")
        claim("steps lost: 0" in job.text(), "a committed step was lost")
        claim(step > 20, f"{step} steps")


main(test)
