"""SIGKILL of the agent and of the supervisor that would replace it: the
workers go on for --agent-grace and then end by themselves.

Covers: connect.c thread.c"""
import os
import signal
import time

from house import Job, claim, main, program_of, trainer, until


def test():
    with Job(["--min", "1", "--max", "2", "--agent-grace", "2s"],
             trainer("--steps", 100000, "--step-ms", 5)) as job:
        job.wait_step(30)
        pids = [w["pid"] for w in job.workers().values()]
        agent = job.agent()
        job.process.send_signal(signal.SIGSTOP)  # both at once
        killed = time.monotonic()
        os.kill(agent, signal.SIGKILL)
        job.process.kill()
        step = job.step()
        until(lambda: not any(map(program_of, pids)), 20,
              "the workers have ended")
        lived = time.monotonic() - killed
        claim(lived > 1.5, f"the workers lived only {lived} s of their grace")
        claim(job.step() > step, "no step was made in the grace")
        job.process.wait()
        until(lambda: job.run("jobs", "--json").stdout.strip() == "[]", 20,
              "the job is not listed")
        job.check()


main(test)
