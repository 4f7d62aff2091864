"""SIGKILL of the agent: its workers go on for --agent-grace and end then, and
`regroup run` says what happened."""
import os
import signal
import time

from house import Job, claim, main, trainer, until


def agent_of(job):
    """The child of `regroup run` that is not etcd."""
    parent = job.process.pid
    with open(f"/proc/{parent}/task/{parent}/children",
              encoding="ascii") as children:
        for pid in map(int, children.read().split()):
            with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                if comm.read().strip() == "regroup":
                    return pid
    return None


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test():
    with Job(["--min", "1", "--max", "2", "--agent-grace", "2s"],
             trainer("--steps", 100000, "--step-ms", 5)) as job:
        job.wait_step(30)
        pids = [w["pid"] for w in job.workers().values()]
        agent = until(lambda: agent_of(job), 5, "the agent's pid")
        killed = time.monotonic()
        os.kill(agent, signal.SIGKILL)
        until(lambda: not any(map(is_there, pids)), 20,
              "the workers have ended")
        lived = time.monotonic() - killed
        claim(lived > 1.5, f"the workers lived only {lived} s of their grace")
        job.finish(128 + 9)
        claim("agent" in job.text(), "nobody named the agent")
        job.check()


main(test)
