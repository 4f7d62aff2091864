"""rg_register moves the pages of a buffer, and nothing else changes: results of
every collective, what lies around the buffer, children of fork; what can't be
moved is refused with a sentence that says why. registers.c has the claims.

Covers: registered.c mapping.c zero_copy.c segments.c"""
import os
import subprocess

from house import BUILD, Job, claim, main_all

REGISTERS = os.path.join(BUILD, "tests", "registers")


def test_under_an_agent():
    with Job(["-n", "3", "--max-restarts", "0"], [REGISTERS, "moves"]) as job:
        job.finish()
        claim(job.text().count("all of it is right") == 3, job.text())


def test_alone():
    done = subprocess.run([REGISTERS, "stays"], capture_output=True, text=True,
                          timeout=60, check=False)
    claim(done.returncode == 0, done.stderr)


main_all(globals())
