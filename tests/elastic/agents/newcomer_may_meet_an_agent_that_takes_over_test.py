"""An agent is killed while a process that it has started is connecting to it:
the newcomer reaches the next agent, and is ready before the older workers have
reported their positions to that. It has none to report, and no agent waits for
it.

Covers: takeover.c workers.c"""
import os
import signal

from house import (PATIENCE, UNTIL_FINISH, Job, claim, main, touch, trainer,
                   until)

# A slot's second process waits before it becomes the worker.
WRAPPER = """
if ! mkdir "first-$REGROUP_SLOT" 2>/dev/null; then
    mkdir second
    until [ -e go ]; do sleep 0.01; done
fi
exec "$@"
"""


def test():
    with Job(["--min", "1", "--max", "2"],
             ["sh", "-c", WRAPPER, "sh", *trainer(*UNTIL_FINISH, "--step-ms",
                                                  2)],
             env={"REGROUP_LOG": "info,agent=debug"},
             detect=f"{10 * PATIENCE}s") as job:
        job.wait_step(10)
        older = job.pid(0)
        job.kill(1)
        job.wait_world(1, above=1)
        until(lambda: os.path.isdir(os.path.join(job.folder, "second")), 20,
              "the newcomer's process")
        before = job.agent()
        os.kill(older, signal.SIGSTOP)
        os.kill(before, signal.SIGKILL)
        until(lambda: "took over" in job.text(), 20, "the next agent")
        doors = job.text().count(".1 is at the door")
        touch(os.path.join(job.folder, "go"))
        until(lambda: job.text().count(".1 is at the door") > doors, 20,
              "the newcomer is at the door")
        os.kill(older, signal.SIGCONT)
        job.wait_world(2, above=2)
        claim(job.agent() != before, "the agent was not killed")
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
