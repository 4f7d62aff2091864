"""Statuses as exceptions: one class for each, all of them RegroupError.

In a training function let them pass: one that leaves it is turned back into
its status, which regroup.run handles.
"""

from __future__ import annotations

import re

from ._abi import Advice, Status, lib

# Names in sentences of the C library, and what they are called here. The rest,
# such as rg_allreduce, has the name without rg_.
_WORDS = {
    "set rg_params.elastic = 1 in rg_init": "call regroup.init(elastic=True)",
    "set rg_params.elastic alike": "give regroup.init(elastic=) alike",
    "rg_params.elastic alike": "regroup.init(elastic=) alike",
    "return this status from fn": "let this exception leave the function",
    "rg_buffer_params.": "State.add's ",
    "rg_op_params.tag": "tag",
    "rg_save_params.keep": "keep",
    "rg_params": "regroup.init",
    "rg_stop": "State.stop",
    "rg_metric": "State.metric",
    "rg_on_break": "Context.on_break",
    "end it with rg_group_end": "leave its Context.group",
    "rg_group_start": "Context.group",
    "rg_set_list": "Context.sets",
    "rg_set_": "Set.",
    "rg_wait_all": "regroup.wait_all",
    "the tag, its counts": "the tag or shape, its counts",
    "rg_init": "regroup.init",
    "rg_finalize": "Context.finalize",
    "rg_run": "State.run",
    "rg_next": "State.generations",
    "rg_step_end": "State.step_end",
    "call rg_reducer_destroy": "drop the Reducer and arrays of its tensors",
    "rg_reducer_": "Reducer.",
    "rg_state_slice": "State.slice",
    "rg_state_": "State.",
    "rg_sampler_": "Sampler.",
    "rg_set_create_by": "Context.set_by",
    "rg_set_create": "Context.set",
    "rg_set_split": "Context.split",
    "rg_set_destroy": "Set.destroy",
    "rg_alloc": "Context.alloc",
    "rg_register": "Context.register",
    "rg_unregister": "Registered.close",
    "rg_rank": "Context.rank",
    "rg_world_wait": "Context.world_wait",
    "rg_op in regroup.h": "regroup.Op",
    "rg_": "",
}
_LONGEST_FIRST = re.compile(r"\b(?:" + "|".join(
    re.escape(word) for word in sorted(_WORDS, key=len, reverse=True)) + ")")


def in_python(sentence: str) -> str:
    """A sentence of the C library, with Python's names."""
    return _LONGEST_FIRST.sub(lambda found: _WORDS[found[0]], sentence)


class RegroupError(RuntimeError):
    """A call into Regroup failed; a RuntimeError, as torch's and Horovod's
    are."""

    #: The status of the call; each subclass has its own.
    status: Status = Status.ERR_INVALID

    def __init_subclass__(cls, status: Status | None = None) -> None:
        super().__init_subclass__()
        cls.status = cls.status if status is None else status

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        #: Object, action, cause and remedy, in one sentence.
        self.sentence = sentence

    @property
    def advice(self) -> Advice:
        """What the program should do about it."""
        return self.status.advice


class InProgress(RegroupError, TimeoutError, status=Status.IN_PROGRESS):
    """The timeout has passed; request and buffers stay in flight."""


class Invalid(RegroupError, ValueError, status=Status.ERR_INVALID):
    """An argument is wrong, or the call is not allowed here."""


class Memory(RegroupError, MemoryError, status=Status.ERR_MEMORY):
    """There is not enough memory."""


class System(RegroupError, OSError, status=Status.ERR_SYSTEM):
    """A system call failed."""


class NotMember(RegroupError, status=Status.ERR_NOT_MEMBER):
    """This rank is not a member of the set."""


class Unsupported(RegroupError, status=Status.ERR_UNSUPPORTED):
    """This is not supported here."""


class Mismatch(RegroupError, status=Status.ERR_MISMATCH):
    """Ranks disagree; the set stays usable."""


class SetEnded(RegroupError, status=Status.ERR_SET_ENDED):
    """The set ended with a lost member."""


class NotFound(RegroupError, LookupError, status=Status.ERR_NOT_FOUND):
    """There is none."""


class Timeout(RegroupError, TimeoutError, status=Status.ERR_TIMEOUT):
    """An operation passed its deadline; the set can't be used any more."""


class HostsChanged(RegroupError, status=Status.ERR_HOSTS_CHANGED):
    """Membership changes: leave the training function, nothing is lost."""


class PeerLost(RegroupError, status=Status.ERR_PEER_LOST):
    """A peer is lost: leave the training function; registered memory goes back
    to the last commit."""


class Refused(RegroupError, status=Status.ERR_REFUSED):
    """This worker was refused."""


class AgentLost(RegroupError, status=Status.ERR_AGENT_LOST):
    """The agent is gone."""


class JobEnded(RegroupError, status=Status.ERR_JOB_ENDED):
    """The job has ended."""


class AskedToLeave(RegroupError, SystemExit, status=Status.ERR_ASKED_TO_LEAVE):
    """An operator stops the job or drains this host, or the job was done before
    this worker got a place in it. Uncaught, it ends the process with 0 and
    prints nothing."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.code = 0


class Store(RegroupError, status=Status.ERR_STORE):
    """etcd can't be used."""


class Damaged(RegroupError, status=Status.ERR_DAMAGED):
    """What was stored is damaged."""


class Device(RegroupError, status=Status.ERR_DEVICE):
    """The device or its communicator has failed."""


BY_STATUS: dict[int, type[RegroupError]] = {
    int(kind.status): kind for kind in RegroupError.__subclasses__()}


_NAMED = re.compile(r"\b(" + "|".join(
    kind.__name__ for kind in BY_STATUS.values()) + r"): (.*)")


def told_by(error: BaseException) -> RegroupError | None:
    """The exception that another library has turned into one of its own, as
    torch does with what ends an operation below backward: it keeps the text,
    which begins with the name of the class."""
    if isinstance(error, RegroupError):
        return error
    found = _NAMED.search(str(error)) if type(error) is RuntimeError else None
    if found is None:
        return None
    return next(kind(found[2]) for kind in BY_STATUS.values()
                if kind.__name__ == found[1])


def error_of(status: int, sentence: bytes) -> RegroupError:
    """The exception for a status and its sentence."""
    return BY_STATUS[status](in_python(sentence.decode(errors="replace")))


def check(status: int) -> None:
    """Raise the status of this thread's last call if it is not OK."""
    if status != Status.OK:
        raise error_of(status, lib.rg_last_error())
