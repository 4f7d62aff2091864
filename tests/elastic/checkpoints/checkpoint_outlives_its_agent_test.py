"""The agent is killed while the last checkpoint of a job is written, and its
workers have ended: the next agent writes it before the job ends.

Covers: saver.c last.c"""
import os
import signal

from checkpoints import directory, names, steps, stopped_writer
from house import Job, claim, fault_free, main, trainer, until

FLAGS = ("--steps", "60", "--save-every", "60")


def test():
    with directory() as path, \
            Job(["-n", "2", "--checkpoint-dir", path], trainer(*FLAGS),
                env={"REGROUP_FAILPOINT": "checkpoint.written:step60:start1:stop"}
                ) as job:
        writer = stopped_writer(job)
        until(lambda: "the job is done" in job.text(), 20, "the end of fn")
        pid = job.agent()
        os.kill(pid, signal.SIGKILL)
        os.kill(writer, signal.SIGCONT)
        job.finish()
        claim("from an agent that died" in job.text(), "no other agent came")
        claim(steps(path) == [60] and not names(path, ".part"),
              f"{os.listdir(path)} are there at the end")
        job.check(state=fault_free(*FLAGS))


main(test)
