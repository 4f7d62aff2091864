"""An agent that is killed whenever it starts: after some tries nobody starts it
again, its workers end by themselves, and `regroup run` says what happened."""
import contextlib
import os
import signal

from house import Job, claim, main, program_of, trainer, until


def test():
    with Job(["--min", "1", "--max", "2", "--agent-grace", "1s"],
             trainer("--steps", 100000, "--step-ms", 5)) as job:
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
        claim("agent-grace" in job.text(), "nobody named the grace")
        job.check()


main(test)
