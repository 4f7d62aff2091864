"""rg_run tells a worker that it is asked to leave by a status of its own;
no signal interrupts what the program then does, and it ends with 0.

Covers: slots.c"""
import os

from hosts import Hosts, HostsJob
from house import BUILD, Job, claim, main_all, until

LIFECYCLE = os.path.join(BUILD, "tests", "lifecycle")


def program(how):
    """Its exit code is printed by a shell, which gets no signal either."""
    return ["sh", "-c", f"{LIFECYCLE} leave {how}; echo ended with $?"]


def check(text):
    for word in ("run RG_ERR_ASKED_TO_LEAVE", "cleaned up RG_OK",
                 "ended with 0"):
        claim(word in text, f"no {word!r}")


def test_stop():
    """A worker that does not return from fn is ended by SIGTERM meanwhile."""
    with Job(["-n", "2"], program("computes")) as job:
        job.wait_step(20)
        claim(job.run("stop", job.name).returncode == 0, "it is not stopped")
        job.finish(143)
        check(job.text())
        claim(job.text().count("cleaned up") == 1,
              "a worker that computes in fn is not ended")


def test_drain():
    with Hosts(2) as hosts:
        with HostsJob(hosts, ["--min", "1", "--max", "2"],
                      ["--slots", "1"],
                      program("")) as job:
            job.wait_world(2)
            job.drain("h2")
            until(lambda: job.agents["h2"].poll() is not None, 20, "h2 leaves")
            claim(job.agents["h2"].poll() == 0, "it left with a code")
            check(job.text("h2"))
            claim(job.run_on("h1", "stop", job.name).returncode == 0,
                  "it is not stopped")


main_all(globals())
