"""A rank that has joined takes part in operations on gigabytes and still
answers its agent: no worker is considered stuck, and the static job ends well.

Covers: thread.c pieces.c"""
import os

from house import BUILD, Job, main


def test():
    with Job(["-n", "2"], [os.path.join(BUILD, "tests", "joiner"), "2048"],
             detect="lan") as job:
        job.finish(seconds=100)


main(test)
