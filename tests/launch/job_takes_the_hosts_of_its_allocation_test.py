"""`regroup run` within an allocation needs no list of hosts: the world is that
of Slurm's tasks, and agents of other hosts are steps that srun starts (here a
program of that name). A list, or a size for this host alone, counts more. Tasks
of a step, which would all start the job, are told so once.

Covers: allocation.c cli/remotes.c"""

import os
import socket
import subprocess
import tempfile

from house import REGROUP, Job, claim, main, trainer

SRUN = """#!/bin/sh
echo "$*" >> {folder}/calls
for word; do case $word in --nodelist=*) shift; break;; esac; shift; done
exec env -i PATH="$PATH" REGROUP_RUN_DIR={folder}/run "$@"
"""
SLURM = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2,1"}


def begin(folder, variables, flags=()):
    with open(os.path.join(folder, "srun"), "w", encoding="ascii") as file:
        file.write(SRUN.format(folder=folder))
    os.chmod(file.name, 0o755)
    env = {**variables, "PATH": f"{folder}:{os.environ['PATH']}"}
    return Job(list(flags), trainer("--steps", "20"), env=env)


def sizes(job):
    job.finish()
    job.check()
    return [e["size"] for e in job.events("sync")]


def said_in_step(**variables):
    step = {**SLURM, "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", **variables}
    with Job(["-n", "1"], ["true"], env=step) as job:
        job.finish(0)
        return "srun has started `regroup run` 2 times" in job.text()


def tasks_of_a_step():
    claim(said_in_step(SLURM_STEP_NUM_TASKS="2"), "the first of two")
    claim(not said_in_step(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1"),
          "it is said once")
    claim(not said_in_step(SLURM_STEP_NUM_TASKS="1"), "the only one")


def test():
    tasks_of_a_step()
    with tempfile.TemporaryDirectory() as folder:
        with begin(folder, SLURM) as job:
            claim(sizes(job) == [3, 3, 3], "a world of three")
        with open(os.path.join(folder, "calls"), encoding="ascii") as file:
            calls = file.read().splitlines()
        claim(len(calls) == 2 and all(
            f"--overlap --nodes=1 --ntasks=1 --input=0 --nodelist=n{i}" in
            "\n".join(calls) for i in (1, 2)), f"{calls}")
        with begin(folder, SLURM, ["-H", "localhost:1"]) as job:
            claim(sizes(job) == [1], "-H counts more")
        own = {"SLURM_JOB_NODELIST": socket.gethostname(),
               "SLURM_TASKS_PER_NODE": "1"}
        with begin(folder, own, ["-n", "2"]) as job:
            claim(sizes(job) == [2, 2], "-n for this host alone")
        done = subprocess.run(
            [REGROUP, "run", "true"], capture_output=True, text=True,
            env={**os.environ, "SLURM_JOB_NODELIST": "n[1-",
                 "REGROUP_RUN_DIR": folder}, timeout=20, check=False)
        claim(done.returncode == 64 and "the hosts of this allocation "
              "(SLURM_JOB_NODELIST): \"[1-\" is not understood" in done.stderr,
              done.stderr)


main(test)
