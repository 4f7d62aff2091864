"""Static programs and programs that know nothing of Regroup outlive their agent
as well, and end with the code that they would have ended with. So does a job
that is done when one of its programs has ended already.

Covers: supervisor.c slots.c end.c"""
import os
import signal

from house import BUILD, UNTIL_FINISH, Job, claim, main, touch, trainer, until


def kill_agent(job):
    agent = until(job.agent, 10, "an agent")
    os.kill(agent, signal.SIGKILL)
    until(lambda: job.agent() not in (None, agent), 10, "another agent")


def foreign(script, code):
    """It does that when the next agent is there."""
    wait = "echo begins; until [ -e go ]; do sleep 0.05; done; "
    with Job(["-n", "2"], ["bash", "-c", wait + script]) as job:
        until(lambda: job.text().count("begins") == 2, 10, "two programs")
        kill_agent(job)
        touch(os.path.join(job.folder, "go"))
        job.finish(code)
        claim(job.text().count("begins") == 2, "a program was started again")


def wrapped():
    """The worker is a grandchild; its parent is the supervisor's child."""
    with Job(["-n", "2"], ["bash", "-c", '"$@"; exit $?', "bash",
                           *trainer(*UNTIL_FINISH, "--step-ms", 5)]) as job:
        job.wait_step(20)
        before = job.workers()
        kill_agent(job)
        job.finish()
        job.survivors(before)


def ended_before():
    """The agent dies when one program has ended with 3, behind rg_run."""
    behind = ('trap "" TERM; "$@"; mkdir first 2>&- && exit 3; '
              'until [ -e go ]; do sleep 0.05; done; exit 0')
    with Job(["-n", "2"], ["bash", "-c", behind, "bash",
                           *trainer(*UNTIL_FINISH, "--step-ms", 5)]) as job:
        job.wait_step(20)
        job.let_finish()
        until(lambda: "exited with code 3 after the job was done" in job.text(),
              20, "one program ends")
        kill_agent(job)
        touch(os.path.join(job.folder, "go"))
        job.finish(3)


def test():
    ended_before()
    foreign("exit 0", 0)
    foreign("exit 7", 7)
    foreign("exit 192", 192)  # not signal 64, of a program that never began
    foreign("kill -9 $$", 137)
    wrapped()
    static(0)
    static(5)


def static(code):
    with Job(["-n", "2"], [os.path.join(BUILD, "tests", "sums"), "0",
                           str(code), UNTIL_FINISH[1]]) as job:
        until(lambda: job.text().count("begins") == 2, 10, "two programs")
        kill_agent(job)
        job.finish(code)
        # a code other than 0 ends the job at once
        claim(job.text().count("| ends") >= (2 if code == 0 else 1),
              "a program did not end")


main(test)
