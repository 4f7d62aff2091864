"""The agent is killed while its writer holds a whole file: the writer removes it
and ends, the next agent writes what was asked for, and the next ones.

Covers: writer.c takeover.c"""
import os
import signal

from checkpoints import (directory, names, steps, stop_writer_of,
                         stopped_writer)
from house import UNTIL_FINISH, Job, claim, main, trainer, until

FLAGS = ("--commit-every", "20", "--save-every", "20")


def test():
    with directory() as path, \
            Job(["-n", "2", "--checkpoint-dir", path],
                trainer(*UNTIL_FINISH, *FLAGS, "--step-ms", "20"),
                env=stop_writer_of(40, 60)) as job:
        writer = stopped_writer(job)
        claim(steps(path) == [20] and steps(path, ".part") == [40],
              f"{os.listdir(path)} is there")
        pid = job.agent()
        os.kill(pid, signal.SIGKILL)
        os.kill(writer, signal.SIGCONT)
        until(lambda: not os.path.exists(f"/proc/{writer}"), 20,
              "the writer ends")
        until(lambda: job.agent() not in (None, pid), 10, "another agent")
        until(lambda: steps(path)[-1] >= 40, 30, "what was asked for")
        job.finish()
        last = int(job.final_state()[0]) // 20 * 20
        claim(steps(path)[-1] == last and not names(path, ".part"),
              f"{os.listdir(path)} are there at the end")
        claim(job.generation() == 1, "a generation ended with the agent")
        job.check(trained=FLAGS)


main(test)
