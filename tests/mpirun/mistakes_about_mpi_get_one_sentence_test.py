"""An MPI program without --mpi is told that its processes will be alone; a
program of two MPIs, or of another one than its mpirun, is refused, and so are a
regroup without its other files and two hosts at one address; a rank that
fails again and again at the same step, or before rg_init, ends the job with
its code, and so does one that is killed there or calls MPI_Abort; one that
never calls rg_init ends it at once; MPI_Finalize does not wait forever; a stop
ends a job at a commit; and a job without --mpi is none of the launch whose
variables it has inherited.

Covers: elf.c which_mpi.c flavour.c cli/launch.c mpirun/mpirun.c slots.c plan.c
state_resume.c leader.c
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile

from house import BUILD, REGROUP, UNTIL_FINISH, Job, claim, main, until
from launching import LaunchedJob
from mpijob import MPI_ENV, SOLVER, launches, need_solver, wait_launch

TRAINER = os.path.join(BUILD, "tests", "trainer")


def told_without_mpi():
    with Job(["-n", "2", "--max-restarts", "0"], [SOLVER, "/dev/null"],
             env=MPI_ENV) as job:
        job.process.wait(60)
        claim("is linked with an MPI, and each of its processes will be an "
              "MPI_COMM_WORLD of its own; give --mpi" in job.text(),
              "nothing was said of --mpi")


def refused(sentence, *words):
    got = subprocess.run([REGROUP, "run", "--mpi", "-n", "2", *words],
                         capture_output=True, text=True, check=False,
                         timeout=60)
    claim(got.returncode == 64, f"{words}: code {got.returncode}")
    claim(re.search(sentence, got.stderr), f"{words}: {got.stderr}")


def refused_for_its_mpi():
    two, mpich = (os.path.join(BUILD, "tests", name)
                  for name in ("two_mpis", "solver-mpich"))
    refused('--mpirun "/nowhere/mpirun -v" can\'t be used: there is no program '
            '/nowhere/mpirun', "--mpirun", "/nowhere/mpirun -v", SOLVER)
    refused('--mpirun "true" can\'t be used: what it says to --version is of '
            'no MPI', "--mpirun", "true", SOLVER)
    refused("--mpirun \"no-such --flag\" can't be used: there is no "
            "program no-such in PATH",
            "--mpirun", "no-such --flag", SOLVER)
    if os.path.exists(two):
        refused("two_mpis is linked with two MPIs", two)
        refused("is of Open MPI 4.1, and .*solver-mpich is linked with MPICH",
                "--mpirun", "mpirun.openmpi --bind-to none", mpich)
        refused("is of MPICH, and .*solver-openmpi is linked with Open MPI "
                "4.1 or Open MPI 5", "--mpirun", "mpirun.mpich", SOLVER)


def refused_for_rg_run():
    with Job(["--mpi", "-n", "2", "--max-restarts", "0"],
             [TRAINER, "--steps", "5"], env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 3, f"rg_run in a rank: code {code}")
        claim("rg_run was called by a rank of --mpi" in job.text(), "why")


def refused_where_it_is_installed(folder, sentence):
    program = shutil.copy(REGROUP, os.path.join(folder, "regroup"))
    got = subprocess.run([program, "run", "--mpi", "-n", "2", SOLVER],
                         capture_output=True, text=True, check=False,
                         env=dict(os.environ, **MPI_ENV), timeout=60)
    claim(got.returncode == 71 and got.stderr.count("regroup: ") == 1 and
          sentence in got.stderr, f"{got.returncode}: {got.stderr}")


def refused_without_all_files():
    with tempfile.TemporaryDirectory() as folder:
        refused_where_it_is_installed(
            folder, "libexec/regroup-rank, and that can't be run (No such file "
            "or directory); install Regroup with all its files")
    with tempfile.TemporaryDirectory(prefix="a b") as folder:
        os.mkdir(os.path.join(folder, "bin"))
        os.mkdir(os.path.join(folder, "libexec"))
        shutil.copy(os.path.join(BUILD, "libexec", "regroup-rank"),
                    os.path.join(folder, "libexec"))
        refused_where_it_is_installed(os.path.join(folder, "bin"),
                                      "would cut that at the blank")


def refused_for_a_colon():
    refused("mpirun expects another program", "true", ":", "true")


def refused_for_one_address():
    """Open MPI would give both ranks to one host, and MPICH too, which then
    waits for --launch-timeout."""
    with LaunchedJob(["--mpi", "-n", "2", "-H", "h1:1,h2:1"],
                     [SOLVER, "/dev/null"], env=MPI_ENV) as job:
        code = job.process.wait(30)
        claim(code == 64, f"two hosts at one address: code {code}")
        claim(re.search(r"hosts (h1 and h2|h2 and h1) have one address, \S+, "
                        "by which mpirun can't tell them apart", job.text()),
              "why")
        claim("can't go on" not in job.text(), "a launch was tried")


def fails_at_a_step():
    with Job(["--mpi", "-n", "2", "--max-restarts", "1"],
             [SOLVER, UNTIL_FINISH[1], "--exit-at", "5", "7", "1"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 7, f"the job ended with code {code}, not the rank's")
        claim("used up its --max-restarts at step 5, and fewer slots are left "
              "than -n 2" in job.text(), "why")
        claim([one[0] for one in launches(job)] == [1, 2],
              f"{launches(job)}")
        job.check(is_mpi=True)


def is_aborted_at_a_step():
    """MPICH's mpirun kills all ranks then, and ends with the code itself."""
    mpich = os.path.join(BUILD, "tests", "solver-mpich")
    if not os.path.exists(mpich):
        return
    with Job(["--mpi", "-n", "2", "--max-restarts", "1"],
             [mpich, UNTIL_FINISH[1], "--exit-at", "5", "-7", "1"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 7, f"the job ended with code {code}, not MPI_Abort's")
        claim("2 launches have ended at step 5" in job.text(), "why")


def is_killed_at_a_step():
    """By a signal, which is no failure of its own, and each time another
    rank would do."""
    with Job(["--mpi", "-n", "2", "--max-restarts", "1"],
             [SOLVER, UNTIL_FINISH[1], "--exit-at", "5", "137", "1"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 137, f"the job ended with code {code}, not the rank's")
        claim("2 launches have ended at step 5, the newest since" in job.text(),
              "why")
        job.check(is_mpi=True)


def crashes_at_a_step():
    """What is left of it is killed before the signal ends it (MPICH)."""
    mpich = os.path.join(BUILD, "tests", "solver-mpich")
    if not os.path.exists(mpich):
        return
    with Job(["--mpi", "-n", "2", "--max-restarts", "0"],
             [mpich, UNTIL_FINISH[1], "--exit-at", "5", "139", "1"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 139, f"a rank that crashed: code {code}")
        claim("was ended by signal 11" in job.text(), "why")


def stays_in_mpi_finalize():
    with Job(["--mpi", "-n", "2", "--elastic-timeout", "2s"],
             [SOLVER, UNTIL_FINISH[1], "--stay", "1"], env=MPI_ENV,
             detect="500ms") as job:
        wait_launch(job, 1)
        job.let_finish()
        until(lambda: any(wait["kind"] == "ending" for wait in
                          (job.status() or {}).get("waiting", [])), 20,
              "the end of the ranks is waited for")
        job.finish()
        claim("have not ended, although the job is done" in job.text(), "why")


def is_stopped_in_mpi_finalize():
    """By the first signal, long before --elastic-timeout."""
    with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1], "--stay", "1"],
             env=MPI_ENV) as job:
        wait_launch(job, 1)
        job.let_finish()
        until(lambda: "rank 1 stays" in job.text() and
              "the job is done" in job.text(), 20, "rank 1 stays")
        job.process.send_signal(signal.SIGTERM)
        code = job.process.wait(60)
        claim(code == 143, f"the job ended with {code}")


def ends_before_rg_init(code, sentence, expected):
    with Job(["--mpi", "-n", "2", "--max-restarts", "1"],
             ["sh", "-c", f"exit {code}"], env=MPI_ENV) as job:
        got = job.process.wait(60)
        claim(got == expected, f"ranks that exit with {code}: code {got}")
        claim(sentence in job.text(), f"{sentence} was expected")


def mpirun_fails():
    """It starts no rank, so its code is no rank's."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mpirun")
        with open(path, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ "$*" != --version ] && exit 213\n'
                       'exec mpirun.openmpi --version\n')
        os.chmod(path, 0o755)
        with Job(["--mpi", "-n", "2", "--mpirun", path], [SOLVER, "/dev/null"],
                 env=MPI_ENV) as job:
            code = job.process.wait(60)
            claim(code == 71, f"the job ended with {code}")
            claim("mpirun on host" in job.text(), "why")


def hides_its_mpi_in_a_script():
    if shutil.which("mpirun.mpich") is None:
        return
    with Job(["--mpi", "-n", "2", "--max-restarts", "0", "--mpirun",
              "mpirun.mpich"], ["sh", "-c", f"exec {SOLVER} /dev/null"],
             env=MPI_ENV) as job:
        code = job.process.wait(60)
        claim(code == 1, f"ranks of another MPI than mpirun's: code {code}")
        claim("the MPI of this program sees only one" in job.text(), "why")


def inherits_a_launch():
    with Job(["-n", "2"], [TRAINER, "--steps", "5"],
             env={"REGROUP_LAUNCH": "1"}) as job:
        code = job.process.wait(60)
        claim(code == 0, f"a job without --mpi ended with code {code}")


def stops_at_a_commit():
    with Job(["--mpi", "-n", "2", "--checkpoint-dir", "kept"],
             [SOLVER, UNTIL_FINISH[1]],
             env={**MPI_ENV, "REGROUP_FAILPOINT": "leave:rank0:sleep300"}) \
            as job:
        wait_launch(job, 1)
        job.wait_step(10)
        job.run("stop", job.name)
        code = job.process.wait(60)
        claim(code == 143, f"a stopped job ended with code {code}")
        claim("ends at step" in job.text(), "ranks were not told to end")
        claim("rg_finalize: " not in job.text(), "rg_finalize fails")
        job.check(is_mpi=True)
        with Job(["--mpi", "-n", "2", "--checkpoint-dir",
                  os.path.join(job.folder, "kept")],
                 [SOLVER, UNTIL_FINISH[1]], env=MPI_ENV) as after:
            wait_launch(after, 1)
            first = min(e["step"] for e in after.events("step"))
            claim(first > 10, f"the next job went on from step {first - 1}")
            after.finish()


def test():
    need_solver()
    told_without_mpi()
    refused_for_its_mpi()
    refused_for_rg_run()
    refused_without_all_files()
    refused_for_a_colon()
    refused_for_one_address()
    fails_at_a_step()
    is_aborted_at_a_step()
    is_killed_at_a_step()
    crashes_at_a_step()
    stays_in_mpi_finalize()
    is_stopped_in_mpi_finalize()
    ends_before_rg_init(7, "used up its --max-restarts", 7)
    ends_before_rg_init(0, "has not called rg_init", 1)
    mpirun_fails()
    hides_its_mpi_in_a_script()
    inherits_a_launch()
    stops_at_a_commit()


main(test)
