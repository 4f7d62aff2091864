"""bench_timeline prints a step with and without a timeline, of both ways, and
its timelines end with no event lost. It claims nothing about what they cost.

Covers: bench_timeline.c models.c"""
import os
import re

import pyjob
from house import BUILD, claim, main_all


def test_both():
    output = pyjob.job(2, [os.path.join(BUILD, "bin/bench_timeline"), "--turns",
                        "2", "--steps", "20"])
    for way in ("buckets", "calls"):
        claim(re.search(rf"\| {way}( +-?[\d.]+%?){{6}}", output), output)
    ended = re.findall(r"has (\d+) events; (\d+) found no room", output)
    claim(len(ended) == 4, output)
    claim(all(int(events) > 0 and lost == "0" for events, lost in ended),
          output)
    # 23 steps of two ranks; the waits of calls in a row are few events
    claim(all(int(events) < 1.5 * 2 * 23 * 161 for events, _ in ended[2:]),
          output)


main_all(globals())
