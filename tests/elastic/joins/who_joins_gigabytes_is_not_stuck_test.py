"""Who has joined stands in for gigabytes of the others and answers its agent
all the while: nobody is taken for stuck, and the static job ends well.

Covers: thread.c pieces.c"""
import os

from house import BUILD, Job, main


def test():
    with Job(["-n", "2"], [os.path.join(BUILD, "tests", "joiner"), "2048"],
             detect="lan") as job:
        job.finish(seconds=100)


main(test)
