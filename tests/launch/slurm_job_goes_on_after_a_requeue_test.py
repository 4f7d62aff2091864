"""In an allocation of a real Slurm, two nodes on this machine: the script of
deploy/slurm starts the agents as steps of the job, and after SIGTERM, as Slurm
sends it before the time limit, the job saves, is queued again, and goes on to
the end. So do two programs of MPI (--mpi), beside it on the same nodes: all
three are stopped and go on at the same time. salloc runs one as well. munge,
slurmctld and slurmd are this test's own: ports, key, socket and directories.

Covers: deploy/slurm/job.sh allocation.c mpirun_line.c"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from house import BUILD, SOURCE, claim, fault_free, main, skip, touch, until

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpirun"))
# pylint: disable=wrong-import-position
from mpijob import FINAL, HOSTS_ENV, SOLVER, value_after  # noqa: E402

TRAINING = ("--steps", "600", "--step-ms", "10")
# Debian's packages, unpacked and not installed, will do as well.
ROOT = os.environ.get("REGROUP_TEST_SLURM", "/")
PATH = [os.path.join(ROOT, "usr", part) for part in ("bin", "sbin")]
CONFIG = """ClusterName=regroup
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.socket
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={top}/state
SlurmdSpoolDir={top}/spool-%n
SlurmctldPidFile={top}/slurmctld.pid
SlurmdPidFile={top}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
TaskProlog={top}/prolog
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[1]} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[2]} CPUs=4
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""
# Both nodes are this machine, and mpirun has to tell them apart.
PROLOG = """#!/bin/sh
echo export REGROUP_ADVERTISE=127.0.0.${SLURMD_NODENAME#n}
"""
LOOPBACK = {"OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo"}


def program(*names):
    for name in names:
        found = shutil.which(name, path=":".join(PATH))
        if found is not None:
            return found
    return skip(f"there is no {names[0]}; ci/install tests")


def free_ports(n):
    socks = [socket.socket() for _ in range(n)]
    for sock in socks:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


class Slurm:
    """Its daemons, in the foreground: they end with this test."""

    def __init__(self, top):
        library = os.path.join(ROOT, "usr/lib",
                               f"{os.uname().machine}-linux-gnu")
        plugins = os.path.join(library, "slurm-wlm")
        self.top, self.started = top, []
        self.config = os.path.join(top, "slurm.conf")
        for name in "state", "spool-n1", "spool-n2":
            os.mkdir(os.path.join(top, name))
        with open(self.config, "w", encoding="ascii") as file:
            file.write(CONFIG.format(top=top, plugins=plugins,
                                     host=socket.gethostname().split(".")[0],
                                     port=free_ports(3)))
        with open(os.path.join(top, "prolog"), "w", encoding="ascii",
                  opener=lambda path, flags: os.open(path, flags, 0o700)) \
                as file:
            file.write(PROLOG)
        key = os.path.join(top, "munge.key")
        with open(key, "wb", opener=lambda path, flags:
                  os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        self.env = {**os.environ, **HOSTS_ENV, **LOOPBACK,
                    "SLURM_CONF": self.config,
                    "PATH": ":".join([*PATH, os.path.join(BUILD, "bin"),
                                      os.environ["PATH"]]),
                    "LD_LIBRARY_PATH": f"{library}:{plugins}"}
        self.start(program("munged"), "-F", "--force", f"--key-file={key}",
                   f"--socket={top}/munge.socket", f"--pid-file={top}/m.pid",
                   f"--log-file={top}/munged.log", f"--seed-file={top}/seed")
        until(lambda: os.path.exists(f"{top}/munge.socket"), 10, "munged")
        self.start(program("slurmctld-wlm", "slurmctld"), "-D", "-f",
                   self.config)
        for node in "n1", "n2":
            self.start(program("slurmd-wlm", "slurmd"), "-D", "-N", node, "-f",
                       self.config, "-d",
                       program("slurmstepd-wlm", "slurmstepd"))
        until(lambda: "idle 2" in self.run("sinfo", "-h", "-o", "%T %D"), 30,
              "two idle nodes")

    def start(self, *words):
        log = open(os.path.join(self.top, os.path.basename(words[0]) + ".out"),
                   "ab")
        self.started.append(subprocess.Popen(
            words, stdout=log, stderr=log, env=self.env))

    def run(self, *words):
        return subprocess.run(words, env=self.env, text=True, timeout=30,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout

    def end(self):
        with contextlib.suppress(Exception):
            self.run("scancel", "--full", "-u", "root")
            until(lambda: not self.run("squeue", "-h").strip(), 10, "no job")
        for one in reversed(self.started):
            one.terminate()
        for one in reversed(self.started):
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()


class Submitted:
    """A job of the script, with a task on each node."""

    def __init__(self, slurm, name, *words):
        self.slurm = slurm
        self.out, self.saved = (os.path.join(slurm.top, name + end)
                                for end in (".out", ".saved"))
        os.mkdir(self.saved)
        said = slurm.run("sbatch", "--nodes=2", "--ntasks-per-node=1", "-o",
                         self.out, os.path.join(SOURCE, "deploy/slurm/job.sh"),
                         "--checkpoint-dir", self.saved, *words)
        self.id = re.search(r"Submitted batch job (\d+)", said)
        claim(self.id, said)

    def text(self):
        with contextlib.suppress(FileNotFoundError), \
                open(self.out, encoding="utf-8") as file:
            return file.read()
        return ""

    def is_queued(self):
        return "PD" in self.slurm.run("squeue", "-h", "-o", "%t", "-j",
                                      self.id[1])

    def stop(self):
        self.slurm.run("scancel", "--batch", "--signal=TERM", self.id[1])

    def wait_queued(self):
        """It has saved before."""
        until(lambda: "exit code 143" in self.text(), 30, "an end")
        until(self.is_queued, 30, "the job is queued again")

    def begin_again(self):
        """Slurm would let it wait for two minutes; in the second in which the
        job was ended slurmd refuses it (`Job credential revoked`)."""
        queued = int(time.time())
        until(lambda: time.time() >= queued + 1, 2, "that second is over")
        self.slurm.run("scontrol", "update", f"JobId={self.id[1]}",
                       "StartTime=now")

    def wait_saved(self):
        until(lambda: os.listdir(self.saved), 30, "a checkpoint")

    def finish(self):
        until(lambda: "is done; exit code 0" in self.text(), 60, "the end")


def check_trained(job):
    text = job.text()
    claim("loaded step" in text, f"no checkpoint is loaded:\n{text}")
    final = set(re.findall(r"final step (\d+) state ([0-9a-f]+)", text))
    claim(final == {fault_free(*TRAINING)}, f"{final}:\n{text}")


def check_solved(text):
    claim("launch 1: 2 ranks on n1:1 n2:1" in text, text)
    step, value, _ = FINAL.findall(text)[-1]
    claim(int(value, 16) == value_after(int(step), 2), text)
    return int(step)


def go_on(slurm):
    finish = os.path.join(slurm.top, "finish")
    solver = ["--mpi", "-n", "2", "--checkpoint-every", "10", SOLVER, finish]
    trains = Submitted(slurm, "trains", "--min", "2", "--checkpoint-every",
                       "20", os.path.join(BUILD, "tests", "trainer"),
                       *TRAINING, "--load")
    solve = [Submitted(slurm, f"solves{i}", *solver) for i in (1, 2)
             if os.path.exists(SOLVER)]
    jobs = [trains, *solve]
    for step in (Submitted.wait_saved, Submitted.stop, Submitted.wait_queued,
                 Submitted.begin_again):
        for job in jobs:
            step(job)
    for job in solve:
        until(lambda: job.text().count("launch 1: ") == 2, 60, "it goes on")
    touch(finish)
    for job in jobs:
        job.finish()
    check_trained(trains)
    for job in solve:
        ended = max(map(int, re.findall(r"ends at step (\d+)", job.text())))
        claim(check_solved(job.text()) >= ended,
              f"it has begun again: {job.text()}")


def is_run_by_salloc(slurm):
    finish = os.path.join(slurm.top, "at-once")
    touch(finish)
    """Where srun sets up PMIx for each step, as on many sites, too."""
    check_solved(slurm.run("salloc", "--nodes=2", "--ntasks-per-node=1", "env",
                           "SLURM_MPI_TYPE=pmix", "regroup", "run", "--mpi", "-n", "2", SOLVER,
                           finish))


def test():
    if os.geteuid() != 0:
        skip("slurmd needs root")
    for name in "munged", "sbatch", "srun":
        program(name)
    top = tempfile.mkdtemp(prefix="rg-slurm-")
    slurm = None
    try:
        slurm = Slurm(top)
        go_on(slurm)
        if os.path.exists(SOLVER):
            is_run_by_salloc(slurm)
    finally:
        if slurm is not None:
            slurm.end()
        shutil.rmtree(top, ignore_errors=True)


main(test)
