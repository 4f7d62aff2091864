"""Run the `regroup` of the build folder, away from the user's own settings."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from house import PATIENCE, Process

BUILD = os.environ["REGROUP_BUILD"]
SOURCE = os.environ["REGROUP_SOURCE"]
REGROUP = os.path.join(BUILD, "bin", "regroup")
TIMEOUT_S = 60 * PATIENCE
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def clean_environment(**more):
    """The environment without REGROUP_* of the caller's, and with more."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("REGROUP_", "ETCD_"))}
    kept.update(more)
    return kept


def end_with_us():
    """In a child: a test that is killed leaves no job that trains forever."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class RunDir:
    """A run directory of a test's own; short, since sockets lie in it."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="rg", dir="/tmp")
        self.started = []
        return self

    def __exit__(self, kind, *unused):
        """A test that failed half-way leaves jobs behind: stop them, and show
        what they said."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            try:
                said = process.communicate(timeout=20)
                if kind is not None:
                    print(f"--- {' '.join(process.args)}",
                          *(text[-3000:] for text in said if text), sep="\n")
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def environment(self, **more):
        return clean_environment(**{"REGROUP_RUN_DIR": self.path, **more})

    def run(self, *args, env=None, cwd=None):
        """Run `regroup ARGS` to its end; stdout and stderr are texts."""
        return subprocess.run([REGROUP, *args], cwd=cwd, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT_S,
                              env=self.environment(**(env or {})))

    def start(self, *args, env=None, **popen):
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        self.started.append(
            Process([REGROUP, *args], text=True, stdin=subprocess.DEVNULL,
                    env=self.environment(**(env or {})),
                    preexec_fn=end_with_us, **popen))
        return self.started[-1]


class Claims:
    """Counts claims that do not hold, and prints each."""

    def __init__(self):
        self.made = self.failed = 0

    def hold(self, claim, text):
        self.made += 1
        if not claim:
            self.failed += 1
            print("does not hold: " + text)
        return claim

    def equal(self, a, b, text):
        return self.hold(a == b, f"{text}: {a!r} is not {b!r}")

    def end(self):
        print(f"{self.made - self.failed} of {self.made} claims hold")
        sys.exit(0 if self.made > 0 and self.failed == 0 else 1)


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def wait_for(condition, what, timeout_s=TIMEOUT_S):
    """Look until the condition holds; the test fails when it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not true after {timeout_s} s: {what}")
        time.sleep(0.02)


def find_child(parent, name):
    """The process of that name whose parent is the given one; 0: none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                text = file.read()
        except OSError:
            continue
        comm, rest = re.fullmatch(r"\d+ \((.*)\) (.*)\n?", text).groups()
        if comm == name and int(rest.split()[1]) == parent:
            return int(pid)
    return 0


def processes_with(text):
    """Processes with a text in the command line or the environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as a, \
                 open(f"/proc/{pid}/environ", "rb") as b:
                found_in = a.read() + b.read()
        except OSError:
            continue
        if text.encode() in found_in:
            found.append(int(pid))
    return found
