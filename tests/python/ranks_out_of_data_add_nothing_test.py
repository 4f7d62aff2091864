"""Uneven data and accumulated gradients train as one process does on the
samples that there are: DDP's no_sync and join over the backend "regroup", with
an average over all ranks or over those that have data, and the end of all ranks
at the first that has none; DistributedOptimizer and Horovod's with ranks that
have joined, also one that has had no data at all; all go on together after it.
DDP's PowerSGD hook, whose callbacks wait for operations of their own, trains
too, and a future of what has ended is there at once.

Covers: torch/_group.py torch/_rendezvous.py torch/_optimizer.py"""
import pyjob


def model(torch):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(),
                               torch.nn.Linear(8, 2))


def batch(torch, step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(3, 4, generator=generator)


def loss(torch, net, step, rank):
    return net(batch(torch, step, rank)).pow(2).sum()


def alone(torch, steps):
    """The model after these steps: each a list of (step, rank), and by what
    the sum of their gradients is divided."""
    net = model(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for parts, divisor in steps:
        optimizer.zero_grad()
        for step, rank in parts:
            (loss(torch, net, step, rank) / divisor).backward()
        optimizer.step()
    return net


def claim_equal(torch, net, expected):
    for one, other in zip(net.parameters(), expected.parameters()):
        assert torch.allclose(one, other, atol=1e-5), (one, other)


def uneven(batches, size, divides_by_all=True):
    """Steps of the ranks that have that many batches."""
    for step in range(max(batches)):
        there = [(step, rank) for rank in range(size) if step < batches[rank]]
        yield there, size if divides_by_all else len(there)


def ddp(torch, dist, n, me):
    def wrapped():
        net = model(torch)
        return (net, torch.nn.parallel.DistributedDataParallel(
            net, bucket_cap_mb=0.0001),
            torch.optim.SGD(net.parameters(), lr=0.05))

    net, both, optimizer = wrapped()
    for step in range(3):
        optimizer.zero_grad()
        with both.no_sync():
            loss(torch, both, 3 * step, me).backward()
            loss(torch, both, 3 * step + 1, me).backward()
        loss(torch, both, 3 * step + 2, me).backward()
        optimizer.step()
    claim_equal(torch, net, alone(torch, [
        ([(3 * step + i, rank) for i in range(3) for rank in range(n)], n)
        for step in range(3)]))

    batches = [2 + 3 * ((rank + 1) % n) for rank in range(n)]
    for by_all in True, False:
        net, both, optimizer = wrapped()
        with both.join(divide_by_initial_world_size=by_all):
            for step in range(batches[me]):
                optimizer.zero_grad()
                loss(torch, both, step, me).backward()
                optimizer.step()
        claim_equal(torch, net, alone(torch, uneven(batches, n, by_all)))
    _, both, _ = wrapped()
    try:
        with both.join(throw_on_early_termination=True):
            for step in range(batches[me]):
                loss(torch, both, step, me).backward()
        assert n == 1, "nothing was raised where rank 0 had no more data"
    except RuntimeError as error:
        assert "exhausted" in str(error), error


def powersgd(torch, dist, n, me):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    net = model(torch)
    both = torch.nn.parallel.DistributedDataParallel(net)
    both.register_comm_hook(powerSGD_hook.PowerSGDState(
        None, 4, start_powerSGD_iter=2, min_compression_rate=0.1),
        powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(5):
        optimizer.zero_grad()
        loss(torch, both, step, me).backward()
        optimizer.step()
    # A rank of 4 holds the small matrix whole, up to rounding.
    for one, other in zip(net.parameters(), alone(torch, [
            ([(step, rank) for rank in range(n)], n)
            for step in range(5)]).parameters()):
        assert torch.allclose(one, other, atol=0.02), one - other

    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    future = work.get_future()
    assert future.done() and future.value()[0].tolist() == [n, n]


def join(torch, n, me, distribute, joins, broadcast):
    """Rank 0 is the last; in a second turn the last rank has no data."""
    for batches in ([2 * (n - rank) for rank in range(n)],
                    [3] * (n - 1) + [3 if n == 1 else 0]):
        net = model(torch)
        optimizer = distribute(
            torch.optim.SGD(net.parameters(), lr=0.05))
        for step in range(batches[me]):
            optimizer.zero_grad()
            loss(torch, net, step, me).backward()
            optimizer.step()
        last = joins()
        assert batches[last] == max(batches), last
        broadcast(net, last)
        for step in 7, 8:  # all ranks, again
            optimizer.zero_grad()
            loss(torch, net, step, me).backward()
            optimizer.step()
        claim_equal(torch, net, alone(torch, [
            *uneven(batches, n),
            *[([(step, rank) for rank in range(n)], n) for step in (7, 8)]]))


def work():
    import regroup
    import regroup.horovod.torch as hvd
    import regroup.torch
    import torch
    import torch.distributed as dist
    with regroup.init() as ctx:
        n, me = ctx.size, ctx.rank
        dist.init_process_group("regroup", init_method="regroup://")
        ddp(torch, dist, n, me)
        powersgd(torch, dist, n, me)
        dist.destroy_process_group()
        join(torch, n, me, lambda optimizer: regroup.torch.
             DistributedOptimizer(optimizer, bucket_bytes=64), ctx.world.join,
             lambda net, root: regroup.torch.broadcast_parameters(
                 net.state_dict(), root))
        hvd.init()
        join(torch, n, me, hvd.DistributedOptimizer, hvd.join,
             lambda net, root: hvd.broadcast_parameters(
                 net.state_dict(), root))


pyjob.main(work, sizes=(1, 3), modules=("torch", "numpy"))
