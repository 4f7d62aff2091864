"""Shards of three hosts in one file that all of them write. A host whose
writer is killed costs that checkpoint and no step; all hosts lose their power
at once, and a job on two of them goes on from the last checkpoint to the state
of the fault-free run.

Covers: state/load.c shares.c"""

import os
import tempfile

from checkpoints import names, shown, steps
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = ("--bytes", 3000, "--shard-bytes", 3000001, "--commit-every", 10)
KILL = {"REGROUP_FAILPOINT": "checkpoint.share:step80:kill"}


def job_of(hosts, path, name, size, length, **more):
    return HostsJob(hosts, ["--min", str(size), "--max", str(size),
                            "--checkpoint-dir", path, "--checkpoint-every",
                            "40"], ["--slots", "2"],
                    trainer(*length, *TRAINING, "--step-ms", 30, "--load"),
                    job=name, **more)


def lose_all(hosts, path):
    """The newest step that was durable."""
    with job_of(hosts, path, "first", 6, UNTIL_FINISH,
                env={"h2": KILL}) as job:
        until(lambda: steps(path), 30, "the first checkpoint")
        until(lambda: job.alive() and "of a checkpoint was ended (signal 9)"
              in job.text("h1"), 30, "the next fails")
        until(lambda: steps(path)[-1] > 80, 30, "the one after it")
        claim(80 not in steps(path), "a file without a share is published")
        claim(not names(path, ".part"), "a .part file was left")
        claim(shown(job, "error") is None, "the error is over")
        job.wait_step(steps(path)[-1] + 10)
        for host in hosts.names:
            job.fail_power(host)
        job.check()
    for host in hosts.names:
        hosts.heal(host)
    return steps(path)[-1]


def test():
    with Hosts(3) as hosts:
        hosts.need_nets()
        path = tempfile.mkdtemp(prefix="ckpt-", dir=hosts.folder)
        newest = lose_all(hosts, path)
        claim(newest >= 120, f"step {newest} is the newest")
        length = ("--steps", newest + 80)
        with job_of(hosts, path, "second", 4, length,
                    only=["h1", "h3"]) as job:
            job.finish()
            claim(f"loaded step {newest}\n" in job.text(), "no checkpoint is loaded")
            shape = job.run("checkpoint", "verify", path)
            claim(shape.returncode == 0, shape.stderr)
            job.check(trained=TRAINING)
        claim(steps(path)[-1] == newest + 80, f"{os.listdir(path)} is there")


main(test)
