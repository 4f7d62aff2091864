"""Tensors of torch in host memory are sent and filled, bfloat16 and half
included; results are tensors. Ranks may pass a tensor and another array of its
shape. One that needs a gradient is taken by its memory,
as torch.distributed takes it.

Covers: _buffers.py"""
import pyjob


def work():
    import regroup
    import torch
    with regroup.init() as ctx:
        world, n, me = ctx.world, ctx.size, ctx.rank
        for dtype in (torch.float32, torch.float64, torch.int32, torch.int64,
                      torch.uint8, torch.int8, torch.float16, torch.bfloat16):
            sent = torch.full((2, 3), me + 1, dtype=dtype)
            found = world.allreduce(sent)
            expected = torch.full((2, 3), n * (n + 1) // 2, dtype=dtype)
            assert found.dtype == dtype and torch.equal(found, expected)
            assert torch.equal(world.allgather(sent)[2 * me:2 * me + 2], sent)
            world.allreduce(sent, out=sent)
            assert torch.equal(sent, expected)
            world.broadcast(sent, root=n - 1)
        # The shape is what counts, not whether torch or Python names it.
        zeros = memoryview(bytearray(3 * 7 * 8)).cast("d", (3, 7))
        world.allreduce(torch.zeros(3, 7, dtype=torch.float64)
                        if me == 0 else zeros)
        model = torch.nn.Linear(4, 2)
        for weights in model.parameters():
            world.broadcast(weights.data)
        weights = torch.nn.Parameter(torch.ones(2, 2))
        found = world.allreduce(weights)
        assert not found.requires_grad and (found == n).all()
        world.allreduce(weights, out=weights)
        assert (weights == n).all()
        try:
            world.allreduce(torch.ones(4, 4).t())
            raise AssertionError("a transposed tensor was taken")
        except regroup.Invalid as error:
            assert "contiguous" in error.sentence


pyjob.main(work, modules=("torch",))
