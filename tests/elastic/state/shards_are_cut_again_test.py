"""A sharded buffer on a world of 4, then 3, then 4: shards are cut again in
each and the state is that of the fault-free run; an announced join moves
shards and rolls nothing back.

Covers: pieces.c"""

from house import UNTIL_FINISH, Job, claim, main, trainer

TRAINING = (*UNTIL_FINISH, "--bytes", 3000, "--step-ms", 5,
            "--shard-bytes", 1000003)  # no multiple of anything


def deaths():
    with Job(["--min", "3", "--max", "4"], trainer(*TRAINING)) as job:
        job.wait_step(20)
        job.kill(1)
        job.wait_world(3, above=1)
        job.wait_world(4, above=2)
        job.wait_step(job.step() + 10)
        job.kill_many([0, 2])
        job.wait_step(job.step() + 10)
        job.finish()
        job.check(trained=TRAINING)


def a_join():
    with Job(["--min", "2", "--max", "3", "--start-timeout", "100ms"],
             ["sh", "-c", "test $REGROUP_SLOT != 2 || sleep 1; exec \"$@\"",
              "sh", *trainer(*TRAINING, "--step-ms", 20)]) as job:
        job.wait_world(2)
        job.wait_world(3)
        job.finish()
        job.check(trained=TRAINING)
        claim(not [e for e in job.events("restore") if e["rank"] != 2],
              "a worker other than the newcomer restored")


def test():
    deaths()
    a_join()


main(test)
