"""Shards of an array whose align is no multiple of its elements' size: every
rank gets the error, also one whose shard is cut at its end only.

Covers: _state.py"""
import pyjob


def work():
    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("cut", numpy.zeros(3, "i8"), kind=regroup.SHARDED, align=4)
        state.add("whole", numpy.zeros(3, "i8"), kind=regroup.SHARDED, align=8)

        def train():
            mine = state.slice("whole")
            assert mine == (slice(0, 1), slice(1, 3))[ctx.rank], mine
            try:
                mine = state.slice("cut")  # 12 bytes for each
                raise AssertionError(f"rank {ctx.rank} got {mine}")
            except regroup.Invalid as error:
                assert "'cut' cuts an element of 8" in str(error), error
        state.run(train)


pyjob.main(work, sizes=(2,))
