"""Train a torch model with DDP, on workers that come and go.

    regroup run --min 1 --max 2 python3 examples/python/05_torch.py

Rank 0 prints, after its worker's name,

    epoch 1 loss 0.5489 (generation 1, 2 workers)
    final accuracy 0.8848 state 9c82ca1672fe2d53

Kill a worker meanwhile: the others keep their processes, go back to the last
commit, and form torch's process group again; a replacement joins them. Without
`elastic=True` and State it is a program of torch.distributed as any other.
"""

import argparse
import hashlib
import time

import regroup
import regroup.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def read_flags():
    flags = argparse.ArgumentParser()
    flags.add_argument("--epochs", type=int, default=10)
    flags.add_argument("--batch", type=int, default=32)
    flags.add_argument("--step-ms", type=int, default=0)
    return flags.parse_args()


def make_data():
    """Points of the plane, and whether they lie in a ring."""
    generator = torch.Generator().manual_seed(7)
    points = torch.rand(512, 2, generator=generator) * 4 - 2
    radius = points.norm(dim=1)
    return torch.utils.data.TensorDataset(
        points, ((radius > 0.7) & (radius < 1.6)).long())


def make_model():
    return torch.nn.Sequential(
        torch.nn.Linear(2, 32), torch.nn.LayerNorm(32), torch.nn.ReLU(),
        torch.nn.Linear(32, 2))


@regroup.run
def train(state, flags, sampler, data):
    """Called again from the top after every change, with all that State has as
    the last commit left it."""
    dist.init_process_group("regroup", init_method="regroup://")
    model = DistributedDataParallel(state.model)
    while sampler.epoch < flags.epochs:
        for points, classes in torch.utils.data.DataLoader(
                data, batch_sampler=sampler):
            state.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(points), classes)
            loss.backward()  # DDP averages the gradients
            state.optimizer.step()
            state.loss = loss.item()
            time.sleep(flags.step_ms / 1000)  # as if the model were larger
            state.commit()


def main():
    flags = read_flags()
    torch.manual_seed(7)
    data = make_data()
    model = make_model()
    with regroup.init(elastic=True) as ctx:
        state = regroup.torch.State(
            model=model, loss=0.0,
            optimizer=torch.optim.Adam(model.parameters(), lr=0.02))
        sampler = regroup.torch.BatchSampler(len(data), flags.batch,
                                             state=state, seed=7)

        def report(done):  # once for each step that counts
            if ctx.rank == 0 and done % sampler.steps == 0:
                print(f"epoch {done // sampler.steps} loss {state.loss:.4f} "
                      f"(generation {ctx.generation}, {ctx.size} workers)",
                      flush=True)

        state.on_commit(report)
        train(state, flags, sampler, data)
        if ctx.rank == 0:
            model.eval()
            points, classes = data.tensors
            right = (model(points).argmax(dim=1) == classes).float().mean()
            bytes_ = b"".join(tensor.numpy().tobytes()
                              for tensor in model.state_dict().values())
            print(f"final accuracy {right:.4f} "
                  f"state {hashlib.sha256(bytes_).hexdigest()[:16]}")


main()
