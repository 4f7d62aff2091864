"""Where one rank has no memory for buckets, for Adasum or for rows, the call
fails on all ranks instead of leaving the others waiting, and the next is right.

Covers: process_sets/reducer/agreed.c adasum.c rows.c reducer_steps.c
tests/process_sets/starving.c
"""
import os

from house import BUILD, Job, main, skip


def test():
    starving = os.path.join(BUILD, "tests", "starving")
    if not os.path.exists(starving):
        skip("it stands in for an allocator that a sanitizer needs")
    with Job(["-n", "3"], [starving]) as job:
        job.finish()


main(test)
