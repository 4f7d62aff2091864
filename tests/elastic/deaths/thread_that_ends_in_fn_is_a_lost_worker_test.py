"""A thread that ends inside fn without a return, by pthread_exit or a
cancellation, counts as the loss of its worker, not as a program that computes
for long: the slot starts again, and the job finishes. Without an agent the
process ends.

Covers: thread.c deathwatch.c"""
import os
import subprocess

from house import BUILD, Job, claim, main_all

MISUSE = os.path.join(BUILD, "tests", "misuse")


def finishes_after(mode):
    with Job(["-n", "3"], [MISUSE, mode]) as job:
        job.finish(seconds=30)
        text = job.text()
        claim(".1 left fn without returning" in text, text)
        claim(text.count("run RG_OK") == 3, text)


def test_pthread_exit():
    finishes_after("thread_exits")


def test_pthread_cancel():
    finishes_after("thread_is_cancelled")


def test_alone():
    done = subprocess.run([MISUSE, "thread_exits_alone"], timeout=20,
                          check=False)
    claim(done.returncode == 0, f"ended with {done.returncode}")


main_all(globals())
