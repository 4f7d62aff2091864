"""Gradients travel as halves or as their largest elements: results are as near
as rounding allows, what is left out comes in later steps, all ranks get equal
bits, a rank may have joined, and a death in the middle of a step leaves
nothing of former steps.

Covers: process_sets/reducer/compression.c buckets.c tests/process_sets/compressing.c
"""
import os

from house import BUILD, Job, claim, main_all

COMPRESSING = os.path.join(BUILD, "tests", "compressing")
BF16, TOP_K = "2", "3"


def test_claims():
    for size in (2, 3):
        with Job(["-n", str(size)], [COMPRESSING, "claims"]) as job:
            job.finish()


def test_kill():
    env = {"REGROUP_FAILPOINT": "coll.start:rank1:gen1:step3:start1:kill"}
    for way in (BF16, TOP_K):
        with Job(["--min", "2", "--max", "3"],
                 [COMPRESSING, "train", "6", way], env=env) as job:
            job.finish()
            text = job.text()
            claim(text.count("RG_ERR_PEER_LOST after 3 steps in generation 1")
                  == 2, "the survivors were not told of the loss")
            claim("RG_OK after 6 steps" in text, "the steps were not made")


main_all(globals())
