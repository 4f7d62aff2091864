"""Shards of three hosts, each in a file of its own, and one host does not
write its own: it is lost while it writes, or it sees another directory. That
checkpoint gets one sentence and no file, the previous one stays, training goes
on, and the next one that all can write is whole.

Covers: shares.c"""

import os
import tempfile

from checkpoints import names, shown, steps, stopped
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAINING = ("--bytes", 3000, "--shard-bytes", 3000001,
            "--commit-every", 10, "--replicas", 1)
STOP = {"REGROUP_FAILPOINT": "checkpoint.share:step80:stop"}


def job_of(hosts, name, per_host, **more):
    return HostsJob(hosts, ["--min", "2", "--max", "3", "--checkpoint-every",
                            "40"], per_host,
                    trainer(*UNTIL_FINISH, *TRAINING, "--step-ms", 20), job=name, **more)


def flags(path):
    return ["--slots", "1", "--checkpoint-dir", path]


def lost_in_its_share(hosts, path):
    with job_of(hosts, "lost", flags(path), env={"h2": STOP}) as job:
        until(lambda: stopped(hosts.pids("h2")), 40, "the writer of h2 stops")
        claim(steps(path) == [40], f"{steps(path)} are there")
        job.fail_power("h2")
        until(lambda: job.alive() and "host h2 was lost before its shards "
              "were in" in job.text("h1"), 30, "a line says why")
        until(lambda: steps(path)[-1] > 80, 30, "two hosts write the next")
        claim(80 not in steps(path), "a file without a share is published")
        job.finish()
        claim(not names(path, ".part"), "a .part file was left")
        whole = job.run("checkpoint", "verify", path)
        claim(whole.returncode == 0, whole.stderr)
        one_file_each(job, path)
        job.check(trained=TRAINING)
    hosts.heal("h2")


def one_file_each(job, path):
    """Beside that of rank 0's host, none of a checkpoint that is not there; and
    without it the checkpoint is damaged."""
    found, newest = names(path, ".rgck"), names(path, ".rgck")[-1]
    other = [f for f in os.listdir(path) if f not in found]
    claim(all(f"{name}.1" in other for name in found) and
          all(name.rsplit(".", 1)[0] in found for name in other),
          f"beside {found} there is {other}")
    os.rename(os.path.join(path, newest + ".1"), os.path.join(path, "away"))
    whole = job.run("checkpoint", "verify", os.path.join(path, newest))
    claim(whole.returncode == 1 and "is not there" in whole.stderr,
          f"verify does not miss a file: {whole.stderr}")


def elsewhere(hosts, path, other):
    per_host = {"h1": flags(path), "h2": flags(path), "h3": flags(other)}
    with job_of(hosts, "elsewhere", per_host) as job:
        error = until(lambda: job.alive() and shown(job, "error"), 30,
                      "status says why")
        claim("host h3: the file of a checkpoint is not in" in error and
              "let all hosts see one directory" in error, error)
        job.finish()
        claim(not os.listdir(path) and not os.listdir(other),
              f"{os.listdir(path)} is there")
        said = job.text("h1").count("agent] host h3: the file")
        claim(said == 1, f"it was said {said} times")
        job.check(trained=TRAINING)


def test():
    with Hosts(3) as hosts:
        hosts.need_nets()
        paths = [tempfile.mkdtemp(prefix="ckpt-", dir=hosts.folder)
                 for _ in range(3)]
        lost_in_its_share(hosts, paths[0])
        elsewhere(hosts, *paths[1:])


main(test)
