"""In an allocation of a real Slurm, two nodes on this machine: the script of
deploy/slurm starts the agents as steps of the job, and after SIGTERM, as Slurm
sends it before the time limit, the job saves, is queued again, and goes on to
the end. munge, slurmctld and slurmd are this test's own: ports, key, socket and
directories.

Covers: deploy/slurm/job.sh allocation.c"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile

from house import BUILD, SOURCE, claim, fault_free, main, skip, until

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
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[2]} CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


def program(*names):
    for name in names:
        found = shutil.which(name, path=":".join(PATH))
        if found is not None:
            return found
    return skip(f"there is no {names[0]}; ci/install slurm")


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
        key = os.path.join(top, "munge.key")
        with open(key, "wb", opener=lambda path, flags:
                  os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        self.env = {**os.environ, "SLURM_CONF": self.config,
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


def go_on(slurm):
    out, saved = os.path.join(slurm.top, "out"), os.path.join(slurm.top, "ck")
    deploy = os.path.join(SOURCE, "deploy/slurm")

    def text():
        with contextlib.suppress(FileNotFoundError), \
                open(out, encoding="utf-8") as file:
            return file.read()
        return ""

    os.mkdir(saved)
    said = slurm.run("sbatch", "--nodes=2", "--ntasks-per-node=2", "-o", out,
                     os.path.join(deploy, "job.sh"), "--min", "2",
                     "--checkpoint-dir", saved, "--checkpoint-every", "20",
                     os.path.join(BUILD, "tests", "trainer"), *TRAINING,
                     "--load")
    job = re.search(r"Submitted batch job (\d+)", said)
    claim(job, said)
    until(lambda: os.listdir(saved), 30, "a checkpoint")
    slurm.run("scancel", "--batch", "--signal=TERM", job[1])
    until(lambda: "exit code 143" in text(), 30, "an end")
    until(lambda: "PD" in slurm.run("squeue", "-h", "-o", "%t"), 30,
          "the job is queued again")
    # Slurm lets it wait for two minutes.
    slurm.run("scontrol", "update", f"JobId={job[1]}", "StartTime=now")
    until(lambda: "is done; exit code 0" in text(), 60, "the end")
    claim("loaded step" in text(), f"no checkpoint is loaded:\n{text()}")
    final = set(re.findall(r"final step (\d+) state ([0-9a-f]+)", text()))
    claim(final == {fault_free(*TRAINING)}, f"{final}:\n{text()}")


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
    finally:
        if slurm is not None:
            slurm.end()
        shutil.rmtree(top, ignore_errors=True)


main(test)
