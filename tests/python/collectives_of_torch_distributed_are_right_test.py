"""Every operation of torch.distributed over the backend "regroup" is what its
closed form says, for whole worlds and groups, for tensors that are transposed,
strided, complex, scalar or empty, and for works that are awaited later, through
futures or from another thread. Wrong input is one sentence, and the group works
on.

Covers: torch/_group.py torch/_rendezvous.py _buffers.py"""
import weakref

import pyjob


def reductions(dist, torch, n, me):
    ops = {"SUM": n * (n + 1) / 2, "AVG": (n + 1) / 2, "MAX": n, "MIN": 1,
           "PRODUCT": [1, 1, 2, 6][n]}
    for name, expected in ops.items():
        tensor = torch.full((3, 2), me + 1.0)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        assert (tensor == expected).all(), (name, tensor)
    bits = torch.tensor([1 << me])
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    assert bits.item() == (1 << n) - 1
    for tensor in (torch.ones(4, 5).t(), torch.ones(9)[::2],
                   torch.ones(2, 3, dtype=torch.complex64),
                   torch.tensor(1.0), torch.ones(0),
                   torch.nn.Parameter(torch.ones(2))):
        dist.all_reduce(tensor)
        assert (tensor == n).all(), tensor
    root = torch.full((2,), me + 1.0)
    dist.reduce(root, n - 1)
    assert me < n - 1 or (root == n * (n + 1) / 2).all()
    out = torch.zeros(2, 2).t()
    dist.reduce_scatter(out, [torch.full((2, 2), float(r)) for r in range(n)])
    assert (out == n * me).all(), out
    dist._reduce_scatter_base(out, torch.ones(2 * n, 2))
    assert (out == n).all()


def movements(dist, torch, n, me):
    for dtype in (torch.int16, torch.complex128, torch.bfloat16, torch.bool):
        mine = torch.full((2, 3), me + 1).to(dtype)
        seen = [torch.zeros(2, 3, dtype=dtype) for _ in range(n)]
        dist.all_gather(seen, mine)
        for rank, one in enumerate(seen):
            assert torch.equal(one, torch.full((2, 3), rank + 1).to(dtype))
        dist.broadcast(mine, n - 1)
        assert torch.equal(mine, torch.full((2, 3), n).to(dtype))
    whole = torch.zeros(n, 2)
    dist._all_gather_base(whole, torch.full((2,), float(me)))
    assert (whole[:, 0] == torch.arange(n)).all()
    parts = [torch.zeros(()) for _ in range(n)] if me == 0 else None
    dist.gather(torch.tensor(float(me)), parts)
    assert me or [one.item() for one in parts] == list(range(n))
    got = torch.zeros(4)[::2]
    dist.scatter(got, [torch.full((2,), 7.0 + r) for r in range(n)]
                 if me == 0 else None)
    assert (got == 7 + me).all()
    for dtype in torch.int64, torch.int16:
        sent = torch.arange(n, dtype=dtype) + 10 * me
        taken = torch.zeros(n, dtype=dtype)
        dist.all_to_all_single(taken, sent)
        assert taken.tolist() == [10 * r + me for r in range(n)]
    rows = torch.full((n * (n + 1) // 2, 2), float(me))
    into = torch.zeros(n * (me + 1), 2)  # r + 1 rows go to rank r
    dist.all_to_all_single(into, rows, [me + 1] * n,
                           [r + 1 for r in range(n)])
    assert into[::me + 1, 0].tolist() == list(range(n))
    lists = [torch.zeros(me + 1, dtype=torch.int16) for _ in range(n)]
    dist.all_to_all(lists, [torch.full((r + 1,), me, dtype=torch.int16)
                            for r in range(n)])
    assert [one[0].item() for one in lists] == list(range(n))
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": me})
    assert objects == [{"rank": r} for r in range(n)]
    named = [me, "x"]
    dist.broadcast_object_list(named, src=n - 1)
    assert named == [n - 1, "x"]


def works(dist, torch, n):
    tensors = [torch.ones(100 + i) for i in range(20)]
    started = [dist.all_reduce(one, async_op=True) for one in tensors]
    for work in reversed(started):
        assert work.wait() and work.is_completed() and work.is_success()
    assert all((one == n).all() for one in tensors)
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    assert (future.then(lambda f: f.value()[0] + 1).wait() == n + 1).all()
    dist.barrier()
    tensor = torch.ones(9)
    seen = weakref.ref(tensor)
    dist.all_reduce(tensor)
    dist.all_gather([torch.empty(9) for _ in range(n)], tensor)
    del tensor
    assert seen() is None, "a tensor outlives what was done with it"


def messages(dist, torch, n, me):
    after, before = (me + 1) % n, (me - 1) % n
    got = [torch.zeros(4, 3).t(), torch.zeros(5000)]
    started = [dist.isend(torch.full((3, 4), float(me)), after, tag=1),
               dist.isend(torch.full((5000,), me + 0.5), after, tag=2),
               dist.irecv(got[1], before, tag=2),
               dist.irecv(got[0], before, tag=1)]
    for one in started:
        one.wait()
    assert (got[0] == before).all() and (got[1] == before + 0.5).all()
    for one in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((2,), float(me)), after),
            dist.P2POp(dist.irecv, got[1][:2], before)]):
        one.wait()
    assert got[1][:2].tolist() == [before, before], got


def newer_names(dist, torch, n, me):
    """What torch 2 calls on a group, whichever torch is here."""
    from torch._C._distributed_c10d import GatherOptions
    group = dist.distributed_c10d._get_default_group()
    assert group._get_backend(torch.device("cpu")) is group
    whole, kept, taken = torch.zeros(n, 2), torch.zeros(2), torch.zeros(n)
    group.all_gather_single(whole, torch.full((2,), me + 1.0), None).wait()
    assert whole.tolist() == [[r + 1.0] * 2 for r in range(n)], whole
    group.reduce_scatter_single(kept, torch.ones(2 * n), None).wait()
    assert kept.tolist() == [n, n], kept
    group.all_to_all_single(taken, torch.full((n,), me + 1.0), [], [],
                            None).wait()
    assert taken.tolist() == [r + 1.0 for r in range(n)], taken
    group.all_gather_single_coalesced([taken.zero_()], [torch.ones(1)],
                                      None).wait()
    group.reduce_scatter_single_coalesced([kept], [torch.ones(2 * n)],
                                          None).wait()
    assert taken.tolist() == [1.0] * n and kept.tolist() == [n, n]
    options = GatherOptions()
    options.rootRank = n - 1
    columns = torch.zeros(2, n).t()
    group.gather_single(columns, torch.full((2,), me + 1.0), options).wait()
    assert me != n - 1 or torch.equal(columns, whole), columns


def groups(dist, torch, n, me):
    first = dist.new_group([0])
    last = dist.new_group(list(range(1, n)) or [0])
    mine = first if me == 0 or n == 1 else last
    size = dist.get_world_size(mine)
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=mine)
    assert (tensor == size).all() and size == max(1, me and n - 1)
    dist.broadcast(tensor, src=0 if me == 0 else 1, group=mine)
    one, two = torch.ones(1), torch.full((1,), 7.0)
    twins = dist.new_group(), dist.new_group()  # of the same ranks
    started = [dist.all_reduce(tensor, group=group, async_op=True)
               for tensor, group in sorted(
                   zip((one, two), twins), reverse=me % 2 == 1,
                   key=lambda pair: pair[0].item())]
    for work in started:
        work.wait()
    assert (one.item(), two.item()) == (n, 7 * n), (one, two)
    dist.destroy_process_group(mine)
    assert dist.get_world_size(dist.new_group()) == n


def modules(dist, torch, n, me):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4),
                                torch.nn.BatchNorm1d(4))
    extra = torch.nn.Linear(2, 2)  # unused
    model.add_module("extra", extra)
    model.forward = lambda x: model[1](model[0](x))
    ddp = torch.nn.parallel.DistributedDataParallel(
        model, find_unused_parameters=True, bucket_cap_mb=0.00001)
    for step in range(3):
        generator = torch.Generator().manual_seed(10 * step + me)
        ddp(torch.randn(6, 3, generator=generator)).pow(2).sum().backward()
    grads = [torch.zeros(4, 3) for _ in range(n)]
    dist.all_gather(grads, model[0].weight.grad)
    assert all(torch.equal(one, grads[0]) for one in grads)


def mistakes(dist, torch, n, me):
    import regroup

    def refused(part, call, *arguments, **named):
        try:
            call(*arguments, **named)
        except regroup.RegroupError as error:
            assert part in str(error), error
            return
        raise AssertionError(f"{call} of {arguments} was not refused")

    refused("to_dense", dist.all_reduce, torch.ones(2).to_sparse())
    refused("on meta", dist.all_reduce, torch.ones(2, device="meta"))
    refused("int16", dist.all_reduce, torch.ones(2, dtype=torch.int16))
    refused("pass src", dist.recv, torch.ones(2))
    refused("rows", dist.all_to_all_single, torch.ones(n + 1),
            torch.ones(n + 1)) if n > 1 else None
    if n > 1:
        refused("", dist.all_reduce, torch.ones(2 + me))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == n


def work():
    import regroup
    import regroup.torch
    import torch
    import torch.distributed as dist
    dist.init_process_group("regroup", init_method="regroup://")
    n, me = dist.get_world_size(), dist.get_rank()
    reductions(dist, torch, n, me)
    movements(dist, torch, n, me)
    works(dist, torch, n)
    messages(dist, torch, n, me)
    newer_names(dist, torch, n, me)
    groups(dist, torch, n, me)
    modules(dist, torch, n, me)
    mistakes(dist, torch, n, me)
    dist.destroy_process_group()
    try:
        dist.init_process_group("regroup", init_method="regroup://", rank=me,
                                world_size=n + 1)
        raise AssertionError("another world_size was taken")
    except regroup.Invalid as error:
        assert "leave world_size out" in str(error), error
    dist.init_process_group("regroup", init_method="regroup://")
    groups(dist, torch, n, me)


pyjob.main(work, sizes=(3,), modules=("torch",))
