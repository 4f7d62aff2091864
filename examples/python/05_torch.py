"""Train a torch model on the CPU, with gradients averaged by Regroup.

    regroup run -n 2 python3 examples/python/05_torch.py

Rank 0 prints, after its worker's name,

    step 100 loss 0.0000: 2.00 x + 1.00

for any number of workers. Tensors are passed as they are; nothing is copied.
"""

import regroup
import torch

STEPS = 100

torch.manual_seed(7)  # the same samples on all ranks
points = torch.linspace(-1, 1, 120).reshape(-1, 1)
values = 2 * points + 1
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

with regroup.init() as ctx:
    mine = slice(ctx.rank, None, ctx.size)
    for weights in model.parameters():
        ctx.world.broadcast(weights.data)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = ((model(points[mine]) - values[mine]) ** 2).mean()
        loss.backward()
        regroup.wait_all([
            ctx.world.start_allreduce(weights.grad, out=weights.grad,
                                      op=regroup.AVG)
            for weights in model.parameters()])
        optimizer.step()
    if ctx.rank == 0:
        print(f"step {STEPS} loss {loss.item():.4f}: "
              f"{model.weight.item():.2f} x + {model.bias.item():.2f}")
