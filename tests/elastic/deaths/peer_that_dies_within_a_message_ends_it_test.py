"""A worker is killed when a part of a message has come or gone: its peers get
RG_ERR_PEER_LOST from their waits, and the job goes on in the next generation,
where every message is right.

Covers: message_request.c message_lanes.c tests/elastic/passer.c"""
import os

from house import BUILD, Job, claim, main

PASSER = os.path.join(BUILD, "tests", "passer")


def check(rank):
    env = {"REGROUP_FAILPOINT":
           f"message.middle:rank{rank}:gen1:step2:start1:kill"}
    with Job(["-n", "3"], [PASSER, "4"], env=env) as job:
        job.finish()
        text = job.text()
        claim("wrong" not in text, "a message was not what was sent")
        claim(text.count("RG_ERR_PEER_LOST") >= 2,
              "the peers were not told of the loss")
        claim(text.count("passed 4 steps in generation 2") == 3,
              "not all ranks passed all steps in generation 2")


def test():
    check(1)


main(test)
