"""`regroup run -H` over ssh to real sshds, each on a host of its own: one that
can't be reached is said and joins once it can, the agent of another is killed
and comes back, a third is cut off and heals. Ctrl-C ends the job everywhere,
and so does the death of the launcher that has the job's etcd.

Covers: host_launcher.c route.c remote_cmd.c channel.c"""
import re
import signal

from hosts import Hosts
from house import UNTIL_FINISH, claim, main, trainer, until
from sshd import SshJob, Sshds

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
SIZES = ["--min", "1", "--start-timeout", "500ms"]



def faults(sshds):
    targets = sshds.targets
    with SshJob(sshds, [("h1", 1), ("h2", 2), ("h3", 1)], SIZES,
                trainer(*TRAIN)) as job:
        job.wait_world(3)  # without h3, where no sshd runs
        said = re.findall(rf"host {targets['h3']} can't be reached: (.*)",
                          job.text())
        claim(len(said) == 1 and "Connection refused" in said[0], said)
        sshds.start("h3")
        job.wait_world(4)
        generation = job.generation()
        job.kill_agents("h2")
        job.wait_world(4, above=generation)
        if sshds.hosts.has_nets:
            sshds.hosts.cut("h3")
            job.wait_world(3)
            sshds.hosts.heal("h3")
            job.wait_world(4)
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()
        claim({line.split(".")[0] if line[0] == "h" else line.rsplit(".", 1)[0]
               for line in re.findall(r"^(\S+) r\d \| final", job.text(),
                                      re.MULTILINE)} ==
              set(targets.values()), "each host has printed its final state")


def ends(sshds, signum, code):
    with SshJob(sshds, [("h2", 2), ("h3", 1)], SIZES,
                trainer(*TRAIN)) as job:
        job.wait_world(3)
        job.signal(signum)
        until(lambda: job.process.poll() is not None, 20, "the launcher ends")
        claim(job.process.returncode == code, job.process.returncode)
        job.await_none()


def test():
    with Hosts(3) as hosts:
        sshds = Sshds(hosts)
        try:
            sshds.start("h2")
            faults(sshds)
            ends(sshds, signal.SIGINT, 130)
            ends(sshds, signal.SIGKILL, -9)
        finally:
            sshds.stop()


main(test)
