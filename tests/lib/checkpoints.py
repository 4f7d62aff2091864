"""Directories of checkpoints, and the processes that write them, for tests."""

import contextlib
import os
import shutil
import signal
import tempfile

import house


@contextlib.contextmanager
def directory():
    path = tempfile.mkdtemp(prefix="rg-ckpt-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def names(path, suffix):
    """What counts (.rgck) or does not yet (.part), the newest last."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(n for n in os.listdir(path) if n.endswith(suffix))
    return []


def steps(path, suffix=".rgck"):
    return [int(n.split("-step")[1].split("-")[0]) for n in names(path, suffix)]


def shown(job, field):
    """What `regroup status` says of checkpoints; None: nothing."""
    checkpoint = (job.status() or {}).get("checkpoint")
    return checkpoint and checkpoint[field]


def stopped(pids):
    """The processes among them that are stopped."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError), \
                open(f"/proc/{pid}/stat", "rb") as stat:
            if stat.read().rpartition(b")")[2].split()[0] == b"T":
                found.append(pid)
    return found


def descendants(pid):
    """A process and all that came from it."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), \
                open(f"/proc/{entry}/stat", "rb") as stat:
            parent = int(stat.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found, at = [pid], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def stop_writer_of(step, later):
    """Failpoints: the writer of that step's checkpoint stops. A writer takes a
    later commit where there is one: rank 0 makes the next, of step `later`,
    long after that."""
    return {"REGROUP_FAILPOINT":
            f"checkpoint.written:step{step}:start1:stop,"
            f"commit.before_agree:rank0:step{later}:start1:sleep3000"}


def stopped_writer(job):
    """The writer of a job on this machine that a failpoint has stopped."""
    return house.until(lambda: stopped(descendants(job.process.pid)), 40,
                       "a writer stops at its failpoint")[0]


def kill_all(job):
    """All processes of a job on this machine. Stopped first, so that none
    sees another die; parents last, since the kernel wakes stopped groups whose
    parent ends."""
    pids = []
    while True:
        more = [p for p in descendants(job.process.pid) if p not in pids]
        if not more:
            break
        for pid in more:
            with contextlib.suppress(ProcessLookupError):  # a writer's end
                os.kill(pid, signal.SIGSTOP)
        pids += more
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.process.wait()
    house.until(lambda: not any(job.is_ours(p) for p in pids), 20, "all are gone")
