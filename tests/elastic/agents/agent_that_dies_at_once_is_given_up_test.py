"""An agent that is killed whenever it starts: after some tries it is not
started again, its workers end by themselves, and `regroup run` says what
happened.

Covers: supervisor.c"""
import contextlib
import os
import signal

from house import Job, claim, main, program_of, trainer, until

# What looks for leaks at the end of `regroup run` is a child of it that has its
# name: it would be taken for one more agent, and killed.
NO_LEAKS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


def test():
    with Job(["--min", "1", "--max", "2", "--agent-grace", "1s"],
             trainer("--steps", 100000, "--step-ms", 5),
             env={"ASAN_OPTIONS": NO_LEAKS}) as job:
        job.wait_step(30)
        pids = [w["pid"] for w in job.workers().values()]

        def kill_agent():
            agent = job.agent()
            with contextlib.suppress(OSError):
                if agent is not None:
                    os.kill(agent, signal.SIGKILL)
            return "so did those started after it" in job.text()
        until(kill_agent, 20, "the last agent")
        job.finish(128 + 9)
        claim(not any(map(program_of, pids)), "a worker outlived the job")
        claim("agent-grace" in job.text(), "no line names the grace")
        job.check()


main(test)
