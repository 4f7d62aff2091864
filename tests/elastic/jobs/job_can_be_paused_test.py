"""Ctrl-Z: `regroup run` and its workers stop, also when their agent is killed
meanwhile; after `fg` they go on, and were not considered stuck.

Covers: run_cmd.c supervisor.c"""
import os
import signal
import time

from house import PATIENCE, UNTIL_FINISH, Job, claim, main, trainer, until

DETECT_S = 0.7 * PATIENCE
TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def states(pids):
    found = set()
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            found.add(stat.read().rsplit(")", 1)[1].split()[0])
    return found


def pause(job, pids):
    job.process.send_signal(signal.SIGTSTP)
    until(lambda: states([*pids, job.process.pid]) == {"T"}, 10,
          "everything stands still")


def test():
    with Job(["--min", "1", "--max", "2"], trainer(*TRAIN),
             detect=f"{DETECT_S * 1000:.0f}ms") as job:
        job.wait_step(30)
        pids = [w["pid"] for w in job.workers().values()]
        pause(job, pids)
        step = job.step()
        claim(job.answer()["phase"] == "paused", "status does not say so")
        time.sleep(3 * DETECT_S)  # several budgets are the fault
        claim(job.step() == step, "a step was made meanwhile")
        job.process.send_signal(signal.SIGCONT)
        job.wait_step(step + 20)

        pause(job, pids)
        agent = job.agent()
        os.kill(agent, signal.SIGKILL)
        job.process.send_signal(signal.SIGCONT)
        until(lambda: job.agent() not in (None, agent), 10, "another agent")
        job.finish()
        claim(job.generation() == 1, "the pause has ended a generation")
        job.check(trained=TRAIN)

    with Job(["--min", "1", "--max", "2"], trainer(*TRAIN)) as job:
        job.wait_step(30)
        pause(job, [w["pid"] for w in job.workers().values()])
        job.process.send_signal(signal.SIGTERM)  # as `kill %1` does
        job.process.send_signal(signal.SIGCONT)
        job.finish(128 + 15)


main(test)
