"""A host that can't be reached is said in one sentence, and joins when it can.
One that gives no answer makes place for a host that waits. A job that can't
begin for lack of such hosts says so within seconds, and ends with 75. What
can't be helped is given up: the job goes on without it, or ends with that code
when the rest is less than --min. With an etcd of its own a job outlives its
launcher; a second job of that name is refused.

Covers: host_launcher.c"""
import contextlib
import os
import re
import signal
import time

from house import (REGROUP, UNTIL_FINISH, Etcd, claim, main, need_etcd,
                   trainer, until)
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
SIZES = ["--min", "1", "--start-timeout", "500ms"]


def down_at_first():
    job = LaunchedJob(["-H", "h1:1,h2:1", *SIZES], trainer(*TRAIN))
    job.write("down-h2")
    with job:
        job.wait_world(1)
        said = re.findall(r"regroup: (host h2 .*)", job.text())
        claim(len(said) == 1 and "No route to host; it is" in said[0] and
              "it is tried again in 1 s" in said[0], said)
        os.unlink(job.path("down-h2"))
        job.wait_world(2)
        job.finish()
        job.check(trained=TRAIN)


def never_an_answer():
    """At the end nothing waits for it."""
    job = LaunchedJob(["-H", "h1:1,h2:1", *SIZES], trainer(*TRAIN))
    job.write("hang-h2")
    with job:
        job.wait_world(1)
        began = time.monotonic()
        job.signal()
        claim(job.process.wait(40) == 143, job.text())
        took = time.monotonic() - began
        claim(took < 8, f"the end took {took:.1f} s")


@contextlib.contextmanager
def no_host_answers():
    """Beside the others, as it takes 10 s: --rsh fails for one host, and says
    nothing at all about the other."""
    job = LaunchedJob(["-H", "h1:1,h2:1", "--start-timeout", "1s"],
                      trainer(*TRAIN))
    job.write("down-h1")
    job.write("hang-h2")
    with job:
        began = time.monotonic()
        yield
        claim(job.process.wait(30) == 75, job.text())
        text = job.text()
        claim(time.monotonic() - began > 9, "it was given up too soon")
        claim(re.search(r"host h2 has not answered within 5 s; waiting for "
                        r"--rsh \(.*rsh\)", text), text)
        claim("fewer slots than the job needs (2)" in text, text)
        claim(re.search(r"host h1 \(ssh: .*No route to host\)( and 1 more)? can't "
                        r"be reached, .*rsh h1 true` works.*--start-timeout",
                        text), text)


@contextlib.contextmanager
def another_takes_its_place():
    """Likewise: --rsh says nothing about the second host, and a third waits."""
    job = LaunchedJob(["-H", "h1:1,h2:1,h3:1", "-n", "2", "--start-timeout",
                       "1s"], trainer(*TRAIN))
    job.write("hang-h2")
    with job:
        yield
        job.wait_world(2)
        claim("host h2 can't be reached: no answer within 10 s, and others "
              "are there; it is tried again in 1 s" in job.text(), job.text())
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()


def nothing_to_run():
    with LaunchedJob(["-H", "h1:1,h2:1", "--min", "1", "--remote-path",
                      "/nowhere/regroup"], trainer(*TRAIN)) as job:
        job.finish(127, seconds=20)
        claim(len(re.findall(r"host h[12] is given up: /nowhere/regroup "
                             r"can't be run there .*--remote-path",
                             job.text())) == 2, job.text())
    with LaunchedJob(["-H", "h1:1", "--min", "1"], ["./missing"]) as job:
        job.finish(64, seconds=20)
        claim("h1 | regroup: there is no program ./missing" in job.text(),
              job.text())


def without_the_launcher():
    with Etcd() as etcd:
        flags = ["-H", "h1:1,h2:1", "--etcd", etcd.url, *SIZES]
        with LaunchedJob(flags, trainer(*TRAIN)) as job:
            job.wait_world(2)
            twice = job.run("run", "--job", job.name, "--etcd", etcd.url, "-n",
                            "1", "--", REGROUP, "--version")
            claim(twice.returncode == 64 and "runs here already" in
                  twice.stderr, twice.stderr)
            other = job.env["REGROUP_RUN_DIR"]
            job.env["REGROUP_RUN_DIR"] = job.path("elsewhere")
            twice = job.run("run", "--job", job.name, "--etcd", etcd.url, "-n",
                            "1", "--", REGROUP, "--version")
            claim(twice.returncode == 69 and "runs already" in twice.stderr,
                  twice.stderr)
            job.env["REGROUP_RUN_DIR"] = other
            changes = job.answer()["changes_total"]
            before, step = job.workers(), job.step()
            os.kill(job.process.pid, signal.SIGKILL)
            job.process.wait()
            until(lambda: job.step() > step + 100, 20, "it trains on")
            until(lambda: {w["pid"] for w in job.workers().values()} ==
                  {w["pid"] for w in before.values()}, 20,
                  "the workers are the same")
            claim(job.answer()["changes_total"] == changes,
                  "the world is not the one before")
            stopped = job.run("stop", job.name)
            claim(stopped.returncode == 0, stopped.stderr)
            job.await_none()


def test():
    need_etcd()
    with no_host_answers(), another_takes_its_place():
        down_at_first()
        never_an_answer()
        nothing_to_run()
        without_the_launcher()


main(test)
