"""What looks at stacks stops a worker for longer than the deadlines of the next
generation are: that begins when the worker goes on, passes no deadline, and
causes no dump of its own.

Covers: host_part.c generation.c"""
import glob
import os
import tempfile

from house import Job, claim, fault_free, main, trainer

TRAIN = ("--steps", 200, "--step-ms", 5)
# The first of them holds its worker.
TOOL = """#!/bin/sh
if mkdir "$0.holds" 2>/dev/null; then
    sleep 1.5 # rank 1 is back in the meantime
    kill -STOP "$2"
    sleep 2
    kill -CONT "$2"
fi
echo "#0 looked"
"""


def make_tool(folder):
    path = os.path.join(folder, "eu-stack")
    with open(path, "w", encoding="ascii") as file:
        file.write(TOOL)
    os.chmod(path, 0o755)


def test():
    with tempfile.TemporaryDirectory(prefix="rg-tools-") as folder:
        make_tool(folder)
        env = {"REGROUP_OP_TIMEOUT": "1s",
               "REGROUP_FAILPOINT": "coll.start:rank1:gen1:step3:sleep2000",
               "PATH": f"{folder}:{os.environ['PATH']}"}
        with Job(["-n", "3"], trainer(*TRAIN), env=env) as job:
            job.finish()
            dumps = glob.glob(os.path.join(job.folder, "run", "dump-*"))
            claim(len(dumps) == 1, f"one deadline has passed, not {dumps}")
            with open(dumps[0], encoding="utf-8") as file:
                claim(file.read().count("#0 looked") == 3, "no stacks")
            claim(os.path.isdir(os.path.join(folder, "eu-stack.holds")) and
                  "generation 2: " in job.text() and
                  "generation 3: " not in job.text(), "the generations")
            job.check(fault_free(*TRAIN))


main(test)
