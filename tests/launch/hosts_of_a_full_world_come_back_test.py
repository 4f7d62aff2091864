"""All hosts of the list are needed, and the agent that leads is of the
launcher, which has no worker. One host dies as a machine does, with its agent
and its workers, and is started again: the job goes on. All of them die and are started
again: the job goes on from its checkpoint.

Covers: paths.c"""
import contextlib
import os
import re
import signal

from checkpoints import directory, shown
from house import (UNTIL_FINISH, agent_of, claim, main, need_etcd, trainer,
                   until)
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def is_agent_of(pid, host):
    """Of the supervisor too; False for a process that has ended."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith(
            f"/agent-{host}.lock") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def die(job, *names):
    """All of their processes at once: none sees another one end, and no
    stopped agent is woken up because its supervisor has ended."""
    workers = [w["pid"] for name in names
               for w in job.hosts()[name]["workers"]]
    agents = [pid for pid in job.supervisors()
              if any(is_agent_of(pid, name) for name in names)]
    claim(len(agents) == 2 * len(names), f"{agents} of {names}")
    agents.sort(key=lambda pid: agent_of(pid) in agents)  # supervisors last
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in workers + agents:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)


def test():
    need_etcd()
    with directory() as path:
        flags = ["-H", "h1:1,h2:1", "-n", "2", "--checkpoint-dir", path,
                 "--checkpoint-every", "10"]
        with LaunchedJob(flags, trainer(*TRAIN, "--load")) as job:
            job.wait_world(2)
            claim(job.answer()["leader"] == "launcher", "another host leads")
            die(job, "h2")
            job.wait_world(2, above=job.generation())
            claim("loaded step" not in job.text(), "a checkpoint was needed")
            until(lambda: shown(job, "step"), 30, "a checkpoint")
            before = job.generation()
            die(job, "h1", "h2")
            job.wait_world(2, above=before)
            first = min(e["step"] for e in job.events("step")
                        if e["generation"] > before)
            claim(set(re.findall(r"loaded step (\d+)", job.text())) ==
                  {str(first - 1)}, f"step {first} came first")
            job.finish()
            job.final_state()
            job.await_none()


main(test)
