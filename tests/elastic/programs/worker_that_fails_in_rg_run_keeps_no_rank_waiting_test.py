"""A worker whose rg_run has failed is no longer a member, although its
process goes on: the others finish the job without it.

Covers: door.c"""
import os

from house import BUILD, Job, claim, main

MISUSE = os.path.join(BUILD, "tests", "misuse")


def test():
    with Job(["--min", "2", "--max", "3"],
             [MISUSE, "fails_and_stays"]) as job:
        job.finish(seconds=30)
        text = job.text()
        claim(".1 has failed in rg_run" in text, text)
        claim(text.count("run RG_OK") == 2, text)


main(test)
