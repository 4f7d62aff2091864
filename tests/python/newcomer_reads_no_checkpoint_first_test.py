"""A worker that joins a running job gets its state from the others: load
returns None at once and reads no checkpoint. The first workers have loaded.

Covers: _state.py state/load.c"""
import os
import re
import sys
import tempfile

import pyjob


def work():
    import numpy
    import regroup
    directory = sys.argv[2]
    weights = numpy.full(1000, -1.0)
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("weights", weights)
        begun = state.load(directory)
        print(f"loaded {begun}, has {weights[0]:.0f}, process {os.getpid()}",
              flush=True)

        def train():
            print(f"trains from {weights[0]:.0f} at {state.step}, process "
                  f"{os.getpid()}", flush=True)
            while pyjob.goes_on(ctx):
                weights[:] += 1
                if state.step == 0:
                    state.save(directory)
                else:
                    state.commit()
        state.run(train)


def lines(job, words):
    return [line for line in job.text().splitlines() if words in line]


def train_and_kill(house, folder, first):
    command = pyjob.command(folder, pyjob.UNTIL_FINISH)
    with house.Job(["-n", "2"], command, env=pyjob.environment()) as job:
        house.until(lambda: job.step() >= 8, 40, "step 8")
        house.claim(len(re.findall(first, job.text())) == 2,
                    "the first two have not begun as they should")
        killed = job.kill(1)
        house.until(lambda: len(lines(job, "trains from ")) == 4, 40,
                    "four workers train, one of them killed")
        newcomer = str(job.pid(1))
        house.claim(newcomer != str(killed), "no newcomer has come")
        mine = lines(job, f"process {newcomer}")
        house.claim("loaded None, has -1" in mine[0], mine[0])
        words = mine[1].split()
        step = int(words[words.index("at") + 1].strip(","))
        house.claim(step >= 8 and f"from {step - 1} " in mine[1], mine[1])
        house.claim("nothing is read from" in job.text(), "no line says why")
        job.finish()


def test():
    import house
    with tempfile.TemporaryDirectory(prefix="rg-ckpt-") as folder:
        train_and_kill(house, folder, r"loaded None, has -1, ")
        train_and_kill(house, folder, r"loaded \d+, has \d+, ")


pyjob.main(work, test=test)
