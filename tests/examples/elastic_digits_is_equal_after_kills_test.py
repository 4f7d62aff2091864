"""Rank 0, then any worker, is killed under elastic_digits: the final state is
the undisturbed run's, and its histories hold all invariants, every sample of
every epoch used once in committed steps.

Covers: 03_elastic_digits.c"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from example import (SOURCE, alone, fail, final, need_etcd, own_environment,
                     program)

sys.path.insert(0, os.path.join(SOURCE, "tests/checker"))
from check_history import check  # noqa: E402

WORKERS, KILLS = 3, 4


def world(env):
    """(generation, {rank: pid}) of a full world, or None."""
    shown = subprocess.run([program("regroup"), "status", "--json"], env=env,
                           capture_output=True, text=True, timeout=20,
                           check=False)
    if shown.returncode != 0:
        return None
    status = json.loads(shown.stdout)
    pids = {worker["rank"]: worker["pid"] for host in status["hosts"]
            for worker in host["workers"] if worker["rank"] is not None}
    is_full = status["phase"] == "running" and len(pids) == WORKERS
    return (status["generation"], pids) if is_full else None


def wait_for_world(env, job, above):
    """The next full world in a generation above one."""
    end = time.monotonic() + 30
    while time.monotonic() < end and job.poll() is None:
        found = world(env)
        if found and found[0] > above:
            return found
        time.sleep(0.02)
    fail(f"no full world above generation {above}")


def kill_some(env, job):
    rng, generation = random.Random(5), 0
    for kill in range(KILLS):
        generation, pids = wait_for_world(env, job, generation)
        time.sleep(rng.uniform(0.02, 0.1))  # somewhere in a step
        os.kill(pids[0 if kill == 0 else rng.choice(sorted(pids))],
                signal.SIGKILL)
    wait_for_world(env, job, generation)


def run(folder, *flags):
    history, env = os.path.join(folder, "history"), own_environment(folder)
    os.mkdir(history)
    with subprocess.Popen(
            [program("regroup"), "run", "--min", "1", "--max", str(WORKERS),
             "--max-restarts", str(KILLS), "--history", history,
             program("elastic_digits"), "--step-ms", "10", *flags],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True) as job:
        try:
            kill_some(env, job)
            output, _ = job.communicate(timeout=90)
        finally:
            job.terminate()
    if job.returncode != 0:
        fail(f"the job ended with {job.returncode}", output)
    return final(output), history


need_etcd()
expected = final(alone(program("elastic_digits")))
for every in "1", "10":
    with tempfile.TemporaryDirectory(prefix="rg-kills-") as directory:
        found, histories = run(directory, "--commit-every", every)
        if found != expected:
            fail(f"after the kills: {found}; undisturbed: {expected}")
        broken = check(histories, samples=1438, batch=64, epochs=20)
        if broken:
            fail("\n".join(str(violation) for violation in broken))
