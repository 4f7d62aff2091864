"""Train a network on handwritten digits, with workers that come and go.

    regroup run --min 1 --max 4 python3 examples/python/03_elastic_digits.py

Rank 0 prints its progress and the result, after its worker's name:

    step 120 loss 0.1585 accuracy 0.9192 (generation 1, 4 workers)
    final accuracy 0.9749 state cf92c64e8a4cb688

Kill a worker meanwhile: the others step on with one worker less, a
replacement joins, and accuracy and state come out the same, to the last bit
(on one machine; another's numpy may round differently).
With `--checkpoint-dir DIR` after `run` the whole job may be killed at once:
the same command goes on from the newest checkpoint. The network is in
digits_net.py.
"""

import argparse
import pathlib
import time

import digits_net
import numpy
import regroup

DATA = pathlib.Path(__file__).parent.parent / "data" / "digits.csv"


def read_flags():
    flags = argparse.ArgumentParser()
    flags.add_argument("--epochs", type=int, default=15)
    flags.add_argument("--batch", type=int, default=64)
    flags.add_argument("--step-ms", type=int, default=0)
    flags.add_argument("--data", default=DATA)
    return flags.parse_args()


def step(ctx, flags, model, sampler, train, sums):
    """One batch: this rank's part of it, then the sum of all parts."""
    done = int(model.step[0])
    epoch, k = divmod(done, sampler.steps)
    sums[:] = 0
    for i in sampler.take(epoch, k, ctx.rank, ctx.size):
        sums += model.gradient(train[0][i], train[1][i])
    time.sleep(flags.step_ms / 1000)  # as if the network were larger
    ctx.world.allreduce(sums, out=sums)
    model.apply(sums, sampler.batch_size(k))


@regroup.run
def fit(state, flags, model, sampler, train, sums):
    """Called again from the top after every change, with the model as the
    last commit has it; HostsChanged and PeerLost pass through it."""
    ctx = state.context
    while model.step[0] < sampler.steps * flags.epochs:
        step(ctx, flags, model, sampler, train, sums)
        state.commit()


def main():
    flags = read_flags()
    train, test = digits_net.read(flags.data)
    model = digits_net.Model()
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        for name, array in model.arrays().items():
            state.add(name, array)
        state.load()  # from the newest checkpoint, if there is one
        sampler = regroup.Sampler(len(train[0]), flags.batch, seed=7,
                                  state=state)
        sums = ctx.alloc(digits_net.WEIGHTS + 1, numpy.int64)

        def report(done):  # once for each step that counts
            if ctx.rank == 0 and done % 10 == 0:
                print(f"step {done} loss {model.loss[0]:.4f} accuracy "
                      f"{model.accuracy(test):.4f} (generation "
                      f"{ctx.generation}, {ctx.size} workers)", flush=True)

        state.on_commit(report)
        fit(state, flags, model, sampler, train, sums)
        if ctx.rank == 0:
            print(f"final accuracy {model.accuracy(test):.4f} "
                  f"state {model.hash()}")


main()
