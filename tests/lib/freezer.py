"""Processes that SIGKILL does not end until they are thawed."""

import contextlib
import os

from house import until

FREEZER = "/sys/fs/cgroup/freezer"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def frozen(pid):
    """A version 1 control group: SIGKILL waits until it is thawed."""
    group = os.path.join(FREEZER, f"regroup-test-{pid}")
    os.mkdir(group)
    try:
        write(os.path.join(group, "cgroup.procs"), str(pid))
        write(os.path.join(group, "freezer.state"), "FROZEN")
        yield
    finally:
        write(os.path.join(group, "freezer.state"), "THAWED")
        until(lambda: not os.path.exists(f"/proc/{pid}"), 10,
              "the end of the process")
        os.rmdir(group)
