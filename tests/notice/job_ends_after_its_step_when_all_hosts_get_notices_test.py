"""Notices to all hosts at once, and one to the host of the job's private etcd,
stop a job as `regroup stop` does: the step that is under way ends on every host,
its commit is the last checkpoint, and workers are asked to leave.

Covers: leader.c noticed.c"""

import os
import tempfile

from checkpoints import directory, steps
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, Job, claim, main_all, need_etcd, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 800, "--commit-every", 100000)


def announce(path):
    with open(path, "x", encoding="ascii"):
        pass


def claim_nothing_is_lost(job, path, text):
    newest = max(e["step"] for e in job.events("step"))
    claim(newest >= 2 and steps(path) == [newest],
          f"{steps(path)} are there, step {newest} has ended: {text}")


def test_hosts():
    with Hosts(2, nets=False) as hosts, directory() as path:
        notices = {h: os.path.join(hosts.folder, "leave-" + h)
                   for h in hosts.names}
        with HostsJob(hosts, ["--min", "1", "--max", "2", "--slots", "1",
                              "--notice-every", "100ms",
                              "--checkpoint-dir", path],
                      {h: ["--notice", "file:" + notices[h]] for h in notices},
                      trainer(*TRAIN)) as job:
            job.wait_world(2)
            job.wait_step(1)
            job.lost.update(hosts.names)
            for host in hosts.names:
                announce(notices[host])
            for host in hosts.names:
                until(lambda h=host: job.agents[h].poll() is not None, 25,
                      f"{host} ends")
                claim(job.agents[host].poll() == 143, job.text(host))
            claim_nothing_is_lost(job, path, job.text())


def test_the_host_of_etcd():
    need_etcd()
    with tempfile.TemporaryDirectory() as folder, directory() as path:
        notice = os.path.join(folder, "leave")
        with Job(["-n", "2", "--notice", "file:" + notice,
                  "--notice-every", "100ms", "--checkpoint-dir", path],
                 trainer(*TRAIN)) as job:
            job.wait_step(1)
            announce(notice)
            until(lambda: job.process.poll() is not None, 25, "it ends")
            claim(job.process.poll() == 143, job.text())
            claim_nothing_is_lost(job, path, job.text())


main_all(globals())
