"""DistributedOptimizer of regroup.torch trains as one process does on all
samples: with buckets of one parameter and of all, with accumulated gradients, a
rank that has no gradient of a parameter, half types on the way, clipping, a set,
and parameters that begin to learn later. With Adasum, changes that are
orthogonal are added, and equal ones averaged. Batch norm over ranks equals that of one process, forward and backward;
gradients go through the collectives; parameters, optimizers and objects begin
as rank 0's; tensors of shared memory are tensors.

Covers: torch/_optimizer.py torch/_functions.py _sets.py"""
import pyjob


def models(torch):
    torch.manual_seed(3)
    return [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(),
                                torch.nn.Linear(8, 2)) for _ in range(1)][0]


def trained(torch, make, parts, passes=1, clip=False):
    """The weights after three steps; parts(step): the passes' samples."""
    model = models(torch)
    optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1,
                                     momentum=0.9))
    for step in range(3):
        optimizer.zero_grad()
        for samples in parts(step):
            (model(samples).pow(2).sum() / passes).backward()
        if clip:
            if hasattr(optimizer, "synchronize"):
                optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if hasattr(optimizer, "synchronize"):
                with optimizer.skip_synchronize():
                    optimizer.step()
                continue
        optimizer.step()
    return torch.cat([p.detach().view(-1) for p in model.parameters()])


def optimizers(torch, ctx, n, me):
    import regroup
    from regroup.torch import DistributedOptimizer

    def samples(step, rank, part=0):
        generator = torch.Generator().manual_seed(100 * step + rank + 50 * part)
        return torch.randn(3, 4, generator=generator)

    def whole(step):
        return [torch.cat([samples(step, r) for r in range(n)])]

    for more in {"bucket_bytes": 1}, {}:
        found = trained(torch, lambda o: DistributedOptimizer(
            o, op=regroup.SUM, **more), lambda s: [samples(s, me)])
        expected = trained(torch, lambda o: o, whole)
        assert torch.allclose(found, expected, atol=1e-6), found - expected
    found = trained(torch, lambda o: DistributedOptimizer(
        o, op=regroup.SUM, passes=2),
        lambda s: [samples(s, me), samples(s, me, 1)], 2, True)
    expected = trained(torch, lambda o: o, lambda s: [torch.cat(
        [samples(s, r, part) for r in range(n)]) for part in (0, 1)], 2, True)
    assert torch.allclose(found, expected, atol=1e-6)
    half = trained(torch, lambda o: DistributedOptimizer(
        o, op=regroup.SUM, compression="bf16"), lambda s: [samples(s, me)])
    exact = trained(torch, lambda o: o, whole)
    assert not torch.equal(half, exact)
    assert torch.allclose(half, exact, atol=0.1)
    with ctx.set([me], name=f"alone{me}") if n == 1 else \
            ctx.split(me, name="alone") as alone:
        found = trained(torch, lambda o: DistributedOptimizer(
            o, members=alone), lambda s: [samples(s, me)])
        assert torch.allclose(found, trained(
            torch, lambda o: o, lambda s: [samples(s, me)]))
    used = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizer = DistributedOptimizer(torch.optim.SGD(
        [p for one in used for p in one.parameters()], lr=1.0))
    used[me % 2](torch.ones(1, 2)).sum().backward()
    try:
        optimizer.zero_grad()
        raise AssertionError("zero_grad was taken between backward and step")
    except regroup.Invalid as error:
        assert "call step" in error.sentence
    optimizer.step()
    assert used[1].bias.grad[0].item() * n == n // 2


def adasum(torch, ctx, n, me):
    from regroup.torch import DistributedOptimizer
    for compression in None, "bf16":
        one = torch.nn.Parameter(torch.ones(n + 1, dtype=torch.float64))
        optimizer = DistributedOptimizer(
            torch.optim.SGD([one], lr=0.5, momentum=0.5), adasum=True,
            compression=compression)
        steps = torch.ones(n + 1, dtype=torch.float64)
        change = torch.zeros_like(steps)
        for _ in range(2):
            optimizer.zero_grad()
            one[me].mul(4).backward()  # all ranks' changes are orthogonal
            optimizer.step()
            change = change / 2 - 2  # by momentum, on this rank alone
            steps[:n] += change[:n]
        assert torch.equal(one.detach(), steps), (one, steps)
        optimizer.zero_grad()
        kept = one.detach().clone()
        optimizer.param_groups[0]["momentum"] = 0
        one[n].mul(2).backward()  # and these are equal
        optimizer.step()
        assert torch.equal(kept - one.detach(), torch.tensor(
            [0.0] * n + [1.0], dtype=torch.float64))


def grown(torch, ctx, n, me):
    """Parameters begin to learn after the optimizer was made; one has no
    element."""
    from regroup.torch import DistributedOptimizer
    late = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
    first = torch.nn.Linear(1, 1, bias=False)
    none = torch.nn.Parameter(torch.ones(0))
    for one in late, first:
        one.weight.data.fill_(1)
    optimizer = DistributedOptimizer(torch.optim.SGD(
        [first.weight, late.weight, none], lr=1.0), bucket_bytes=1 << 20)
    for step in range(3):
        late.requires_grad_(step > 0)
        optimizer.zero_grad()
        (first(torch.full((1, 1), float(me))) + late(torch.full(
            (1, 1), 2.0 * me)) + none.sum()).sum().backward()
        optimizer.step()
    mean = (n - 1) / 2
    assert first.weight.item() == 1 - 3 * mean, first.weight
    assert late.weight.item() == 1 - 2 * 2 * mean, late.weight


def functions(torch, ctx, n, me):
    import regroup.torch as rt
    whole = torch.arange(n * 6 * 2, dtype=torch.float64).view(n * 6, 2).sin()
    one = torch.nn.BatchNorm1d(2).double()
    all_ = rt.SyncBatchNorm(2).double()
    mine, every = (whole[6 * me:6 * me + 6].clone().requires_grad_(),
                   whole.clone().requires_grad_())
    scale = torch.arange(n * 12, dtype=torch.float64).view(n * 6, 2).cos()
    (one(every) * scale).sum().backward()
    (all_(mine) * scale[6 * me:6 * me + 6]).sum().backward()
    assert torch.allclose(mine.grad, every.grad[6 * me:6 * me + 6])
    assert torch.allclose(all_.running_var, one.running_var)
    assert torch.allclose(all_.eval()(mine), one.eval()(mine))
    rows = torch.full((me + 1, 2), 1.0, requires_grad=True)
    rt.allgather(rows).mul(2).sum().backward()
    assert (rows.grad == 2 * n).all()
    sent = torch.ones(n, 1, requires_grad=True)
    out, splits = rt.alltoall(sent)
    (out * (me + 1)).sum().backward()
    assert sent.grad.view(-1).tolist() == [r + 1 for r in range(n)]
    assert splits.tolist() == [1] * n
    x = torch.ones(n, requires_grad=True)
    rt.reduce_scatter(x).sum().mul(me + 1).backward()
    assert x.grad.tolist() == [r + 1 for r in range(n)]
    y = torch.ones(2, requires_grad=True)
    rt.broadcast(y, n - 1).sum().backward()
    assert (y.grad == (n if me == n - 1 else 0)).all()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (me + 1))
    if me == 0:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    rt.broadcast_parameters(model.state_dict())
    rt.broadcast_optimizer_state(optimizer)
    seen = rt.allgather_object((
        model.weight.tolist(), optimizer.param_groups[0]["lr"],
        optimizer.state[model.weight]["exp_avg"].tolist()))
    assert all(one == seen[0] for one in seen) and seen[0][1] == 0.1
    shared = rt.empty(3, 2, dtype=torch.bfloat16)
    shared.fill_(1)
    ctx.world.allreduce(shared, out=shared)
    assert (shared == n).all() and shared.shape == (3, 2)


def work():
    import regroup
    import torch
    with regroup.init() as ctx:
        optimizers(torch, ctx, ctx.size, ctx.rank)
        adasum(torch, ctx, ctx.size, ctx.rank)
        grown(torch, ctx, ctx.size, ctx.rank)
        functions(torch, ctx, ctx.size, ctx.rank)


pyjob.main(work, sizes=(2,), modules=("torch", "numpy"))
