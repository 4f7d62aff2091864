"""A program comes to the door by one thread while the Regroup thread of its
process has not begun: the agent watches that process like any other from then
on.

Covers: workers.c deathwatch.c"""
import os

from house import BUILD, Job, main, touch, until


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def test():
    with Job(["-n", "2"],
             [os.path.join(BUILD, "tests", "waiter"), "gate=gate"],
             env={"REGROUP_FAILPOINT": "ready:sleep300"}) as job:
        until(lambda: "fetches" in job.text(), 20, "the first world")
        until(lambda: threads(job.agent()) == 3, 20,
              "a thread of the agent for each worker beside its own")
        touch(os.path.join(job.folder, "gate"))
        job.finish()


main(test)
