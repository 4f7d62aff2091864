"""What reducers claim holds over TCP, with ranks on two hosts; and a loss on
the other host, in the middle of a step, ends it on all.

Covers: process_sets/reducer/reducer_steps.c compression.c adasum.c rows.c
tests/process_sets/reducing.c compressing.c adding.c
"""
import os

from hosts import Hosts, HostsJob
from house import BUILD, claim, main

SLOTS = {"h1": ["--slots", "2"], "h2": ["--slots", "1"]}


def run(hosts, nth, program, env=None):
    with HostsJob(hosts, ["--min", "3", "--max", "3"], SLOTS,
                  [os.path.join(BUILD, "tests", program[0]), *program[1:]],
                  job=f"job{nth}", env=env) as job:
        job.finish()
        return job.text()


def test():
    programs = ["reducing", "claims"], ["compressing"], ["adding"]
    kill = {"REGROUP_FAILPOINT": "coll.middle:rank2:gen1:step3:start1:kill"}
    with Hosts(2) as hosts:
        for nth, program in enumerate(programs):
            run(hosts, nth, program)
        text = run(hosts, 3, ["reducing", "train", "6"], kill)
        claim(text.count("RG_ERR_PEER_LOST after 3 steps in generation 1")
              == 2, "the survivors were not told of the loss")
        claim(text.count("RG_OK after 6 steps in generation 2") == 3,
              "not all ranks made all steps")


main(test)
