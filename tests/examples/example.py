"""What the tests of the examples share: programs of the build, jobs of their
own, and the requirement of an etcd."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["REGROUP_BUILD"]
SOURCE = os.environ["REGROUP_SOURCE"]
FINAL = re.compile(r"final accuracy ([\d.]+) state ([0-9a-f]{16})")


def program(name):
    return os.path.join(BUILD, "bin", name)


def need_etcd():
    """Ends the test with 77 where there is none."""
    if shutil.which("etcd", path=os.environ["PATH"] + ":/usr/sbin") is None:
        print("skipped: no etcd in PATH; apt-get install etcd-server")
        sys.exit(77)


def fail(why, output=""):
    print(f"{why}\n{output}", file=sys.stderr)
    sys.exit(1)


def alone(*command, expected=0):
    """The output of a program without an agent."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=100, check=False)
    if done.returncode != expected:
        fail(f"{command} ended with {done.returncode}, not {expected}",
             done.stdout)
    return done.stdout


def own_environment(folder):
    """Ours without Regroup's settings, and with a run directory of its own."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("REGROUP_")}
    env["REGROUP_RUN_DIR"] = os.path.join(folder, "run")
    return env


def job(*arguments):
    """The output of `regroup run` with a run directory of its own."""
    with tempfile.TemporaryDirectory(prefix="rg-example-") as folder:
        command = [program("regroup"), "run", *arguments]
        with subprocess.Popen(command, env=own_environment(folder),
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as started:
            try:
                output, _ = started.communicate(timeout=100)
            except subprocess.TimeoutExpired:
                started.terminate()
                output, _ = started.communicate(timeout=20)
                fail(f"{command} did not end", output)
        if started.returncode != 0:
            fail(f"{command} ended with {started.returncode}", output)
        return output


def final(output):
    """(accuracy, state) that elastic_digits printed, exactly once."""
    found = FINAL.findall(output)
    if len(found) != 1:
        fail(f"{len(found)} final lines", output)
    return float(found[0][0]), found[0][1]
