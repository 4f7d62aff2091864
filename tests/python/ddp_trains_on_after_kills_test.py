"""The torch example under `regroup run`, with DDP over the backend "regroup",
Adam and a DataLoader: rank 1 is killed, then rank 0. The survivor keeps its
process, torch's process group is formed again in each generation, also in the
replacement, and the final state is that of a run without faults, to the last
bit. DDP turns the lost peer into a RuntimeError, which run recognises. A worker
that dies while torch makes its process group ends the wait of the others, and
one that is asked to leave below backward ends without a traceback.

Covers: torch/_group.py torch/_rendezvous.py torch/_model_state.py torch/_data.py
05_torch.py"""
import os
import re
import signal
import time

import pyjob

FINAL = re.compile(r"final accuracy ([\d.]+) state ([0-9a-f]{16})")
SIZE = ["--min", "2", "--max", "2"]  # each step is one of two workers


def final(output):
    from house import claim
    found = FINAL.findall(output)
    claim(len(found) == 1, f"{len(found)} final lines in\n{output}")
    return found[0]


def work():
    import regroup
    import regroup.torch
    import torch
    import torch.distributed as dist
    with regroup.init(elastic=True) as ctx:
        state = regroup.torch.State(model=torch.nn.Linear(1, 1))
        barrier = dist.distributed_c10d._store_based_barrier

        def dies_there(*arguments):
            if ctx.rank == 1 and ctx.generation == 1:
                time.sleep(0.3)  # the other one waits for this rank
                os.kill(os.getpid(), signal.SIGKILL)
            barrier(*arguments)

        dist.distributed_c10d._store_based_barrier = dies_there

        @regroup.run
        def train(state):
            dist.init_process_group("regroup", init_method="regroup://")
            model = torch.nn.parallel.DistributedDataParallel(state.model)
            if ctx.generation > 1:
                state.commit()
            while True:
                model(torch.ones(1, 1)).sum().backward()

        train(state)


def test():
    from house import SOURCE, Job, claim
    program = os.path.join(SOURCE, "examples/python/05_torch.py")
    example = [pyjob.python_with("torch", "numpy"), program, "--epochs", "4"]
    expected = final(pyjob.job(2, example))
    claim(float(expected[0]) > 0.7, f"it has learned nothing: {expected}")
    with Job(SIZE, [*example, "--step-ms", "20"],
             env=pyjob.environment()) as job:
        job.wait_step(5)
        before = job.workers()
        lost = {job.kill(1)}
        job.wait_world(2, above=1)
        claim(job.pid(0) == before[0]["pid"], "rank 0 has not kept its pid")
        after = job.workers()
        lost.add(job.kill(0))
        job.finish()
        claim(job.generation() > 2, "the second kill came too late")
        job.survivors(after, lost)
        claim("Traceback" not in job.text(), job.text())
        found = final(job.text())
        claim(found == expected, f"after the kills it is {found}, the "
                                 f"undisturbed run's {expected}")
    with Job(["--min", "1", "--max", "2"],
             pyjob.command(modules=("torch", "numpy")),
             env=pyjob.environment()) as job:
        job.wait_step(1, seconds=20)
        claim(job.run("stop", job.name).returncode == 0, "it is not stopped")
        job.process.wait(20)
        claim("Traceback" not in job.text(), job.text())


pyjob.main(work, test=test)
