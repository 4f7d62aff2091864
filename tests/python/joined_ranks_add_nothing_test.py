"""join: ranks with fewer batches add nothing to the others' allreduces, an
average still divides by all, and all ranks learn which one joined last.

Covers: _sets.py"""
import pyjob


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        n, batches = ctx.size, 2 * (ctx.size - ctx.rank)  # rank 0 is the last
        for batch in range(batches):
            there = sum(batch < 2 * (n - rank) for rank in range(n))
            ones = numpy.ones(5)
            assert (ctx.world.allreduce(ones) == there).all(), (batch, there)
            average = ctx.world.allreduce(ones, op=regroup.AVG)
            assert numpy.allclose(average, there / n)
        assert ctx.world.join() == 0
        assert (ctx.world.allreduce(numpy.ones(1)) == n).all()


pyjob.main(work)
