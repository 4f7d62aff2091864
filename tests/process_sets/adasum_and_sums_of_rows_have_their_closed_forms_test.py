"""Adasum is what its definition says, for each type of floats and any number of
ranks; rows of a table are added up, each place once; and both go on with ranks
that have joined.

Covers: process_sets/reducer/adasum.c rows.c tests/process_sets/adding.c
"""
import os

from house import BUILD, Job, main

ADDING = os.path.join(BUILD, "tests", "adding")


def test():
    for size in (1, 2, 3, 5):
        with Job(["-n", str(size)], [ADDING]) as job:
            job.finish()


main(test)
