"""When a job is done, `regroup run -H` waits for what its programs still do, but
not for a host that was cut off while ssh has not noticed: one that the world had
lost before costs nothing, and of one that is lost afterwards the code says that
its work is not known. The same is said once etcd has been away for too long.

Covers: host_launcher.c goodbye.c run_cmd.c"""
import os

from hosts import Hosts
from house import UNTIL_FINISH, claim, main, trainer, until
from sshd import SshJob, Sshds

STILL_WORKS = ["sh", "-c", '"$@"; touch after-$$; while [ ! -e go ]; do '
               'sleep 0.1; done', "sh",
               *trainer(*UNTIL_FINISH, "--step-ms", 5)]


def lost(sshds):
    """h3 before the end, h4 behind it."""
    flags = ["--min", "1", "--start-timeout", "500ms", "--etcd",
             sshds.hosts.urls]
    targets = sshds.targets
    with SshJob(sshds, [("h2", 1), ("h3", 1), ("h4", 1)], flags,
                STILL_WORKS) as job:
        job.wait_world(3)
        sshds.hosts.cut("h3")
        job.wait_world(2)
        job.let_finish()
        until(lambda: sum(name.startswith("after-") for name in
                          os.listdir(job.folder)) == 2, 20, "rg_run returns")
        sshds.hosts.cut("h4")
        for said in (f"host {targets['h3']} has been lost before the job was "
                     "done, and is not waited for",
                     f"host {targets['h4']} has been cut off, or has died, "
                     "since the job is done"):
            until(lambda: said in job.text(), 40, said)
        claim(job.process.poll() is None, "h2 is not waited for")
        job.write("go")
        until(lambda: job.process.poll() is not None, 50, "the launcher ends")
        claim(job.process.returncode == 255, job.process.returncode)
        sshds.hosts.heal()
        job.await_none(30)


def unknown(sshds):
    """h3 is cut off while etcd gives no answer; h2's program still works."""
    flags = ["--etcd-timeout", "3s", "--etcd", sshds.hosts.urls]
    with SshJob(sshds, [("h2", 1), ("h3", 1)], flags, STILL_WORKS) as job:
        job.wait_world(2)
        job.let_finish()
        until(lambda: sum(name.startswith("after-") for name in
                          os.listdir(job.folder)) == 2, 20, "rg_run returns")
        sshds.hosts.etcd[0].stop()
        sshds.hosts.cut("h3")
        until(lambda: job.process.poll() is not None, 50, "the launcher ends")
        claim(job.process.returncode == 255, job.process.returncode)
        claim(job.text().count("nothing tells whether host") == 2, job.text())
        sshds.hosts.etcd[0].go_on()
        sshds.hosts.heal()
        job.write("go")
        job.await_none(30)


def test():
    with Hosts(4) as hosts:
        hosts.need_nets()
        sshds = Sshds(hosts)
        try:
            for name in ("h2", "h3", "h4"):
                sshds.start(name)
            lost(sshds)
            unknown(sshds)
        finally:
            sshds.stop()


main(test)
