"""A job on two hosts, each with shards of its own, is stopped: its newest commit
is a checkpoint that is whole. The last host that drains leaves one as well. The
host of rank 0 dies as the job is stopped: the other ends all the same. No host
waits for a commit that only the other host has stored completely.

Covers: claim.c"""

import time

from checkpoints import directory, names, steps
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

SHARDS = ("--shard-bytes", 300001)


def job_of(hosts, path, name, *training, **more):
    return HostsJob(hosts, ["--min", "1", "--max", "4", "--start-timeout",
                            "2s", "--checkpoint-dir", path],
                    ["--slots", "2"],
                    trainer(*UNTIL_FINISH, "--step-ms", 3, *training),
                    job=name, **more)


def newest(job):
    return max(e["step"] for e in job.events()
               if e["event"] in ("commit", "stored"))


def is_saved(job, path):
    claim(steps(path) and steps(path)[-1] >= newest(job),
          f"{steps(path)} are there, {newest(job)} is committed")
    claim(not names(path, ".part"), "a .part file was left")
    shown = job.run("checkpoint", "verify", path)
    claim(shown.returncode == 0, shown.stderr)


def stopped(hosts):
    with directory() as path, job_of(hosts, path, "stopped", *SHARDS) as job:
        job.wait_world(4)
        job.wait_step(30)
        shown = job.run("stop", job.name)
        claim(shown.returncode == 0, shown.stderr)
        job.finish(code=143, seconds=20)
        is_saved(job, path)
        job.check()


def drained(hosts):
    with directory() as path, job_of(hosts, path, "drained") as job:
        job.wait_world(4)
        job.drain("h1")
        job.wait_world(2)
        job.wait_step(job.step() + 20)
        job.drain("h2")
        until(lambda: job.agents["h2"].poll() is not None, 20, "h2 ends")
        claim(job.agents["h2"].returncode == 0, job.agents["h2"].returncode)
        is_saved(job, path)
        job.check()


def left_alone(hosts):
    hold = {"REGROUP_FAILPOINT": "checkpoint.written:stop"}
    with directory() as path, job_of(hosts, path, "alone",
                                     env={"h1": hold}) as job:
        job.wait_world(4)
        job.wait_step(30)
        job.run_on("h2", "stop", "--timeout", "1s", job.name)
        until(lambda: names(path, ".part"), 20, "the checkpoint is begun")
        job.kill_host("h1")
        job.finish(code=143, seconds=20)


def half_stored(hosts):
    """A worker beside rank 0 fails in its commit, which ends the job: the
    checkpoint is the commit before, and neither host waits for another."""
    fails = {"REGROUP_FAILPOINT": "commit.copy:rank1:step30:exit1"}
    with directory() as path, HostsJob(
            hosts, ["--min", "4", "--max", "4", "--max-restarts", "0",
                    "--checkpoint-dir", path], ["--slots", "2"],
            trainer(*UNTIL_FINISH, "--step-ms", 3, *SHARDS), job="half",
            env={"h1": fails}) as job:
        job.wait_world(4)
        until(lambda: any(p.poll() is not None for p in job.agents.values()),
              40, "a host ends")
        began = time.monotonic()
        until(lambda: all(p.poll() is not None for p in job.agents.values()),
              40, "both end")
        took = time.monotonic() - began
        said = job.text()
        claim(steps(path) and steps(path)[-1] == 29, f"{steps(path)}:\n{said}")
        claim("given up" not in said and took < 15, f"{took:.0f} s:\n{said}")


def test():
    with Hosts(2, nets=False) as hosts:
        half_stored(hosts)
        stopped(hosts)
        drained(hosts)
        left_alone(hosts)


main(test)
