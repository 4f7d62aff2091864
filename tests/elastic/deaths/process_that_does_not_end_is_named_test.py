"""A worker that SIGKILL does not end, as one in uninterruptible sleep (a
frozen control group stands in for NFS and drivers): nothing goes on before it
has ended, and the log and the status name the process. Then the job goes on;
if it takes too long, the host leaves without the process.

Covers: slots.c fence.c"""
import os
import re
import signal

from freezer import FREEZER, frozen
from house import UNTIL_FINISH, Job, claim, main, skip, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 2)


def waiting(job, kind="fence"):
    return [wait for wait in (job.status() or {}).get("waiting", [])
            if wait["kind"] == kind]


def end_without_it():
    """The host gives in, and its end waits no longer either."""
    with Job(["--min", "1", "--max", "2", "--elastic-timeout", "1s",
              "--agent-grace", "1s"], trainer(*TRAIN)) as job:
        job.wait_world(2)
        pid = job.pid(1)
        with frozen(pid):
            os.kill(pid, signal.SIGKILL)
            job.finish(code=71)
            claim(re.search(rf"process {pid} of slot \d does not end: it is "
                            "left behind", job.text()),
                  "no process was left behind")


def test():
    if not os.access(os.path.join(FREEZER, "cgroup.procs"), os.W_OK):
        skip("needs root and a version 1 freezer at " + FREEZER)
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN)) as job:
        job.wait_world(3)
        job.wait_step(10)
        pid = job.pid(2)
        with frozen(pid):
            wait = until(lambda: waiting(job), 20, "a wait in the status")[0]
            claim(f"process {pid}" in wait["what"] and
                  "state D" in wait["what"], f"the wait is {wait}")
            claim(wait["seconds"] >= 1.5, f"too early: {wait}")
            claim(f"waits for {wait['what']}" in
                  job.run("status", job.name).stdout, "the tables lack it")
            missing = until(lambda: waiting(job, "ack"), 20,
                            "the leader's wait")[0]
            claim("ready for generation 2" in missing["what"],
                  f"the leader waits for {missing}")
            before = job.generation()
            claim(before == 1, f"generation {before} began meanwhile")
        claim(job.text().count(f"waits for process {pid}") == 1,
              "the warning is not there once")
        job.wait_world(3, above=before)
        claim(not waiting(job), "the wait is shown although it is over")
        job.finish()
        job.check(trained=TRAIN[:4])
    end_without_it()


main(test)
