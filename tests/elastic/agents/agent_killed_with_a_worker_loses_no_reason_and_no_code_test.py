"""A worker that dies while no agent lives: the next agent learns it from the
kernel and the supervisor, names the signal, and the world shrinks and grows as
if an agent had been there. And in the other order: the only worker dies, then
the agent, and the commit that the worker had made counts. A failure from which
an agent has drawn its conclusions counts once. What only the agent knew, a
passed deadline, ends the generation also if it had got no further than an offer,
or etcd was away.

Covers: supervisor.c takeover.c deathwatch.c generation.c"""
import os
import signal

from house import (BUILD, UNTIL_FINISH, Etcd, Job, claim, main, trainer,
                   until)

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def kept(job):
    """How many descriptors the supervisor holds."""
    return len(os.listdir(f"/proc/{job.process.pid}/fd"))


def commits_count():
    with Job(["-n", "1"], trainer(*TRAIN, "--commit-every", 50),
             env={"REGROUP_FAILPOINT": "door:start2:sleep1000"}) as job:
        job.wait_step(60)
        agent = job.agent()
        job.kill(0)
        until(lambda: "restart in 50 ms" in job.text(), 10, "the death is seen")
        os.kill(agent, signal.SIGKILL)
        job.wait_step(job.step() + 5)
        first = min(e["step"] for e in job.events("step")
                    if e["generation"] == 2)
        claim(first > 50, f"step {first} is done again")
        job.finish()


def failures_count_once():
    strikes = ("commit.before_agree:step10:start1:exit1,"
               "agent.reaped:start1:kill")
    with Job(["-n", "1", "--max-restarts", "1"], trainer("--steps", 20),
             env={"REGROUP_FAILPOINT": strikes}) as job:
        job.finish()
        claim("took over" in job.text(), "no agent was killed")
        claim("can't come in state" not in job.text(), "a slot went astray")


def kill_agent(job):
    agent = job.agent()
    os.kill(agent, signal.SIGKILL)
    until(lambda: job.agent() not in (None, agent), 10, "another agent")


def check_all_went_on(job):
    job.finish()
    claim("took over" in job.text(), "no agent was killed")
    for slot in range(3):
        claim(f"right slot {slot}" in job.text(),
              f"slot {slot} is in no later generation")


def deadlines_count():
    late = os.path.join(BUILD, "tests", "late")
    with Job(["-n", "3"], [late, "elastic"],
             env={"REGROUP_FAILPOINT": "agent.offered:gen2:start1:kill"}) as job:
        check_all_went_on(job)
    with Etcd() as etcd, \
            Job(["-n", "3", "--etcd", etcd.url], [late, "default"],
                env={"REGROUP_OP_TIMEOUT": "3s"}) as job:
        until(lambda: "kvs" in etcd.ask(
            "range", key="/regroup/v1/test/all/begun"), 20, "all are in fn")
        etcd.kill()
        until(lambda: "is broken: " in job.text(), 20, "the deadline")
        kill_agent(job)
        etcd.start()
        check_all_went_on(job)


def test():
    commits_count()
    deadlines_count()
    failures_count_once()
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN)) as job:
        job.wait_step(30)
        before = job.workers()
        lost = before[1]["pid"]
        held = kept(job)
        agent = job.agent()
        job.process.send_signal(signal.SIGSTOP)  # no agent comes
        os.kill(agent, signal.SIGKILL)
        os.kill(lost, signal.SIGKILL)
        job.process.send_signal(signal.SIGCONT)
        until(lambda: job.agent() not in (None, agent), 10, "another agent")
        job.wait_world(3, above=1)
        causes = [c["cause"] for c in job.answer()["changes"]]
        claim("died" in causes[1] or "signal 9" in causes[1],
              f"the cause of the change is lost: {causes}")
        claim(kept(job) == held, "the supervisor has kept what is over")
        job.finish()
        claim("was ended by signal 9" in job.text(),
              "no line says how the worker ended")
        job.survivors(before, lost=[lost])
        job.check(trained=TRAIN)


main(test)
