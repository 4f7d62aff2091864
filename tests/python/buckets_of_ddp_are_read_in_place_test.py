"""DDP's buckets over the backend "regroup" lie in memory that the workers of a
host share, from the first step on, and nothing else changes: gradients are those
of DDP over gloo to the last bit, also where a rank's buckets can't be
registered; children of fork have gradients of their own; gradients can be
saved; and the memory goes with its DDP, also when a generation ends.

Covers: torch/_ddp.py registered.c"""
import gc
import io
import itertools
import os
import sys
import time
import types

import pyjob

SIDE = 600  # the weights of a layer are 1.4 MB
SOON = 20


def shared_areas():
    with open("/proc/self/maps", encoding="ascii") as maps:
        return [[int(end, 16) for end in area[0].split("-")]
                for area in map(str.split, maps) if area[1][3] == "s"]


def is_shared(address):
    return any(begin <= address < end for begin, end in shared_areas())


class Noted:
    """The addresses of what is reduced; c10d's hooks stay as they are."""

    def __init__(self):
        from regroup.torch import _group
        self.buckets = set()
        plain = _group.ProcessGroup.allreduce

        def allreduce(group, tensors, opts=None):
            self.buckets.update(
                one.data_ptr() for one in tensors if one.numel() >= SIDE * SIDE)
            return plain(group, tensors, opts)
        _group.ProcessGroup.allreduce = allreduce


def made(torch, group, **options):
    torch.manual_seed(1)
    layers = torch.nn.Sequential(
        torch.nn.Linear(SIDE, SIDE), torch.nn.ReLU(),
        torch.nn.Linear(SIDE, SIDE), torch.nn.Linear(SIDE, 1))
    return torch.nn.parallel.DistributedDataParallel(
        layers, process_group=group, bucket_cap_mb=1, **options)


def stepped(torch, ddp, me, step):
    """The gradients of a step; in the first one DDP finds its buckets, behind
    it it makes others."""
    ddp.zero_grad(set_to_none=not ddp.gradient_as_bucket_view)
    generator = torch.Generator().manual_seed(10 * step + me)
    ddp(torch.randn(8, SIDE, generator=generator)).pow(2).sum().backward()
    return [one.grad for one in ddp.parameters()]


def equals_gloo(torch, dist, me, noted, shares):
    gloo = dist.new_group(backend="gloo")
    for is_view in (False, True):
        options = {"gradient_as_bucket_view": is_view}
        ours, theirs = (made(torch, group, **options)
                        for group in (None, gloo))
        for step in range(4):
            noted.buckets.clear()
            pairs = zip(stepped(torch, ours, me, step),
                        stepped(torch, theirs, me, step))
            assert all(torch.equal(one, other) for one, other in pairs), step
            assert all(is_shared(one) == shares for one in noted.buckets)
        assert len(noted.buckets) >= 2, noted.buckets


def child_has_its_own(torch, ddp, me):
    before = [one.clone() for one in stepped(torch, ddp, me, 1)]
    grads = [one.grad for one in ddp.parameters()]
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # as in a worker of DataLoader
        is_right = all(map(torch.equal, grads, before))
        for one in grads:
            one.zero_()
        os._exit(0 if is_right and not any(map(torch.any, grads)) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    assert all(map(torch.equal, grads, before))
    file = io.BytesIO()
    torch.save(grads, file)
    file.seek(0)
    assert all(map(torch.equal, torch.load(file), before))


def until_areas_are(expected, what):
    """Those of others go when the agent has told this process."""
    late = time.monotonic() + SOON
    while len(shared_areas()) != expected:
        gc.collect()
        assert time.monotonic() < late, (what, shared_areas())
        time.sleep(0.01)


def memory_goes_with_ddp(torch, dist, me):
    dist.barrier()
    before = len(shared_areas())
    for _ in range(5):
        ddp = made(torch, None)
        for step in range(3):
            stepped(torch, ddp, me, step)
        assert dist.get_world_size() == 1 or len(shared_areas()) > before
        dist.barrier()
        del ddp
        until_areas_are(before, "DDP is gone, and its buckets are not")
        dist.barrier()


def static():
    import regroup.torch
    import torch
    import torch.distributed as dist
    from regroup.torch import _ddp
    dist.init_process_group("regroup", init_method="regroup://")
    me, n = dist.get_rank(), dist.get_world_size()
    noted = Noted()
    memory_goes_with_ddp(torch, dist, me)
    equals_gloo(torch, dist, me, noted, n > 1)
    child_has_its_own(torch, made(torch, None, gradient_as_bucket_view=True),
                      me)
    if me == 0:
        _ddp.lib = types.SimpleNamespace(
            rg_register=lambda *_: regroup.Status.ERR_MEMORY)
    equals_gloo(torch, dist, me, noted, n > 1 and me > 0)


def elastic():
    import regroup
    import regroup.torch
    import torch
    import torch.distributed as dist
    areas = {}
    with regroup.init(elastic=True) as ctx:
        state = regroup.torch.State(at=0)
        noted = Noted()

        @regroup.run
        def train(state):
            dist.init_process_group("regroup", init_method="regroup://")
            me, n = dist.get_rank(), dist.get_world_size()
            ddp = made(torch, None)
            for step in itertools.count():
                noted.buckets.clear()
                stepped(torch, ddp, me, step)
                assert n == 1 or all(map(is_shared, noted.buckets))
                if n == 2 and step == 5:
                    # as many as in the first generation
                    until_areas_are(
                        areas.setdefault("world", len(shared_areas())),
                        "buckets of the generation before are still there")
                state.at = state.at + 1
                state.commit()
                if step > 5 and not pyjob.goes_on(ctx):
                    return

        train(state)


def test():
    from house import Job
    for size in (1, 2):
        pyjob.job(size, pyjob.command("static", modules=("torch", "numpy")))
    with Job(["--min", "2", "--max", "2"],
             pyjob.command("elastic", pyjob.UNTIL_FINISH,
                           modules=("torch", "numpy")),
             env=pyjob.environment()) as job:
        for step in (20, 40):
            job.wait_step(step)
            before = job.generation()
            job.kill(rank=1)
            job.wait_world(2, above=before)
        job.wait_step(job.step() + 20)
        job.finish()


def work():
    (static if sys.argv[2] == "static" else elastic)()


pyjob.main(work, test=test)
