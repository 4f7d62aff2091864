"""A worker that registers one buffer more than the others of its host, or the
same ones in another order, is refused with 78, and the buffer is named: when
the job forms, and also when the worker comes after commits have been made.

Covers: register.c job_spec.c"""
import os

from house import BUILD, Job, claim, main_all

MISUSE = os.path.join(BUILD, "tests", "misuse")


def refused(mode, words, env=None):
    with Job(["-n", "2"], [MISUSE, mode], env=env) as job:
        job.finish(78)
        for word in words:
            claim(word in job.text(), f"{mode}: no word of {word!r}")
        return job.step()


def test_when_the_job_forms():
    step = refused("uneven", ["buffer extra is registered by slot 1 and not "
                              "by slot 0"])
    claim(step == 0, f"{step} steps were made all the same")


def test_when_there_are_commits():
    step = refused(
        "uneven_later", ["buffer extra is registered by slot 1 and not by "
                         "slot "],
        env={"REGROUP_FAILPOINT":
             "commit.after_agree:rank1:step9:gen1:start1:kill"})
    claim(step in (8, 9), f"{step} steps were made, not those before the death")


def test_in_another_order():
    refused("other_order", ["or in another order"])


main_all(globals())
