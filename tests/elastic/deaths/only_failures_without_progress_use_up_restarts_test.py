"""--max-restarts counts failures of the program between two commits: kills
from outside don't count, and a worker that dies after new commits has all of
them again. One that dies at the same step again and again still ends the job,
and so does one that the kernel kills for lack of memory.

Covers: slots.c"""

import os
import signal

from house import (DETECT, UNTIL_FINISH, Job, claim, main_all, trainer)

FLAGS = ["--min", "1", "--max", "2", "--max-restarts", "1"]
GROUPS = "/sys/fs/cgroup/memory"


def struck_often(signum, said):
    with Job(FLAGS, trainer(*UNTIL_FINISH, "--step-ms", "3")) as job:
        for _ in range(4):
            job.wait_world(2)
            job.wait_step(job.step() + 5)
            generation = job.generation()
            job.kill(1, signum)
            job.wait_world(2, above=generation + 1)
        job.finish()
        claim(job.text().count(said) == 4, job.text())
        job.check()


def test_kills_from_outside_are_no_failures():
    struck_often(signal.SIGKILL, "no failure of its own")


def test_a_failure_after_new_commits_is_the_first():
    struck_often(signal.SIGABRT, "restart 1 of 1 in")


def test_failures_at_one_step_end_the_job():
    with Job(["-n", "2", "--max-restarts", "2"],
             trainer("--steps", "100", "--commit-every", "5"),
             env={"REGROUP_FAILPOINT": "step_end:rank1:step18:exit1"}) as job:
        job.finish(code=1)
        claim("used up its --max-restarts at step 15" in job.text(),
              job.text())
        claim("restart 2 of 2" in job.text(), job.text())


def group_of(name, mib):
    """A control group with so little memory; None where none can be made."""
    path = os.path.join(GROUPS, name)
    try:
        os.mkdir(path)
        with open(os.path.join(path, "memory.limit_in_bytes"), "w",
                  encoding="ascii") as limit:
            limit.write(str(mib << 20))
    except OSError:
        return None
    return path


def test_want_of_memory_is_a_failure():
    group = group_of(f"regroup-test-{os.getpid()}", 64)
    if group is None:
        print("skipped: no control group can be made here")
        return
    script = f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"'
    try:
        with Job(["-n", "1", "--max-restarts", "1"],
                 ["sh", "-c", script,
                  *trainer("--steps", "9", "--ballast", "200")],
                 detect=DETECT) as job:
            job.finish(code=137)
            claim("control group has no memory left" in job.text() and
                  "used up its --max-restarts" in job.text(), job.text())
    finally:
        os.rmdir(group)


main_all(globals())
