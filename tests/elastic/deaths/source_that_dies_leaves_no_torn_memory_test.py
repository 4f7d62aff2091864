"""Rank 0 dies while it broadcasts the memory that would be commit 0, and
another rank's memory becomes commit 0: all of it comes from one process,
although parts of the dead one's memory had arrived.

Covers: pieces.c state.c"""
import os

from house import BUILD, Job, claim, main

MISUSE = os.path.join(BUILD, "tests", "misuse")


def test():
    with Job(["--min", "1", "--max", "2", "--start-timeout", "20s"],
             [MISUSE, "torn_broadcast"]) as job:
        job.finish()
        claim("generation 2" in job.text(), "rank 0 did not die")
        claim("torn: of process" not in job.text(),
              "commit 0 is a mixture of two processes' memory")
        claim("whole: of process" in job.text(), "no worker entered fn")
        job.check()


main(test)
