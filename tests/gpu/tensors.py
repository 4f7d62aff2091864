"""torch's tensors on the device, under `regroup run`: `tensors.py WHAT`.

  collectives   torch.distributed over the backend "regroup"
  optimizer     regroup.torch.DistributedOptimizer, beside one process
  elastic       DDP, Adam and State, which a kill takes back to a commit

Rank 0 prints "right: WHAT", and of elastic the hash of its final state."""
import hashlib
import sys

import regroup
import regroup.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def collectives():
    with regroup.init() as ctx:
        ctx.device_open()
        dist.init_process_group("regroup", init_method="regroup://")
        me, n = dist.get_rank(), dist.get_world_size()
        for dtype in (torch.float32, torch.bfloat16, torch.float16,
                      torch.float64, torch.int32, torch.int64):
            tensor = torch.full((300, 7), me + 1, device="cuda").to(dtype)
            dist.all_reduce(tensor)
            assert (tensor == n * (n + 1) // 2).all(), (dtype, tensor)
        for op, expected in (("AVG", (n + 1) / 2), ("MAX", n), ("MIN", 1)):
            tensor = torch.full((5000,), me + 1.0, device="cuda")
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            assert (tensor == expected).all(), (op, tensor)
        tensor = torch.full((4, 5), me + 1.0, device="cuda").t()
        dist.all_reduce(tensor)
        assert (tensor == n * (n + 1) / 2).all(), tensor
        tensor = torch.full((1000,), float(me), device="cuda")
        dist.broadcast(tensor, n - 1)
        assert (tensor == n - 1).all(), tensor
        seen = [torch.zeros(9, device="cuda") for _ in range(n)]
        dist.all_gather(seen, torch.full((9,), float(me), device="cuda"))
        assert [one[0].item() for one in seen] == list(range(n)), seen
        whole = torch.zeros(n * 9, device="cuda")
        dist.all_gather_into_tensor(whole, seen[me])
        assert (whole.view(n, 9)[:, 0].cpu() == torch.arange(n)).all()
        part = torch.zeros(9, device="cuda")
        dist.reduce_scatter_tensor(part, torch.ones(n * 9, device="cuda"))
        assert (part == n).all(), part
        taken = torch.zeros(n, device="cuda")
        dist.all_to_all_single(taken,
                               torch.arange(n, device="cuda") + 10. * me)
        assert taken.tolist() == [10 * r + me for r in range(n)], taken
        works = [dist.all_reduce(torch.ones(1000 + i, device="cuda"),
                                 async_op=True) for i in range(20)]
        for work in reversed(works):
            work.wait()
        side = torch.cuda.Stream()
        big = torch.zeros(1 << 20, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(100):
                big += 1
            dist.all_reduce(big)
            big *= 2
        side.synchronize()
        assert (big == 200 * n).all(), big
        group = dist.new_group([0])
        if me == 0:
            dist.all_reduce(tensor, group=group)
        dist.barrier()
        if me == 0:
            print("right: collectives", flush=True)


def make_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
        torch.nn.Linear(64, 4)).cuda()


def samples(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(32, 16, generator=generator).cuda()


def optimizer():
    with regroup.init() as ctx:
        ctx.device_open()
        me, n = ctx.rank, ctx.size
        ends = []
        for parts, more in ((lambda step: samples(step, me), True),
                            (lambda step: torch.cat(
                                [samples(step, r) for r in range(n)]), False)):
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(16, 64),
                                        torch.nn.Tanh(),
                                        torch.nn.Linear(64, 4)).cuda()
            plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            opt = regroup.torch.DistributedOptimizer(plain) if more else plain
            for step in range(10):
                opt.zero_grad()
                model(parts(step)).pow(2).mean().backward()
                opt.step()
            ends.append(torch.cat([p.detach().view(-1)
                                   for p in model.parameters()]))
        assert torch.allclose(*ends, atol=1e-5), (ends[0] - ends[1]).abs().max()
        ctx.world.barrier()
        if me == 0:
            print("right: optimizer", flush=True)


@regroup.run
def train(state, ctx):
    dist.init_process_group("regroup", init_method="regroup://")
    model = DistributedDataParallel(state.model)
    while state.step < STEPS:
        state.optimizer.zero_grad()
        model(samples(state.step, ctx.rank)).pow(2).mean().backward()
        state.optimizer.step()
        state.step += 1
        state.commit()


def elastic():
    with regroup.init(elastic=True) as ctx:
        ctx.device_open()
        model = make_model()
        state = regroup.torch.State(
            model=model, step=0,
            optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
        train(state, ctx)
        if ctx.rank == 0:
            bytes_ = b"".join(one.detach().cpu().numpy().tobytes()
                              for one in model.parameters())
            print(f"final state {hashlib.sha256(bytes_).hexdigest()[:16]}")
            print("right: elastic", flush=True)


{"collectives": collectives, "optimizer": optimizer,
 "elastic": elastic}[sys.argv[1]]()
