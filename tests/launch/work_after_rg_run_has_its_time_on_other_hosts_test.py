"""What a program does behind rg_run takes as long as it takes, on a host of a
list as on this one: the launcher and the etcd of the job wait for it, an etcd
that is killed meanwhile comes back, and the exit code is the job's. A signal to
the launcher ends the wait.

Covers: host_launcher.c run_cmd.c"""
import os
import signal

from house import (UNTIL_FINISH, child_of, claim, main_all, need_etcd, trainer,
                   until)
from launching import LaunchedJob

AFTERWARDS = ('"$@"; if mkdir first 2>&-; then while [ ! -e go ]; do sleep 0.1; '
              'done; touch model; exit 3; fi; exit 0')
COMMAND = ["sh", "-c", AFTERWARDS, "sh",
           *trainer(*UNTIL_FINISH, "--step-ms", 5)]


def job_behind_rg_run():
    return LaunchedJob(["-H", "h1:1,h2:1"], COMMAND)


def await_end_of_training(job):
    job.wait_world(2)
    job.let_finish()
    until(lambda: os.path.exists(job.path("first")), 20, "rg_run returns")


def await_word(job):
    until(lambda: "waiting for what its program still does" in job.text(),
          20, "the launcher says what it waits for")


def test_the_launcher_waits():
    need_etcd()
    with job_behind_rg_run() as job, job_behind_rg_run() as ended:
        await_end_of_training(job)
        await_end_of_training(ended)
        await_word(job)
        await_word(ended)
        ended.signal()
        claim(ended.process.wait(20) == 143, ended.process.returncode)
        # a launcher that had not waited would be over by now, too
        etcd = child_of(job.process.pid, "etcd")
        claim(etcd, "the job's etcd is gone")
        os.kill(etcd, signal.SIGKILL)
        until(lambda: (child_of(job.process.pid, "etcd") or etcd) != etcd, 20,
              "the launcher starts its etcd again")
        job.write("go")
        job.finish(3)
        claim(os.path.exists(job.path("model")), "no model was written")
        claim("ended with code 3 after the job was done" in job.text(),
              job.text())
        job.await_none()
        ended.write("go")
        ended.await_none()


def test_a_failure_at_once_counts():
    need_etcd()
    with job_behind_rg_run() as job:
        job.write("go")
        await_end_of_training(job)
        job.finish(3)


main_all(globals())
