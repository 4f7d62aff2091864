"""A worker is killed while the first commit is made, when its shards and
pieces are in the vault already. No rank has entered fn: the job begins again,
with and without shards; and so it does when the agent dies that is about to
record that a commit is begun.

Covers: generation.c resume.c"""
from house import Job, claim, fault_free, main, trainer

TRAINING = ("--steps", 40, "--step-ms", 2, "--bytes", 65536)
SHARDS = ("--shard-bytes", 65536)


def run(point, *more):
    with Job(["--min", "1", "--max", "4", "--start-timeout", "20s"],
             trainer(*TRAINING, *more), env={"REGROUP_FAILPOINT": point}) as job:
        job.finish()
        job.check(fault_free(*TRAINING, *more))
        claim(f"{point.split(':', maxsplit=1)[0]} strikes" in job.text(),
              f"{point} has not struck")


def test():
    run("commit.copy:rank1:step0:start1:kill", *SHARDS)
    run("commit.before_agree:rank2:step0:start1:kill", *SHARDS, "--replicas", 1)
    run("commit.after_agree:rank0:step0:start1:kill")
    run("agent.begin:start1:kill", *SHARDS)


main(test)
