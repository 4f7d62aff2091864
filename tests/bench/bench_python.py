#!/usr/bin/env python3
"""bench_python: what a call from Python costs, beside the same call in C.

  bench_python [-n WORKERS] [--turns T] [--seconds S] [--torch | --ddp]

In each turn, in one world: C, Python with its compiled part, and Python alone
(ctypes). Rows are microseconds, the least of the turns: an allreduce of 8 bytes
in place, 160 arrays of 4 KiB one by one, as a group, and one flat buffer of as
many bytes. --torch: tensors instead of arrays of numpy. --ddp: instead of all
these, backward of ResNet-50's parameters in DDP over the backend "regroup", in
DDP over gloo, in DDP with a hook that sends nothing, and without DDP: medians
of milliseconds.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import time

BUILD = "@CMAKE_BINARY_DIR@"
SOURCE = "@CMAKE_SOURCE_DIR@"
TENSORS, COUNT = 160, 1024


def asked():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    given = asked()
    if given.work:
        work(given)
        return 0
    env = dict(os.environ, PYTHONPATH=f"{SOURCE}/sdk/python",
               REGROUP_LIBRARY=f"{BUILD}/lib/libregroup.so")
    command = [f"{BUILD}/bin/regroup", "run", "-n", str(given.n), "--",
               sys.executable, os.path.abspath(__file__), "--work",
               *sys.argv[1:]]
    return subprocess.run(command, env=env, check=False).returncode


class Rows:
    """The least time of each call, in the order of their first turns."""

    def __init__(self, world, seconds):
        self.least = {}
        self._world = world
        self._seconds = seconds

    def add(self, name, timed):
        """timed(n): seconds for each of n calls; equally many on all ranks."""
        import array

        import regroup
        timed(3)
        n = array.array("q", [min(20000, max(
            5, int(self._seconds / max(1e-7, timed(5)))))])
        self._world.allreduce(n, n, op=regroup.MIN)
        self.least[name] = min(self.least.get(name, 1e9), timed(n[0]))


def timed(call):
    def run(n):
        begin = time.perf_counter()
        for _ in range(n):
            call()
        return (time.perf_counter() - begin) / n
    return run


def arrays(given):
    """(one of 8 bytes, many small ones, a flat one, their addresses)."""
    if given.torch:
        import torch
        made = [torch.ones(n) for n in (2, *[COUNT] * TENSORS,
                                        COUNT * TENSORS)]
        places = [one.data_ptr() for one in made]
    else:
        import numpy
        made = [numpy.ones(n, "f4") for n in (2, *[COUNT] * TENSORS,
                                              COUNT * TENSORS)]
        places = [one.ctypes.data for one in made]
    return made[0], made[1:-1], made[-1], places


def in_c(rows, ctx, places):
    from regroup import _abi
    ctypes.CDLL(_abi.LIBRARY, ctypes.RTLD_GLOBAL)
    calls = ctypes.CDLL(f"{BUILD}/tests/libbench_python_calls.so")
    calls.bench_allreduce.restype = calls.bench_group.restype = \
        ctypes.c_double
    world = ctypes.c_void_p(ctx.world._handle)
    many = (ctypes.c_void_p * TENSORS)(*places[1:-1])

    def single(place, count):
        return lambda n: calls.bench_allreduce(
            world, ctypes.c_void_p(place), ctypes.c_uint64(count), n)
    rows.add("8 bytes, C", single(places[0], 2))
    rows.add("flat, C", single(places[-1], COUNT * TENSORS))
    rows.add("group, C", lambda n: calls.bench_group(
        ctypes.c_void_p(ctx.handle), world, many, TENSORS,
        ctypes.c_uint64(COUNT), n))


def in_python(rows, ctx, made, how):
    import regroup
    one, many, flat = made
    reduce, op = ctx.world.allreduce, regroup.MAX

    def one_by_one():
        for array in many:
            reduce(array, array, op=op)
    rows.add(f"8 bytes, {how}", timed(lambda: reduce(one, one, op=op)))
    rows.add(f"flat, {how}", timed(lambda: reduce(flat, flat, op=op)))
    rows.add(f"group, {how}", timed(
        lambda: ctx.world.grouped_allreduce(many, many, op=op)))
    rows.add(f"one by one, {how}", timed(one_by_one))


# ------------------------------------------------------------- DDP and gloo

def resnet50():
    """Its parameters' elements, as in bench_gradients.c."""
    found, last, width = [64 * 3 * 49, 64, 64], 64, 64

    def convolution(into, out, side):
        found.extend([into * out * side * side, out, out])
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            convolution(last, width, 1)
            convolution(width, width, 3)
            convolution(width, 4 * width, 1)
            if block == 0:
                convolution(last, 4 * width, 1)
            last = 4 * width
        width *= 2
    return [*found, 2048 * 1000, 1000]


def send_nothing(_, bucket):
    import torch
    sent = torch.futures.Future()
    sent.set_result(bucket.buffer())
    return sent


def ddp(given):
    import statistics

    import regroup.torch
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("regroup", init_method="regroup://")
    parallel = torch.nn.parallel.DistributedDataParallel

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.all = torch.nn.ParameterList(
                [torch.nn.Parameter(torch.ones(n)) for n in resnet50()])

        def forward(self):
            return sum(one.sum() for one in self.all) * (dist.get_rank() + 1)

    models = {"regroup": parallel(Model()), "gloo": parallel(
        Model(), process_group=dist.new_group(backend="gloo")),
        "sends nothing": parallel(Model()), "none": Model()}
    models["sends nothing"].register_comm_hook(None, send_nothing)
    took = {name: [] for name in models}
    for turn in range(given.turns + 1):  # the first one warms up
        for name, model in models.items():
            for _ in range(3):
                model.zero_grad(set_to_none=True)
                dist.barrier()
                begin = time.perf_counter()
                model().backward()
                if turn:
                    took[name].append(time.perf_counter() - begin)
            if name in ("regroup", "gloo"):
                mean = next(model.parameters()).grad[0].item()
                assert mean == (given.n + 1) / 2, mean
    if dist.get_rank() == 0:
        for name, seconds in took.items():
            print(f"DDP, {name:20} {statistics.median(seconds) * 1e3:10.2f} ms",
                  flush=True)


def work(given):
    import regroup
    from regroup import _sets
    if given.ddp:
        ddp(given)
        return
    *made, places = arrays(given)
    with regroup.init() as ctx:
        rows, fast = Rows(ctx.world, given.seconds), _sets.fast
        for _ in range(given.turns):
            in_c(rows, ctx, places)
            if fast is not None:
                in_python(rows, ctx, made, "compiled")
            _sets.fast = None
            in_python(rows, ctx, made, "ctypes")
            _sets.fast = fast
        if ctx.rank == 0:
            for name, seconds in rows.least.items():
                print(f"{name:24} {seconds * 1e6:10.2f} us", flush=True)


if __name__ == "__main__":
    sys.exit(main())
