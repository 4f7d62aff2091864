"""Ranks that start different operations on the device are told which one, and
in what it differs, whether they wait for each other there or have ended with a
wrong sum; nothing of it is committed, and no rank waits forever. Counts that
only two ranks know, as of gatherv, belong to it; operations that NCCL has
refused do not, however many there were. An operation that a rank has not
started, or started on host memory, is named, too, and ends by its deadline; so
do two sets that wait for each other in one stream. The same holds if the
device is opened after rg_world_wait, and the world itself has nothing to do
there.

Covers: process_sets/same.c nccl/started.c"""
import os

from device import DeviceJob
from house import BUILD, claim, main_all

TOLD = "told RG_ERR_MISMATCH: on the device, operation 4: "
CASES = [
    ("kind", "different operations on the world: operation allreduce on ranks "
             "0,2 but barrier on rank 1;"),
    ("count", "allreduce on the world: count 8 on ranks 0,2 but 7 on rank 1;"),
    ("type", "allreduce on the world: type i64 on ranks 0,2 but u64 on "
             "rank 1;"),
    ("op", "allreduce on the world: op sum on ranks 0,2 but max on rank 1;"),
    ("root", "broadcast on the world: root 0 on ranks 0,2 but 1 on rank 1;"),
    # the stand-in adds up in spite of it, as NCCL does
    ("tag", "allreduce on the world: tag 0 on ranks 0,2 but 7 on rank 1;"),
    ("group", "allreduce on the world: the tag, its counts, or what is grouped "
              "with it, of ranks 0,2 are not those of rank 1;"),
    ("gatherv", "gatherv on the world: rank 1 sends 3 elements to rank 0, "
                "which expects 2;"),
    ("scatterv", "scatterv on the world: rank 0 sends 2 elements to rank 1, "
                 "which expects 3;"),
    ("alltoallv", "alltoallv on the world: rank 1 sends 3 elements to rank 2, "
                  "which expects 2;"),
    ("set-count", "allreduce on set 1: count 8 on rank 0 but 7 on rank 1;")]
LATE = ["fewer", "memory", "cross"]
CROSSED = [f"stalled: allreduce of 8 elements on the device, set {name}, for"
           for name in ("world", "ends")]
MISSING = ("stalled: on the device, operation 4 on the world is the allreduce "
           "of rank 0, and rank 1 has not started it")


def test_a_device_that_is_opened_late():
    name, sentence = CASES[-1]
    with DeviceJob(["-n", "3"],
                   [os.path.join(BUILD, "tests", "differ"), "--late", name],
                   env={"REGROUP_STALL": "200ms"}) as job:
        job.finish()
        job.check_device()
        claim(TOLD + sentence in job.text(), "no rank got the error")


def test_what_was_refused_is_not_compared():
    name, sentence = CASES[1]
    with DeviceJob(["-n", "3"],
                   [os.path.join(BUILD, "tests", "differ"), "--refused", name,
                    "nothing"], "launch size=3 k=5 rc=5",
                   env={"REGROUP_STALL": "200ms"}) as job:
        job.finish()
        job.check_device()
        claim(TOLD + sentence in job.text(), "no rank got the error")
        claim(job.text().count("nothing: told RG_OK") == 3,
              "what is the same everywhere was not committed")


def test_each_kind():
    turns = [name for name, _ in CASES] + LATE
    with DeviceJob(["-n", "3"],
                   [os.path.join(BUILD, "tests", "differ"), *turns],
                   env={"REGROUP_STALL": "200ms"}) as job:
        job.finish()
        job.check_device()
        text = job.text()
        for name, sentence in CASES:
            sought = name.removeprefix("set-") + ": " + TOLD + sentence
            claim(sought in text, f"no rank got the error: {sought}")
        for name in LATE:
            claim(f"{name}: told RG_ERR_PEER_LOST" in text,
                  f"{name}: no deadline has ended it")
        claim(text.count(MISSING) >= 2, f"no line says: {MISSING}")
        crossed = text[text.index(f"generation {len(turns)}:"):]
        for sentence in CROSSED:
            claim(sentence in crossed, f"no line says: {sentence}")
        claim("told RG_OK" not in text, "what differs was committed")
        claim(job.generation() == len(turns) + 1, "a mistake cost more than "
              f"one generation, or none: {job.generation()}")


main_all(globals())
