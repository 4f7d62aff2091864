"""Messages between two members reach the receive with their tag, whatever the
order of the starts, and say how much came; one that is too long is a Mismatch.

Covers: sdk/python/regroup/_sets.py point_to_point.c
"""

import array

import pyjob


def work():
    import regroup
    with regroup.init() as ctx:
        world, me, n = ctx.world, ctx.rank, ctx.size
        right, left = (me + 1) % n, (me - 1) % n
        for size in (0, 1, 5000, 300_000):
            sent = array.array("d", [me + 0.5] * size)
            got = array.array("d", [0] * (size + 1))
            out = world.start_send(sent, right, tag=("gradient", size))
            assert world.recv(got, left, tag=("gradient", size)) == size
            out.wait()
            assert got == array.array("d", [left + 0.5] * size + [0])
        first = world.start_recv(one := array.array("i", [0]), left, tag=1)
        world.send(array.array("i", [200 + me]), right, tag=2)
        world.send(array.array("i", [100 + me]), right, tag=1)
        assert world.recv(two := array.array("i", [0]), left, tag=2) == 1
        assert first.wait() == 1
        assert (one[0], two[0]) == (100 + left, 200 + left)
        world.send(array.array("i", range(9)), right)
        try:
            world.recv(array.array("i", [0] * 8), left)
            raise AssertionError("a message that is too long was received")
        except regroup.Mismatch as error:
            assert "9 elements of i32" in str(error), error
        try:
            world.send(one, n)
            raise AssertionError("there is no such rank")
        except regroup.Invalid as error:
            assert f"{n} is not a rank" in str(error), error


pyjob.main(work, sizes=(1, 3))
