"""Sets that an elastic program makes before run are declared, and are there in
it, by ranks and by rule; a split has no ranks to split before."""
import pyjob


def work():
    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        pair = ctx.set([1, 0], name="pair")
        rule = ctx.set_by(lambda: ctx.rank % 2)
        assert pair.rank == rule.rank == -1
        for early in (pair.barrier, lambda: ctx.split(0)):
            try:
                early()
                raise AssertionError("a set was used before run")
            except regroup.Invalid as error:
                assert "door" in error.sentence, error.sentence

        def train():
            assert (pair.size, pair.rank) == (2, {0: 1, 1: 0}.get(ctx.rank, -1))
            if pair.rank >= 0:
                ranks = pair.allgather(numpy.array([ctx.rank]))
                assert ranks.tolist() == [1, 0], ranks
            total = rule.allreduce(numpy.array([ctx.rank]))
            assert total[0] == sum(range(ctx.rank % 2, ctx.size, 2)), total
            assert ctx.set([1, 0], name="pair") is pair
        ctx.state().run(train)


pyjob.main(work, sizes=(2, 5))
