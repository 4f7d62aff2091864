"""The host of rank 0 drains while its writer holds a whole file: the job goes on
without it, its agent stays until the checkpoint is published, and ends with 0.

Covers: drain.c shares.c"""

import os
import signal
import tempfile

from checkpoints import names, steps, stop_writer_of, stopped
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = ("--commit-every", 40, "--save-every", 40)
STOP = stop_writer_of(40, 80)
# What it would write later must not come before that one.
LATER = {"REGROUP_FAILPOINT": "commit.before_agree:gen2:sleep3000"}


def test():
    with Hosts(2) as hosts:
        path = tempfile.mkdtemp(prefix="ckpt-", dir=hosts.folder)
        with HostsJob(hosts, ["--min", "1", "--max", "2", "--checkpoint-dir",
                              path, "--checkpoint-keep", "99"],
                      ["--slots", "1"],
                      trainer(*UNTIL_FINISH, *TRAINING, "--step-ms", 20),
                      env={"h1": STOP, "h2": LATER}) as job:
            writer = until(lambda: stopped(hosts.pids("h1")), 40,
                           "the writer of h1 stops")[0]
            claim(job.host_of(0) == "h1", "rank 0 is elsewhere")
            job.drain("h1")
            job.wait_world(1)
            claim(job.agents["h1"].poll() is None,
                  "the agent of h1 left its writer alone")
            claim(40 not in steps(path), f"{steps(path)} are published")
            os.kill(writer, signal.SIGCONT)
            until(lambda: 40 in steps(path), 20, "the checkpoint of h1")
            until(lambda: job.agents["h1"].poll() is not None, 20,
                  "the agent of h1 ends")
            until(lambda: job.alive() and steps(path)[-1] > 40, 20,
                  "the next one, of h2")
            job.finish()
            claim(steps(path)[-1] >= int(job.final_state()[0]) // 40 * 40,
                  f"{steps(path)} are there")
            claim(not names(path, ".part"), "a .part file was left")
            job.check(trained=TRAINING)


main(test)
