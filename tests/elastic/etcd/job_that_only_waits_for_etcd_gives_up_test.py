"""While etcd is away a world trains on forever. One that is finished or broken
waits for etcd alone, and so does one whose first commit is not on record: log
and status say so, and after --etcd-timeout the host leaves, with 69 or 75 and
a sentence. The clock begins again when etcd is back. A private etcd that has
lost its data never comes back. A finished job no longer waits for etcd: its
program's work after rg_run is not cut off.

Covers: outage.c"""
import os
import shutil
import signal
import time

from house import (BUILD, UNTIL_FINISH, Etcd, Job, claim, main, touch,
                   trainer, until)
from house import child_of

TIMEOUT_S = 1
TRAIN = trainer(*UNTIL_FINISH, "--step-ms", 5)


def job_on(etcd, *flags, timeout=f"{TIMEOUT_S}s", env=None, command=None):
    return Job(["-n", "2", "--etcd", etcd.url, "--etcd-timeout", timeout,
                *flags], command or TRAIN, detect="500ms", env=env)


def waits(job):
    return [w for w in (job.status() or {}).get("waiting", [])
            if w["kind"] == "outage"]


def finished():
    with Etcd() as etcd, job_on(etcd) as job:
        job.wait_step(20)
        etcd.kill()
        time.sleep(1.5 * TIMEOUT_S)  # the outage is the fault
        job.wait_step(job.step() + 50)
        job.let_finish()
        until(lambda: "etcd, to record that all workers here have finished"
              in job.text(), 20, "the wait is said")
        claim(waits(job), "status shows no such wait")
        job.finish(69)
        claim("have finished job test, but etcd has been away for longer than "
              "--etcd-timeout (1 s)" in job.text(), "no sentence")


def done_before():
    stays = [os.path.join(BUILD, "tests", "lifecycle"), "stays",
             UNTIL_FINISH[1]]
    with Etcd() as etcd, job_on(etcd, command=stays) as job:
        until(lambda: "the job is done" in job.text(), 20, "the job is done")
        etcd.kill()
        until(lambda: "etcd does not answer" in job.text(), 20, "the outage")
        time.sleep(2 * TIMEOUT_S)  # the outage is the fault
        claim(len(job.workers()) == 2, "the workers were ended")
        job.finish()
        claim(job.text().count("stayed RG_OK") == 2, job.text())


def broken():
    with Etcd() as etcd, job_on(etcd) as job:
        job.wait_step(20)
        etcd.kill()
        until(lambda: "etcd does not answer" in job.text(), 20, "the outage")
        job.kill(1)
        job.finish(75)
        claim("has no world that trains, and etcd has been away" in
              job.text(), "no sentence")
        claim("with --replace-job if all its hosts have left" in job.text(),
              "no remedy")


def before_the_first_step():
    point = {"REGROUP_FAILPOINT": "commit.before_agree:rank0:step0:sleep1000"}
    with Etcd() as etcd, job_on(etcd, env=point) as job:
        until(lambda: "strikes rank 0" in job.text(), 20, "the first commit")
        etcd.kill()
        job.finish(75)
        claim("has no world that trains" in job.text(), "no sentence")


def before_rg_run():
    """Rank 0 fetches, and the others wait for it: there is something to do."""
    waiter = [os.path.join(BUILD, "tests", "waiter"), "gate=gate"]
    with Etcd() as etcd, job_on(etcd, command=waiter) as job:
        until(lambda: "fetches" in job.text(), 20, "the first world")
        etcd.kill()
        until(lambda: "etcd does not answer" in job.text(), 20, "the outage")
        time.sleep(2 * TIMEOUT_S)  # the outage is the fault
        claim(not waits(job), "workers before rg_run pass for idle")
        etcd.start()
        touch(os.path.join(job.folder, "gate"))
        job.finish()


def back_in_time():
    with Etcd() as etcd, job_on(etcd, timeout="30s") as job:
        job.wait_step(20)
        etcd.kill()
        job.let_finish()
        until(lambda: waits(job), 20, "the wait is shown")
        etcd.start()
        job.finish()
        job.check()


def private():
    with Job(["-n", "2", "--etcd-timeout", f"{TIMEOUT_S}s"], TRAIN) as job:
        job.wait_step(20)
        etcd, agent = child_of(job.process.pid, "etcd"), job.agent()
        shutil.rmtree(os.path.join(job.folder, "run", "test", "etcd"))
        os.kill(etcd, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        until(lambda: job.agent() not in (None, agent), 10, "another agent")
        job.wait_step(job.step() + 20)
        job.let_finish()
        job.finish(69)
        claim("have finished job test, but etcd" in job.text(), "no sentence")


def test():
    finished()
    done_before()
    broken()
    before_the_first_step()
    before_rg_run()
    back_in_time()
    private()


main(test)
