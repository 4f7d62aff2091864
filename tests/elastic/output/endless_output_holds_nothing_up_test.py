"""A descendant of each worker prints without end: a death is noticed all the
same, and the job ends with its workers, also where the one that prints has left
their process group.

Covers: output.c slots.c"""
import subprocess

from house import UNTIL_FINISH, Job, main, trainer


def run(printer):
    words = " ".join(trainer(*UNTIL_FINISH, "--step-ms", 2))
    with Job(["--min", "1", "--max", "2"],
             ["sh", "-c", f"{printer} & exec {words}"],
             stdout=subprocess.DEVNULL) as job:
        job.wait_world(2)
        first = job.generation()
        job.kill(rank=1)
        job.wait_world(2, above=first)
        job.finish(seconds=20)


def test():
    for printer in ("yes", "setsid timeout 60 yes"):
        run(printer)


main(test)
