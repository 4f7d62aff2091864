"""A deadline that passes under an agent ends the generation for all: every
member gets RG_ERR_PEER_LOST, even one that waits on another set; the job's
cause names operation, set and the missing ranks; and the same workers go on in
the next generation, where the sets are right again. The same holds for the
default deadline of REGROUP_OP_TIMEOUT, if one worker does not make a set that
the others make (B30), after another operation, and inside one, whose stopped
member is replaced. A static job ends.

Covers: watchdog.c generation.c"""
import os

from house import BUILD, Job, claim, main

LATE = os.path.join(BUILD, "tests", "late")


def check_told(job, slots, words):
    """Each of these slots was told PEER_LOST, and the reason is published."""
    for slot in slots:
        claim(was_told(job, slot), f"slot {slot} was not told of a lost peer")
    check_reason(job, words)


def was_told(job, slot):
    return f"first slot {slot}: RG_ERR_PEER_LOST:" in job.text()


def check_reason(job, words):
    text = job.text()
    claim("another handle" not in text and "a wrong sum" not in text,
          "the sets are not what they were")
    broken = [e for e in text.splitlines() if "is broken" in e]
    claim(any(all(word in line for word in words) for line in broken),
          f"no reason with {words} is published: {broken}")


def check_same_go_on(mode, env, what="allreduce of 3 elements on set pair",
                     before="", missing=0):
    with Job(["-n", "3"], [LATE, mode], env=env) as job:
        job.finish()
        check_told(job, range(3), (
            "a deadline has passed", what,
            f"{before}, waiting for its rank {missing}"))
        claim("slot 0: RG_ERR_PEER_LOST: the generation has ended: a deadline "
              f"has passed: {what}" in job.text() or mode == "create",
              "the rank with the deadline does not get it as the cause")
        for slot in range(3):
            claim(f"right slot {slot} generation 2 size 3" in job.text(),
                  f"slot {slot} is not right in generation 2")
        claim("died" not in job.text(), "a worker died")


def check_inside():
    env = {"REGROUP_FAILPOINT": "coll.middle:rank1:gen1:stop"}
    with Job(["--min", "1", "--max", "3"], [LATE, "inside"], env=env,
             detect="3s") as job:
        job.finish(seconds=60)
        check_told(job, (0, 2), (
            "a deadline has passed", "allreduce of 1048576 elements on "
            "the world", "waiting for its rank"))
        claim("right slot 0" in job.text(), "no result is right afterwards")


def check_static():
    with Job(["-n", "3"], [LATE, "static"]) as job:
        job.finish(3, seconds=30)
        # The first of them to end ends the job, and perhaps the others.
        claim(any(was_told(job, slot) for slot in range(3)),
              "no slot was told of a lost peer")
        check_reason(job, ("a deadline has passed", "on set pair",
                           "waiting for its rank 0"))


def test():
    check_same_go_on("elastic", {})
    check_same_go_on("default", {"REGROUP_OP_TIMEOUT": "300ms"})
    check_same_go_on("behind", {}, "allreduce of 3 elements on set "
                     "a_pair_whose_name_has_31_bytes_",
                     ", after the set's barrier")
    check_same_go_on("create", {"REGROUP_OP_TIMEOUT": "300ms"},
                     "rg_set_create on the world", missing=1)
    check_inside()
    check_static()


main(test)
