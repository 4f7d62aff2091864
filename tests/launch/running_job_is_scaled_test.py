"""`regroup scale` changes the bounds of a running world. Fewer: the newest
workers leave at a commit, wait, and are the first to come back. More: the
launcher starts agents on further hosts of its list, and stops those that are
too many. Nothing is rolled back; impossible sizes get one sentence. The next
agent of a launcher goes by the new bounds.

Covers: scale_cmd.c scale_ask.c plan.c"""
import os
import signal

from house import UNTIL_FINISH, Job, claim, main, need_etcd, trainer, until
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def scale(job, *flags, code=0):
    done = job.run("scale", *flags, job.name)
    claim(done.returncode == code, (flags, done.returncode, done.stderr))
    return done.stdout + done.stderr


def lost(job):
    return [c["steps_lost"] for c in job.answer()["changes"]]


def refusals(job):
    claim("--min 9 would be above --max 2" in
          scale(job, "--min", "9", code=64), "min above max")
    claim("above the 16384 workers" in scale(job, "--max", "99999", code=64),
          "beyond any world")
    claim("no size was given" in scale(job, code=64), "no size")


def needs_slots():
    """No other host can join a job on this one alone."""
    with Job(["--min", "1", "--max", "2"], trainer(*TRAIN)) as job:
        job.wait_world(2)
        claim("--max 3 is above the 2 slots of the only host" in
              scale(job, "--max", "3", code=64), "more than its slots")
        job.finish()


def launcher_says(job, words):
    return sum("launcher" in line and words in line
               for line in job.text().splitlines())


def kill_launchers_agent(job):
    read = "the world has 1 to 4 workers"
    before, old = launcher_says(job, read), job.agent()
    sent_away = launcher_says(job, "is to leave")
    os.kill(old, signal.SIGKILL)
    until(lambda: launcher_says(job, read) > before, 20, "the next agent")
    claim(launcher_says(job, "is to leave") == sent_away, job.text())


def test():
    need_etcd()
    flags = ["-H", "h1:2,h2:2,h3:2", "--min", "1", "--max", "2"]
    with LaunchedJob(flags, trainer(*TRAIN)) as job:
        job.wait_world(2)
        claim(list(job.hosts()) == ["h1"], job.hosts())
        refusals(job)
        scale(job, "--max", "4")
        job.wait_world(4)
        claim("1 to 5 workers" in scale(job, "--max", "5"), "the answer")
        job.wait_world(5)
        claim([h["slots"] for h in job.hosts().values()] == [2, 2, 1],
              job.hosts())
        before = job.workers()
        claim("1 to 3" in scale(job, "--max", "3"), "the answer")
        job.wait_world(3)
        until(lambda: list(job.hosts()) == ["h1", "h2"], 20, "h3 has left")
        claim({r: w["pid"] for r, w in job.workers().items()} ==
              {r: before[r]["pid"] for r in range(3)}, "seniors stay")
        scale(job, "--max", "4")  # the worker that waits on h2
        job.wait_world(4)
        claim(job.workers()[3]["pid"] == before[3]["pid"],
              "the one that waited is the same process")
        claim(job.answer()["max"] == 4, "status shows it")
        kill_launchers_agent(job)
        scale(job, "-n", "3")  # no host has to leave
        job.wait_world(3)
        claim(set(lost(job)) == {0}, lost(job))
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()
    needs_slots()


main(test)
