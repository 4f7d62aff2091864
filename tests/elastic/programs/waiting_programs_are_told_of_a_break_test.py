"""rg_on_break: a program whose thread waits in a communicator of its own hears
that the generation has broken, once, and goes on in the next one.

Covers: break.c thread.c"""
import os

from house import BUILD, Job, claim, main

LIFECYCLE = os.path.join(BUILD, "tests", "lifecycle")


def test():
    with Job(["-n", "3"], [LIFECYCLE, "breaks"]) as job:
        job.finish(seconds=30)
        text = job.text()
        claim(text.count("hears that 1 broke after 0") == 2,
              "the survivors were not told once each")
        for slot, breaks in ((0, 1), (1, 0), (2, 1)):
            claim(f"slot {slot} run RG_OK after {breaks} breaks" in text,
                  f"slot {slot} was not told {breaks} times")


main(test)
