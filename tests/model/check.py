#!/usr/bin/env python3
"""Verify the model of the generation protocol, and that it can fail.

Every setting below is explored to its end with spin: the protocol as it is has
no violation in any of them, and each mutant, which breaks one rule, has one.
Prints a table; ends with 1 when a verdict is not the expected one, and with 77
when spin or a C compiler is missing.

    check.py            all settings
    check.py NAME...    these only, with the trace of a violation
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "generation.pml")
MEMORY_MB = 2000
SECONDS = 200  # for one setting; the slowest needs a tenth of that
DEPTH = 2000   # of the longest run; none is longer than 200

TWO_HOSTS = "NH=2 NW=3 HM0=1 HM1=6 INIT=3 NEWC=2"
ONE_HOST = "NH=1 NW=3 HM0=7 HM1=0 INIT=3 NEWC=2"

# name, what it is about, its constants. Each number of faults is a setting of
# its own: with more faults at hand a deadlock hides behind the next fault.
PROTOCOL = [
    ("calm", "a leader change, a newcomer", f"{TWO_HOSTS} F=0 LC=1"),
    ("death", "a death, a leader change", f"{TWO_HOSTS} F=1 LC=1"),
    ("plain", "step 1 is not committed", f"{TWO_HOSTS} F=1 LC=0 PLAIN=2"),
    ("two deaths", "one leader", f"{TWO_HOSTS} F=2 LC=0"),
    ("broken", "a death, a report of broken", f"{TWO_HOSTS} F=1 B=1 LC=0"),
    ("one host", "one death", f"{ONE_HOST} F=1 LC=0"),
    ("one host, two", "two deaths", f"{ONE_HOST} F=2 LC=0"),
]
MUTANTS = [
    ("SKIP_DECISION", "prepares g+1 without delivering decision g",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("DONE_ONLY_IF_DECIDED", "an announced g+1 hides that g has finished",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("ONLY_HOSTS_WITH_MEMBERS", "hosts without members do not ack",
     f"{TWO_HOSTS} F=2 LC=0"),
    ("NO_FENCE", "acks while a worker may still store for g",
     f"{TWO_HOSTS} F=1 LC=1"),
    ("ACK_EARLY", "acks before its members have left g",
     f"{TWO_HOSTS} F=0 LC=1"),
    ("NO_CAS", "writes what it planned without comparing",
     f"{TWO_HOSTS} F=0 LC=1"),
]


def run(folder, *command):
    """(exit status, output); a program that does not end is an error."""
    done = subprocess.run(command, cwd=folder, timeout=SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


def must(folder, *command):
    code, output = run(folder, *command)
    if code != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{output}")


def explore(constants, folder):
    """Build the verifier of one setting and run it; its report."""
    shutil.copy(MODEL, folder)
    flags = [f"-D{constant}" for constant in constants.split()]
    must(folder, "spin", *flags, "-a", "generation.pml")
    must(folder, "gcc", "-O2", "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MB}",
         "-o", "pan", "pan.c")
    return run(folder, "./pan", f"-m{DEPTH}")[1]


def verdict(report):
    """(states, violation or None); RuntimeError when the search is partial."""
    states = re.search(r"(\d+) states, stored", report)
    errors = re.search(r"errors: (\d+)", report)
    broken = re.search(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", report,
                       re.MULTILINE)
    if states is None or errors is None:
        raise RuntimeError(f"the verifier gave no verdict:\n{report}")
    if errors.group(1) != "0":
        return int(states.group(1)), broken.group(1) if broken else "violation"
    if "max search depth too small" in report or "out of memory" in report or \
            "Search not completed" in report:
        raise RuntimeError(f"the search is not complete:\n{report}")
    return int(states.group(1)), None


def trace(constants, folder):
    flags = [f"-D{constant}" for constant in constants.split()]
    return run(folder, "spin", *flags, "-t", "generation.pml")[1]


def check(name, about, constants, must_fail, with_trace):
    """One line of the table; whether the verdict is the expected one."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rg-model-") as folder:
        states, violation = verdict(explore(constants, folder))
        seconds = time.monotonic() - begin
        is_right = (violation is not None) == must_fail
        said = "holds" if violation is None else \
            "caught" if must_fail else f"VIOLATED: {violation}"
        if must_fail and violation is None:
            said = "NOT CAUGHT"
        print(f"{name:<24} {about:<46} {states:>9} {seconds:>6.1f}  {said}",
              flush=True)
        if with_trace and violation is not None:
            print(trace(constants, folder))
    return is_right


def settings(names):
    every = [(*entry, False) for entry in PROTOCOL] + [
        (name, about, f"MUT_{name} {constants}", True)
        for name, about, constants in MUTANTS]
    unknown = set(names) - {entry[0] for entry in every}
    if unknown:
        sys.exit(f"check.py: no setting is called {', '.join(sorted(unknown))}")
    return [entry for entry in every if not names or entry[0] in names]


def main():
    chosen = settings(sys.argv[1:])
    for program in ("spin", "gcc"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    print(f"{'setting':<24} {'about':<46} {'states':>9} {'s':>6}  verdict")
    wrong = [entry[0] for entry in chosen
             if not check(*entry, with_trace=len(sys.argv) > 1)]
    if wrong:
        sys.exit(f"check.py: not as expected: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
