"""Under --mpi=ulfm a rank that has come to its commit dies while the others are
still in a call of MPI, which then succeeds with a wrong result, before the death
is known to any agent: that step is not committed, and the others go on in place
from the one before.

Covers: in_place.c state.c state_resume.c
"""

import os
import re
import signal
import time

from house import UNTIL_FINISH, Job, claim, main, touch, until
from mpijob import IN_PLACE, MPI_ENV, launches, need_solver

LATE = 20
SAID = re.compile(r"process (\d+) (waits|commits) at step")


def state_of(pid):
    """Of its main thread; Z: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def sleeps(pid):
    """It waits for others, and not for a lock or memory, which takes no such
    time."""
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        if state_of(pid) != "S":
            return False
        time.sleep(0.01)
    return True


def test():
    need_solver()
    with Job(["--mpi=ulfm", "--min", "2", "--max", "3"],
             [IN_PLACE, UNTIL_FINISH[1], "--late", UNTIL_FINISH[1] + ".late"],
             env=MPI_ENV) as job:
        said = until(lambda: len(SAID.findall(job.text())) == 3 and
                     SAID.findall(job.text()), 30, "all have come there")
        last = int(next(pid for pid, what in said if what == "commits"))
        others = [int(pid) for pid, what in said if what == "waits"]
        until(lambda: sleeps(last), 20, "the last rank waits in its commit")
        agent = job.agent()
        os.kill(agent, signal.SIGSTOP)
        os.kill(last, signal.SIGKILL)
        until(lambda: state_of(last) == "Z", 10, "it is dead")
        touch(os.path.join(job.folder, "until.late"))
        until(lambda: all(map(sleeps, others)) or
              any(state_of(pid) == "Z" for pid in others), 20,
              "the others wait in their commit")
        os.kill(agent, signal.SIGCONT)
        job.wait_step(LATE + 5)
        job.finish()
        text = job.text()
        claim("a wrong sum is committed" not in text, text)
        claim([one[:2] for one in launches(job)] == [(1, 3), (1, 2)],
              f"{launches(job)}")
        claim(f"from step {LATE - 1} (0 rolled back)" in text, f"{launches(job)}")
        claim("steps lost: 0" in text, "a committed step was lost")


main(test)
