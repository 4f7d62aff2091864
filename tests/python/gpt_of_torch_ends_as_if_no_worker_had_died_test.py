"""The GPT in torch, whose gradients live in a Reducer, learns; a worker is
killed, and a spare that has loaded torch takes its place; then the other one is.
The survivor of each keeps its process: the final state is that of a run without
faults, to the last bit.

Covers: torch/_optimizer.py _reducer.py 08_gpt.py door.c"""
import os
import re

import pyjob

FINAL = re.compile(r"final loss ([\d.]+) state ([0-9a-f]{16})")


def final(output):
    from house import claim
    found = FINAL.findall(output)
    claim(len(found) == 1, f"not one final line:\n{output}")
    return found[0]


def waiting(job):
    """Pids of workers outside of the world that have loaded the program."""
    return {w["pid"] for h in job.answer()["hosts"] for w in h["workers"]
            if w["state"] == "door"}


def test():
    from house import SOURCE, Job, claim, until
    gpt = [pyjob.python_with("torch", "numpy"),
           os.path.join(SOURCE, "examples/python/08_gpt.py"), "--epochs", "1",
           "--batch", "64"]
    expected = final(pyjob.job(2, gpt))
    claim(float(expected[0]) < 3, f"it has learned nothing: {expected}")
    with Job(["-n", "2", "--spares", "1"], [*gpt, "--step-ms", "50"],
             env=pyjob.environment()) as job:
        job.wait_step(1)
        spare = until(lambda: waiting(job), 20, "a spare waits")
        before = job.workers()
        lost = {job.kill(1)}
        job.wait_world(2, above=1)
        claim(job.pid(0) == before[0]["pid"], "rank 0 has not kept its pid")
        claim({job.pid(1)} == spare, "the spare is not in the world")
        job.kill(0)
        job.finish()
        claim(job.generation() > 2, "the second kill came too late")
        job.survivors(before, {*lost, before[0]["pid"]})
        claim("Traceback" not in job.text(), job.text())
        found = final(job.text())
        claim(found == expected, f"after the kills it is {found}, the "
                                 f"undisturbed run's {expected}")


pyjob.main(None, test=test)
