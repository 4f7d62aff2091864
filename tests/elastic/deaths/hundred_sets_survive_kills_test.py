"""A hundred sets over eight workers, an operation in flight on each: a worker
is killed, and then rank 0, once the replacement has come. Sets that have lost
a member have ended on all ranks, sets with keep have shrunk, rules are applied
again, also for the replacements; handles, ids, members and results are right
each time, as tests/elastic/hundred_sets.c computes them; also where rules and
lists were declared before rg_run.

Covers: sync.c colors.c splits.c"""
import os
import re

from house import BUILD, Job, claim, main

TOLD = re.compile(r"slot (\d) generation (\d+) size (\d): "
                  r"(\d+) right, (\d+) ended, (\d+) of others")


def told(job):
    """{generation: {slot: (right, ended, others)}}, and the sizes."""
    found, sizes = {}, {}
    for line in TOLD.findall(job.text()):
        slot, generation, size, *counts = map(int, line)
        found.setdefault(generation, {})[slot] = counts
        sizes[generation] = size
    return found, sizes


def play(size_after_a_kill, *flags, how="made"):
    with Job(flags, [os.path.join(BUILD, "tests", "hundred_sets"),
                     how]) as job:
        job.finish(seconds=90)
        job.check()
        found, sizes = told(job)
    first, last = found[1], found[max(found)]
    claim(len(first) == 8 and all(right + others == 100 and ended == 0
                                  for right, ended, others in first.values()),
          f"the sets of generation 1 are {first}")
    # on a slow machine the replacement may come before generation 2 has told
    claim(sizes.get(2, size_after_a_kill) == size_after_a_kill and
          max(sizes) > 2 and sizes[max(sizes)] == 8, f"the sizes were {sizes}")
    claim(all(right >= 50 and ended >= 25
              for slot, (right, ended, _) in last.items()
              if slot not in (0, 5)), f"the survivors end with {last}")
    claim(all(last[slot][0] >= 24 for slot in (0, 5)),
          f"the replacements end with {last}")


def test():
    play(7, "--min", "1", "--max", "8")
    play(8, "-n", "8")
    play(7, "--min", "1", "--max", "8", how="declared")
    play(8, "-n", "8", how="declared")


main(test)
