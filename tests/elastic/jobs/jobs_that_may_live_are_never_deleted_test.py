"""A second job of a name deletes no job that may be alive: a lapsed lease is
not a death. A job that was killed as a whole needs the operator's
confirmation, --replace-job; a job that has recorded its own end makes room by
itself.

Covers: open_job.c"""
import contextlib
import os
import signal

from house import (BUILD, UNTIL_FINISH, Etcd, Job, claim, main_all, trainer,
                   until)

FLAGS = (*UNTIL_FINISH, "--step-ms", "5")


def drop_leases(etcd):
    """As if their time were up."""
    for lease in etcd.post("lease/leases").get("leases", []):
        etcd.post("lease/revoke", ID=lease["ID"])


def start(etcd, command, *flags):
    return Job(["-n", "1", "--etcd", etcd.url, *flags], command)


def is_refused(etcd, command):
    with start(etcd, command) as second:
        second.finish(69)
        claim("has not ended" in second.text() and
              "--replace-job" in second.text() and
              "regroup gc" in second.text(), "the remedy is not named")


def kill_all(job):
    job.note_pids()
    supervisor = job.process.pid
    pids = [job.agent(), *job.pids, supervisor]  # it ends an agent, too
    os.kill(supervisor, signal.SIGSTOP)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    job.process.wait()


def test_a_job_whose_lease_has_lapsed_trains_on():
    with Etcd() as etcd, start(etcd, trainer(*FLAGS)) as job:
        job.wait_step(5)
        agent = job.agent()
        os.kill(agent, signal.SIGSTOP)
        drop_leases(etcd)
        is_refused(etcd, trainer("--steps", 5))
        step = job.step()
        until(lambda: job.step() > step, 20, "the job trains on")
        os.kill(agent, signal.SIGCONT)
        job.wait_step(job.step() + 5)
        job.finish()
        job.check(trained=FLAGS)


def test_a_killed_job_is_replaced_on_the_operators_word():
    with Etcd() as etcd, start(etcd, trainer(*FLAGS)) as job:
        job.wait_step(5)
        kill_all(job)
        drop_leases(etcd)
        is_refused(etcd, trainer("--steps", 5))
        for flags in (["--replace-job"], []):  # it ends, and makes room
            with start(etcd, trainer("--steps", 5), *flags) as second:
                second.finish()
                second.check(trained=("--steps", 5))


def test_a_static_job_makes_room_when_it_has_ended():
    with Etcd() as etcd:
        hello, sleeper = [BUILD + "/bin/hello"], ["sleep", "1000"]
        for command in (hello, hello, ["true"], hello):
            with start(etcd, command) as job:
                job.finish()
        with start(etcd, sleeper) as job:
            until(lambda: "host" in str(job.status()), 20, "it runs")
            kill_all(job)
            drop_leases(etcd)
            is_refused(etcd, hello)


main_all(globals())
