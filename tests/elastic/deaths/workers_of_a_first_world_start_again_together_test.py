"""A death between rg_world_wait and the first commit starts all workers of
that first world again: what they had begun does not count, and only a worker
that failed by itself uses up a restart.

Covers: generation.c slots.c"""
import os

from house import Job, claim, main_all, touch, until
from waiters import WAITER, worlds


def check_fresh(job, ended, size):
    """All are in one newer first world, none of them as the process it was."""
    text = job.text()
    newest = max(world[3] for world in worlds(text))
    slots = [world[0] for world in worlds(text) if world[3] == newest]
    claim(newest > ended and sorted(slots) == list(range(size)),
          f"not all are in the next first world: {worlds(text)}")
    for slot in range(size):
        claim(f"slot {slot} ran RG_OK" in text, f"slot {slot} did not train")
    claim("RG_JOINING" not in text, "one joined instead")


def kill_while_rank_0_fetches(rank):
    with Job(["-n", "3"], [WAITER, "gate=gate"]) as job:
        until(lambda: "fetches" in job.text() and
              len(worlds(job.text())) == 3, 20, "the first world")
        before = {w["pid"] for w in job.workers().values()}
        claim(len(before) == 3, f"pids {before}")
        job.kill(rank)
        until(lambda: job.text().count("fetches") == 2 and
              len(worlds(job.text())) == 6, 20, "the next first world")
        claim(not before & {w["pid"] for w in job.workers().values()},
              "a worker outlived the first world that it was in")
        touch(os.path.join(job.folder, "gate"))
        job.finish()
        check_fresh(job, 1, 3)


def test_rank_0_dies_while_it_fetches():
    kill_while_rank_0_fetches(0)


def test_another_dies_while_rank_0_fetches():
    kill_while_rank_0_fetches(2)


def test_only_failed_workers_use_up_restarts():
    with Job(["-n", "3", "--max-restarts", "1"], [WAITER, "crash"]) as job:
        job.finish()
        check_fresh(job, 2, 3)
        claim("no failure of its own" in job.text(), "no worker was recalled")


main_all(globals())
