"""A reducer: sums have the bits of plain allreduces whatever the order and the
threads in which tensors become ready, and what is late counts whole or not at
all; mistakes are named on all ranks; and it lives through a death in the middle
of a step.

Covers: process_sets/reducer/reducer_steps.c buckets.c agreed.c
tests/process_sets/reducing.c"""
import os

from house import BUILD, Job, claim, main

REDUCING = os.path.join(BUILD, "tests", "reducing")


def check_claims(size):
    with Job(["-n", str(size)], [REDUCING, "claims"]) as job:
        job.finish()


def check_kill():
    # coll.middle needs an operation that takes more than one look
    env = {"REGROUP_FAILPOINT": "coll.start:rank1:gen1:step3:start1:kill"}
    with Job(["-n", "3"], [REDUCING, "train", "6"], env=env) as job:
        job.finish()
        text = job.text()
        claim(text.count("RG_ERR_PEER_LOST after 3 steps in generation 1")
              == 2, "the survivors were not told of the loss")
        claim(text.count("RG_OK after 6 steps in generation 2") == 3,
              "not all ranks made all steps")


def test():
    for size in (1, 2, 3):
        check_claims(size)
    check_kill()


main(test)
