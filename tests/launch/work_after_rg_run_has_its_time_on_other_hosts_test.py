"""What a program does behind rg_run takes as long as it takes, on a host of a
list as on this one: the launcher and the etcd of the job wait for it, an etcd
that is killed meanwhile comes back, and the exit code is the job's. A signal to
the launcher ends the wait. So it is for a host that was drained, and an etcd
that gives no answer delays the end for no more hosts than one. The launcher need not
have heard a host that is in the job.

Covers: host_launcher.c run_cmd.c goodbye.c"""
import os
import signal
import subprocess
import time

from hosts import Hosts
from house import (PATIENCE, REGROUP, UNTIL_FINISH, child_of, claim, main_all,
                   need_etcd, trainer, until)
from launching import LaunchedJob

AFTERWARDS = ('"$@"; if mkdir first 2>&-; then while [ ! -e go ]; do sleep 0.1; '
              'done; touch model; exit 3; fi; exit 0')
COMMAND = ["sh", "-c", AFTERWARDS, "sh",
           *trainer(*UNTIL_FINISH, "--step-ms", 5)]


STAYS = ('trap "" TERM; "$@"; touch after-$$; while [ ! -e go ]; do sleep 0.1; '
         'done')
STILL_WORKS = ["sh", "-c", STAYS, "sh",
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


def count_behind_rg_run(job):
    return sum(name.startswith("after-") for name in os.listdir(job.folder))


def test_what_a_host_says_may_come_late():
    need_etcd()
    job = job_behind_rg_run()
    for host in ("h1", "h2"):
        job.write("mute-" + host)
    with job:
        await_end_of_training(job)
        await_word(job)
        job.write("go")
        job.finish(3)
        claim(os.path.exists(job.path("model")), "no model was written")


def test_a_drained_host_has_its_time():
    need_etcd()
    with LaunchedJob(["-H", "h1:1,h2:1", "--min", "1"], STILL_WORKS) as job:
        job.wait_world(2)
        drain = subprocess.Popen([REGROUP, "drain", "h2", job.name,
                                  "--deadline", "60s"], env=job.env)
        job.wait_world(1)
        until(lambda: count_behind_rg_run(job) == 1, 20, "h2 has left")
        job.let_finish()
        until(lambda: count_behind_rg_run(job) == 2, 20, "rg_run returns")
        await_word(job)
        time.sleep(5)  # a host that is lost would have been given up
        claim("not waited for" not in job.text(), job.text())
        job.write("go")
        job.finish()
        job.await_none()
        drain.wait(20)


def test_hosts_are_looked_for_together():
    with Hosts(1, nets=False) as hosts:
        listed = ",".join(f"h{i + 1}:1" for i in range(6))
        with LaunchedJob(["-H", listed, "--etcd", hosts.urls],
                         STILL_WORKS) as job:
            job.wait_world(6)
            job.let_finish()
            until(lambda: count_behind_rg_run(job) == 6, 20, "rg_run returns")
            hosts.etcd[0].stop()
            time.sleep(1.5)  # a look has begun
            job.write("go")
            job.await_none()
            begin = time.monotonic()
            job.finish()
            took = time.monotonic() - begin
            hosts.etcd[0].go_on()
            claim(took < 4 * PATIENCE, f"the launcher ends {took:.1f} s later")


main_all(globals())
