"""Every collective, with every type and op that go together, gives what numpy
computes from all ranks' arrays: in new arrays, into out, in place, with no
rows, with uneven parts, started and waited for; counts may be integers of one
byte.

Covers: _sets.py"""
import itertools
import sys

import pyjob

TYPES = ("u1", "i1", "i4", "i8", "u4", "u8", "f2", "f4", "f8", "?")
SHAPES = ((5,), (6, 2), (0,), (3, 0), (4, 1, 2))


def of_rank(rank, shape, dtype):
    """Small numbers, so that every sum and product is exact in every type."""
    import numpy
    count = int(numpy.prod(shape))
    values = (numpy.arange(count) * 7 + rank * 3) % 3 + 1
    if dtype == "?":
        values = values > 1
    return values.astype(dtype).reshape(shape)


def reductions():
    import numpy
    import regroup
    both = "iuf"
    logical = {"LAND": numpy.logical_and, "LOR": numpy.logical_or,
               "LXOR": numpy.logical_xor}
    yield regroup.SUM, both, lambda a: sum(a[1:], a[0])
    yield regroup.PROD, both, lambda a: numpy.prod(a, axis=0,
                                                   dtype=a[0].dtype)
    yield regroup.AVG, both, lambda a: numpy.sum(
        a, axis=0, dtype=a[0].dtype if a[0].dtype.kind == "f" else "i8")
    yield regroup.MIN, "iufb", lambda a: numpy.minimum.reduce(a)
    yield regroup.MAX, "iufb", lambda a: numpy.maximum.reduce(a)
    for name, function in logical.items():
        yield getattr(regroup, name), "iub", lambda a, f=function: \
            f.reduce([x != 0 for x in a])
    for name, function in (("BAND", numpy.bitwise_and),
                           ("BOR", numpy.bitwise_or),
                           ("BXOR", numpy.bitwise_xor)):
        yield getattr(regroup, name), "iub", lambda a, f=function: f.reduce(a)


def expected_of(op, compute, arrays):
    import numpy
    import regroup
    found = compute(arrays)
    if op == regroup.AVG:
        if arrays[0].dtype.kind == "f":
            found = (found.astype("f8") / len(arrays))
        else:
            found = found // len(arrays)
    return numpy.asarray(found).astype(arrays[0].dtype)


def equal(found, expected):
    import numpy
    assert found.dtype == expected.dtype and found.shape == expected.shape, \
        (found, expected)
    if found.dtype.kind == "f":
        assert numpy.allclose(found, expected, rtol=1e-3), (found, expected)
    else:
        assert (found == expected).all(), (found, expected)


def check_reductions(members):
    import numpy
    n, me = members.size, members.rank
    for dtype, shape in itertools.product(TYPES, SHAPES):
        every = [of_rank(rank, shape, dtype) for rank in range(n)]
        for op, kinds, compute in reductions():
            if numpy.dtype(dtype).kind not in kinds:
                continue
            expected = expected_of(op, compute, every)
            mine = every[me].copy()
            equal(members.allreduce(mine, op=op), expected)
            equal(mine, every[me])
            out = numpy.empty_like(mine)
            assert members.allreduce(mine, out, op=op) is out
            equal(out, expected)
            root = n - 1
            found = members.reduce(mine, root=root, op=op)
            assert (found is None) == (me != root)
            if me == root:
                equal(found, expected)
            part = slice(sum(rows_of(shape[0], n)[:me]),
                         sum(rows_of(shape[0], n)[:me + 1]))
            equal(members.reduce_scatter(mine, op=op), expected[part])
            members.allreduce(mine, out=mine, op=op)
            equal(mine, expected)


def rows_of(rows, n):
    return [rows // n + (rank < rows % n) for rank in range(n)]


def check_scales(members):
    import numpy
    n = members.size
    found = members.allreduce(numpy.full(3, 2.0), prescale=0.5, postscale=4)
    equal(found, numpy.full(3, 4.0 * n))
    given = [2 * (rank == 0) for rank in range(n)]  # all rows to rank 0
    equal(members.reduce_scatter(numpy.ones((2, 3)), counts=given),
          numpy.full((given[members.rank], 3), float(n)))


def check_moves(members):
    import numpy
    n, me = members.size, members.rank
    for dtype, shape in itertools.product(TYPES, SHAPES):
        every = [of_rank(rank, shape, dtype) for rank in range(n)]
        together = numpy.concatenate(every)
        equal(members.allgather(every[me]), together)
        for root in range(n):
            found = members.gather(every[me], root=root)
            assert (found is None) == (me != root)
            if me == root:
                equal(found, together)
            data = every[me].copy()
            assert members.broadcast(data, root) is data
            equal(data, every[root])
            out = numpy.empty_like(every[me])
            members.scatter(together if me == root else None, out, root)
            equal(out, every[me])
        blocks = [of_rank(rank, (n * 2,) + shape[1:], dtype)
                  for rank in range(n)]
        equal(members.alltoall(blocks[me]), numpy.concatenate(
            [block[2 * me:2 * me + 2] for block in blocks]))
    whole = numpy.zeros((n, 4))
    whole[me] = me
    members.allgather(whole[me:me + 1], out=whole)
    equal(whole, numpy.arange(n, dtype="f8")[:, None] + numpy.zeros(4))


def check_uneven(members):
    import numpy
    n, me = members.size, members.rank
    every = [of_rank(rank, (rank * 2 % 3, 2), "i4") for rank in range(n)]
    together = numpy.concatenate(every)
    counts = [len(one) for one in every]
    equal(members.allgatherv(every[me]), together)
    equal(members.start_allgatherv(every[me], counts).wait(), together)
    for root in range(n):
        for found in (members.gatherv(every[me], root=root),
                      members.start_gatherv(
                          every[me], counts if me == root else None,
                          root=root).wait()):
            assert (found is None) == (me != root)
            if me == root:
                equal(found, together)
        out = numpy.empty_like(every[me])
        members.scatterv(together if me == root else None,
                         counts if me == root else None, out, root)
        equal(out, every[me])
    sends = [[(rank + to) % 3 for to in range(n)] for rank in range(n)]
    data = [of_rank(rank, (sum(sends[rank]), 2), "i4") for rank in range(n)]
    expected = numpy.concatenate(
        [data[rank][sum(sends[rank][:me]):sum(sends[rank][:me + 1])]
         for rank in range(n)])
    found, received = members.alltoallv(data[me], sends[me])
    equal(found, expected)
    assert received == [sends[rank][me] for rank in range(n)]


class Small(int):
    """As numpy 2 has uint8: its sums and products are no larger."""

    def __add__(self, other):
        return Small((int(self) + int(other)) % 256)

    def __mul__(self, other):
        return Small(int(self) * int(other) % 256)

    __radd__, __rmul__ = __add__, __mul__


def check_small_counts(members):
    """128 rows of 4: neither their elements nor two of them fit a byte."""
    import numpy
    n, me = members.size, members.rank
    mine = of_rank(me, (128 * n, 4), "i4")
    every = [of_rank(rank, (128 * n, 4), "i4") for rank in range(n)]
    my_rows = slice(128 * me, 128 * me + 128)
    exchanged = numpy.concatenate([one[my_rows] for one in every])
    parts = numpy.concatenate([one[:128] for one in every])
    for kind in Small, numpy.uint8:
        counts = [kind(128) for _ in range(n)]
        equal(members.reduce_scatter(mine, counts=counts),
              sum(every)[my_rows])
        equal(members.alltoallv(mine, counts)[0], exchanged)
        equal(members.start_alltoallv(mine, counts, counts).wait(), exchanged)
        equal(members.start_allgatherv(mine[:128], counts).wait(), parts)
        found = members.start_gatherv(mine[:128], counts).wait()
        if me == 0:
            equal(found, parts)
        out = numpy.empty_like(mine[:128])
        members.scatterv(mine, counts, out)
        equal(out, every[0][my_rows])


def check_started(members):
    import numpy
    import regroup
    n = members.size
    requests = [members.start_allreduce(numpy.full(k, k)) for k in range(9)]
    requests.append(members.start_barrier())
    *found, nothing = regroup.wait_all(requests, timeout=20)
    assert nothing is None
    for k, array in enumerate(found):
        equal(array, numpy.full(k, k * n))
    assert all(request.test() for request in requests)
    assert requests[1].wait() is found[1]


def work():
    import regroup
    with regroup.init() as ctx:
        sets = [ctx.world, ctx.set(range(ctx.size - 1, -1, -1)),
                ctx.set(range(0, ctx.size, 2))]
        for members in sets[int(sys.argv[2]):][:1]:
            if members.rank < 0:
                continue
            check_reductions(members)
            check_scales(members)
            check_moves(members)
            check_uneven(members)
            check_small_counts(members)
            check_started(members)


def test():
    pyjob.job(1, pyjob.command(0))
    for which in range(3):
        pyjob.job(3, pyjob.command(which))


pyjob.main(work, test=test)
