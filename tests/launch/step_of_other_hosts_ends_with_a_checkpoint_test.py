"""`regroup stop` and SIGTERM at a launcher, which has no workers: the step that
is under way on the hosts ends first, and its commit is the last checkpoint.

Covers: end.c"""

from checkpoints import directory, names, steps
from house import UNTIL_FINISH, claim, main_all, need_etcd, trainer
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 100, "--commit-every", 100000)


def ends(end):
    need_etcd()
    with directory() as path, LaunchedJob(
            ["-H", "h1:1,h2:1", "--checkpoint-dir", path],
            trainer(*TRAIN)) as job:
        job.wait_world(2)
        job.wait_step(3)
        end(job)
        code = job.process.wait(30)
        claim(code == 143, f"code {code}, not 143")
        claim(steps(path) == [job.step()],
              f"{steps(path)} are there, step {job.step()} has ended")
        claim(not names(path, ".part"), "a .part file was left")
        job.await_none()


def test_stop():
    ends(lambda job: job.run("stop", job.name))


def test_sigterm():
    ends(lambda job: job.signal())


main_all(globals())
