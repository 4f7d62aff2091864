"""A sharded buffer with one copy of each shard: hosts are lost one after the
other, and training goes on from what the others hold, to the state of the
fault-free run. Without copies a lost host is the end, in one sentence; a
drained one is not.

Covers: replication.c fetch.c"""

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer

TRAINING = ("--bytes", 30000, "--step-ms", 5, "--shard-bytes", 2000000)


def job_of(hosts, name, *flags):
    return HostsJob(hosts, ["--min", "2", "--max", "6", "--agent-grace", "2s",
                            "--elastic-timeout", "3s"], ["--slots", "2"],
                    trainer(*UNTIL_FINISH, *TRAINING, *flags), job=name)


def test():
    with Hosts(3) as hosts:
        with job_of(hosts, "copied", "--replicas", 1) as job:
            job.wait_step(30)
            before = job.generation()
            job.fail_power("h2")
            job.wait_world(4, above=before)
            job.wait_step(job.step() + 20)
            job.fail_power("h3")
            job.finish()
            job.check(trained=TRAINING)
        for host in ("h2", "h3"):
            hosts.heal(host)

        with job_of(hosts, "drained") as job:
            job.wait_step(30)
            before = job.generation()
            job.drain("h2")
            job.wait_world(4, above=before)
            job.finish()
            job.check(trained=TRAINING)

        with job_of(hosts, "bare") as job:
            job.wait_step(30)
            job.fail_power("h2")
            job.finish(code=74)
            claim("no commit is whole any more" in job.text("h1"),
                  "the end is not explained")


main(test)
