"""The table of faults: what fails where, and when.

A cell is (fault, phase, target). A phase is a place in the code, reached by a
failpoint at which the target stops itself: then the runner lets the fault
happen and the process goes on. So every fault hits its phase exactly.
"""

import typing


class Phase(typing.NamedTuple):
    point: str  # failpoint
    marks: str  # what stops there: worker, rank, newcomer (a rank of the host
    #             that joins), agent, leader, source or sink (agents)
    when: str  # the failpoint's condition; {step} is chosen by the seed
    after: str  # what has to happen first: "", death, join, drain or end
    meaning: str


PHASES = {
    # ------------------------------------------------ nothing else happens
    "door": Phase("door", "worker", "gen0", "",
                  "a worker is about to join the first generation"),
    "idle": Phase("idle", "rank", "gen1:step{step}", "",
                  "between two steps, in the user's code"),
    "allreduce": Phase("coll.start", "rank", "gen1:step{step}", "",
                       "others wait in the collective that it starts"),
    "copy": Phase("commit.copy", "rank", "gen1:step{step}", "",
                  "its slice of a commit is half written"),
    "before agree": Phase("commit.before_agree", "rank", "gen1:step{step}", "",
                          "its slice is complete, no rank knows"),
    "after agree": Phase("commit.after_agree", "rank", "gen1:step{step}", "",
                         "all have entered; it has said nothing of it"),
    "set create": Phase("set.create", "rank", "gen1", "",
                        "others wait for its part of a new set"),
    # ------------------------------- the last worker dies: a broken change
    "detect": Phase("agent.detect", "agent", "gen1", "death",
                    "its agent has seen the death, and no one else"),
    "reported": Phase("agent.reported", "agent", "gen1", "death",
                      "it has told the leader of the death, and not etcd"),
    "propose": Phase("agent.propose", "leader", "gen2", "death",
                     "before anything is said of the next generation"),
    "offered": Phase("agent.offered", "agent", "gen2", "death",
                     "it has taken up what is not on record"),
    "prepare": Phase("agent.prepare", "agent", "gen2", "death",
                     "it has read the proposal"),
    "build": Phase("build", "rank", "gen2", "death",
                   "others connect to it in the new generation"),
    "ack": Phase("agent.ack", "agent", "gen2", "death",
                 "its members have built and it is about to say so"),
    "decide": Phase("agent.decide", "leader", "gen2", "death",
                    "before the CAS that decides"),
    "expect": Phase("agent.expected", "agent", "gen2", "death",
                    "it has told a worker of a decision that is not on record"),
    "expected": Phase("expected", "rank", "gen2", "death",
                      "it is about to restore what is not decided yet"),
    "restored": Phase("restored", "rank", "gen2", "death",
                      "it has, and waits for the decision"),
    "deliver": Phase("agent.deliver", "agent", "gen2", "death",
                     "it has read the decision, its workers have not"),
    "decided": Phase("decided", "rank", "gen2", "death",
                     "it was told the decision"),
    "restore": Phase("sync", "rank", "gen2", "death",
                     "its memory is about to become the commit's"),
    # -------------------------------------- the last host comes: announced
    "join": Phase("agent.prepare", "agent", "gen2", "join",
                  "a newcomer is announced, members go on"),
    "source": Phase("transfer.source", "source", "gen2", "join",
                    "it has sent half of the commit to the newcomer's agent"),
    "sink": Phase("transfer.sink", "sink", "gen2", "join",
                  "it has half of the commit"),
    "begin": Phase("sync", "newcomer", "gen2", "join",
                   "the newcomer is about to take the commit up"),
    # ------------------------------------- the last host drains: announced
    "drain": Phase("agent.prepare", "agent", "gen2", "drain",
                   "a drain is announced, members go on"),
    "drained": Phase("build", "rank", "gen2", "drain",
                     "the members have left the drained host behind"),
    # ------------------------------------------------------------- the end
    "finish": Phase("finish", "rank", "gen1", "end",
                    "fn is about to return, its last step is committed"),
    "fin": Phase("fin", "rank", "gen1", "end",
                 "fn has returned here, its agent has not heard of it"),
    "done": Phase("agent.done", "leader", "gen1", "end",
                  "before the CAS that says done"),
    "farewell": Phase("agent.finish", "agent", "gen1", "end",
                      "it knows that the job is done, its workers do not"),
}


class Fault(typing.NamedTuple):
    loses: str  # what need not keep its process: "", worker, host or agent
    then: str  # the world to come: full, less (by the target's host) or same
    meaning: str


FAULTS = {
    "kill": Fault("worker", "full", "SIGKILL; its slot starts it again"),
    "crash": Fault("worker", "full", "SIGSEGV"),
    "stop": Fault("worker", "full", "SIGSTOP, for longer than the budget"),
    "pause": Fault("", "same", "SIGSTOP for a third of the budget"),
    "agent kill": Fault("", "same", "SIGKILL to the agent; its supervisor "
                        "starts the next"),
    "supervisor kill": Fault("host", "less", "SIGKILL to `regroup agent` "
                             "itself, which means the host"),
    "agent stop": Fault("host", "full", "SIGSTOP to the agent for twice the "
                        "budget"),
    "agent pause": Fault("", "same", "SIGSTOP to the agent for a third of the "
                         "budget"),
    "drain": Fault("host", "less", "SIGTERM to the agent"),
    "cut": Fault("host", "full", "the switch drops all that the host says or "
                 "hears; healed when it is out"),
    "unplug": Fault("host", "full", "the same, and its link is seen down"),
    "one-way cut": Fault("host", "full", "what it says to another host is "
                         "lost; healed when one is out"),
    "host": Fault("host", "full", "agent and workers are killed at once; the "
                  "host starts again under its name"),
    "power": Fault("host", "less", "cut off and killed in one moment, for "
                   "ever"),
    "reset": Fault("", "same", "its TCP connections to another host are "
                   "reset"),
    "etcd leader": Fault("", "same", "the leader of three members is killed "
                         "and started again"),
    "etcd cut": Fault("", "same", "the host loses etcd and nothing else, for "
                      "twice the budget"),
    "etcd away": Fault("", "same", "no member of etcd answers for twice the "
                       "budget"),
}


class Cell(typing.NamedTuple):
    fault: str
    phase: str
    target: str  # leader: rank 0 and h1, which leads; follower: of h3
    second_ms: int = -1  # so long after the first, another worker is killed
    is_smoke: bool = False
    has_tls: bool = False  # etcd's connections are encrypted

    @property
    def name(self):
        if self.has_tls:
            return "tls/" + self._replace(has_tls=False).name
        then = f" +{self.second_ms}ms" if self.second_ms >= 0 else ""
        words = f"{self.fault}{then} @ {self.phase} @ {self.target}"
        return words.replace(" ", "-").replace("-@-", "/")


# Rows: fault; phases; phases that belong to the smoke set; targets.
WORKER = ("idle", "allreduce", "copy", "before agree", "after agree",
          "set create", "build", "expected", "restored", "decided", "restore",
          "begin", "drained", "finish", "fin", "door")
AGENT = ("detect", "reported", "propose", "offered", "prepare", "ack", "decide",
         "expect", "deliver", "join", "source", "sink", "drain", "done", "farewell")
HOST = ("door", "idle", "allreduce", "before agree", "after agree", "copy",
        "set create", "detect", "reported", "propose", "build", "decide",
        "expect", "source", "sink", "begin", "drain", "finish", "done")
CHANGE = ("detect", "propose", "decide", "source", "sink", "drain", "done")

ROWS = (
    ("kill", WORKER, ("allreduce", "copy", "before agree", "after agree",
                      "set create", "restore", "begin", "door"), "follower"),
    ("kill", WORKER + AGENT, ("idle", "build", "source", "fin", "propose",
                              "decide"), "leader"),
    ("crash", WORKER, ("idle", "finish"), "follower"),
    ("crash", CHANGE, (), "leader"),
    ("stop", WORKER, ("allreduce", "build"), "follower"),
    ("stop", CHANGE, ("propose",), "leader"),
    ("pause", WORKER, ("before agree", "decided"), "follower"),
    ("pause", CHANGE, (), "leader"),
    ("agent kill", ("idle", *AGENT), ("idle", "reported", "ack"), "follower"),
    ("agent kill", ("idle", *AGENT), ("propose", "expect", "done"), "leader"),
    ("supervisor kill", ("idle", "build", "done"), ("idle",), "follower"),
    ("agent stop", ("idle", "propose", "decide", "done"), ("idle",), "leader"),
    ("agent stop", ("idle", "ack"), (), "follower"),
    ("agent pause", AGENT, ("decide",), "leader"),
    ("drain", HOST, ("idle", "allreduce"), "follower"),
    ("drain", ("idle", "before agree", "propose"), ("idle",), "leader"),
    ("cut", HOST, ("idle", "before agree", "sink", "finish"), "follower"),
    ("cut", ("idle", "allreduce", "after agree", "propose", "decide", "source",
             "drain", "done"), ("idle", "decide"), "leader"),
    ("unplug", ("idle", "build"), ("idle",), "follower"),
    ("one-way cut", ("door", "idle", "allreduce", "copy", "before agree",
                     "after agree", "set create", "detect", "propose", "build",
                     "source", "sink", "drain", "done"), ("idle", "drain"),
     "follower"),
    ("one-way cut", ("idle", "decide"), (), "leader"),
    ("host", HOST, ("allreduce", "after agree", "drain"), "follower"),
    ("host", ("idle", "before agree", "propose", "decide", "source", "done"),
     ("propose", "source"), "leader"),
    ("power", ("idle", "before agree", "reported", "build", "done"), ("idle",),
     "follower"),
    ("power", ("idle", "propose", "decide"), ("idle",), "leader"),
    ("reset", ("idle", "allreduce", "copy", "before agree", "after agree",
               "set create", "detect", "propose", "build", "decide", "source",
               "sink", "drain", "finish", "done"), ("allreduce", "build"),
     "follower"),
    ("etcd leader", ("door", "idle", "allreduce", "copy", "before agree",
                     "after agree", "set create", "detect", "propose", "build",
                     "ack", "decide", "join", "source", "sink", "drain",
                     "done"), ("idle", "propose", "source", "done"),
     "follower"),
    ("etcd cut", ("idle", "propose", "decide"), (), "leader"),
    ("etcd cut", ("idle", "reported", "build", "ack", "join"),
     ("idle", "reported"), "follower"),
    ("etcd away", ("idle", "detect", "propose", "decide", "expect", "done"),
     ("detect",), "follower"),
)
# Two faults: the marked worker is killed, and so long later another host, or
# rank 0, is hit. Delays; those that belong to the smoke set.
SECONDS = (
    ("kill", ("idle",), (0, 1, 5, 20, 100), (1,)),
    ("cut", ("idle",), (0, 1, 5, 20, 100), (5,)),
    ("host", ("idle",), (0, 1, 5, 20, 100), (20,)),
    ("kill", ("allreduce", "copy", "before agree", "after agree", "set create",
              "build", "propose", "decide", "source", "sink", "drain", "done"),
     (0, 20), ()),
    ("cut", ("after agree", "build", "propose", "decide", "sink", "drain"),
     (5,), ()),
    ("host", ("after agree", "build", "propose", "decide", "source", "drain"),
     (5,), ()),
    ("kill", ("deliver", "restore"), (1, 100), (1,)),
)


# With an etcd that wants certificates: faults at one phase each, in which etcd
# is needed right then.
TLS = (("kill", "build", "follower"), ("agent kill", "propose", "leader"),
       ("host", "decide", "follower"), ("cut", "idle", "leader"),
       ("drain", "idle", "follower"), ("etcd leader", "propose", "follower"),
       ("etcd cut", "idle", "follower"), ("etcd away", "decide", "follower"))
TLS_SMOKE = ("etcd leader",)


def cells():
    """Every cell, in the order of the table."""
    found = []
    for fault, phases, smoke, target in ROWS:
        found += [Cell(fault, phase, target, is_smoke=phase in smoke)
                  for phase in phases]
    for fault, phases, delays_ms, smoke_ms in SECONDS:
        found += [Cell(fault, phase, "follower", ms, ms in smoke_ms)
                  for phase in phases for ms in delays_ms]
    found += [Cell(*row, is_smoke=row[0] in TLS_SMOKE, has_tls=True)
              for row in TLS]
    return found
