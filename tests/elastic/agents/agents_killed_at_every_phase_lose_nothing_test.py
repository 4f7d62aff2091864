"""SIGKILL of the agent by failpoint at each part of a change, and of an agent
together with a worker: the next one goes on where the dead one was, no committed
step is lost, the final state is the fault-free run's.

Covers: takeover.c supervisor.c fdstore.c"""
import sys

from house import Job, claim, fault_free, main, trainer

TRAIN = ("--steps", 60, "--step-ms", 2, "--bytes", 300000)
WORKER = "step_end:rank3:step9:start1:kill"  # generation 2 follows
FORMING = [
    "agent.start:rank0:start1:kill",  # slot 0 has a process that waits for it
    "agent.propose:gen1:start1:kill",
    "agent.prepare:gen1:start1:kill",
    "agent.told:rank0:gen1:start1:kill",  # some members have their PREPARE
    "agent.told:rank3:gen1:start1:kill",  # all of them
    "agent.ack:gen1:start1:kill",
    "agent.decide:gen1:start1:kill",
    "agent.deliver:gen1:start1:kill",
    "agent.passed:rank1:gen1:start1:kill",  # some members have the decision
    "agent.fin:start1:kill",
    "agent.done:start1:kill",
    "agent.finish:start1:kill",
]
CHANGES = [
    f"{WORKER},agent.{point}:start1:kill" for point in (
        "detect:gen1", "propose:gen2", "offered:gen2", "prepare:gen2",
        "told:rank1:gen2",
        "told:rank2:gen2", "ack:gen2", "decide:gen2", "deliver:gen2",
        "passed:rank0:gen2")] + [
    # a worker and its agent, in the same moment
    "commit.copy:rank2:step10:gen1:start1:kill,agent.detect:start1:kill",
    # an agent, and the one that takes over from it
    f"{WORKER},agent.detect:gen1:start1:kill,agent.prepare:gen2:start2:kill",
    f"{WORKER},agent.told:rank1:gen2:start1:kill,"
    "agent.propose:gen3:start2:kill",
]


def test():
    for point in {"forming": FORMING, "changes": CHANGES}[sys.argv[1]]:
        run(point)


def run(point):
    print(point, flush=True)
    with Job(["--min", "1", "--max", "4", "--start-timeout", "20s"],
             trainer(*TRAIN, "--commit-every", 5),
             env={"REGROUP_FAILPOINT": point}) as job:
        job.finish()
        claim(job.text().count(" agent.") == point.count("agent."),
              f"{point} did not strike")
        kills = point.count("kill") - point.count("agent.")
        claim(len({e["pid"] for e in job.events()}) <= 4 + kills,
              "a worker died with an agent")
        job.check(fault_free(*TRAIN))


main(test)
