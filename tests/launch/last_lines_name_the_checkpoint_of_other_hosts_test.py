"""A launcher writes no checkpoint itself, and its last lines name the one that
the hosts have written: of a job that is done, and of one that is stopped.

Covers: last.c"""

import re

from checkpoints import directory, steps
from house import UNTIL_FINISH, claim, main_all, need_etcd, trainer
from launching import LaunchedJob


def claim_named(job, path, code):
    claim(job.process.wait(30) == code, f"code {job.process.poll()}")
    found = re.findall(r"^regroup: checkpoint of step (\d+) in (.*)$",
                       job.text(), re.M)
    claim(found == [(str(steps(path)[-1]), path)],
          f"{steps(path)} are in {path}, said is {found}: {job.text()}")


def trains(command, end, code):
    need_etcd()
    with directory() as path, LaunchedJob(
            ["-H", "h1:1,h2:1", "--checkpoint-dir", path], command) as job:
        job.wait_world(2)
        job.wait_step(3)
        end(job)
        claim_named(job, path, code)


def test_done():
    trains(trainer(*UNTIL_FINISH, "--step-ms", 20), LaunchedJob.let_finish, 0)


def test_stopped():
    trains(trainer(*UNTIL_FINISH, "--step-ms", 20), LaunchedJob.signal, 143)


main_all(globals())
