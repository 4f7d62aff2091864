"""A SHARDED array: the slices of all ranks are the whole, and after a kill and
a join each rank's new slice holds what the others had committed of it.

Covers: _state.py"""
import pyjob

COUNT = 10000


def work():
    import time

    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        total = state.add("total", numpy.zeros(1, "i8"))
        table = state.add("table", numpy.zeros((COUNT // 10, 10), "i8"),
                          kind=regroup.SHARDED)
        flat = table.reshape(-1)

        try:
            state.slice("table")
            raise AssertionError("a slice outside of run")
        except regroup.Invalid:
            pass

        def train():
            mine = state.slice("table")
            assert state.slice("total") == slice(0, 1)
            ends = ctx.world.allgather(numpy.array([[mine.start, mine.stop]]))
            assert ends[0][0] == 0 and ends[-1][1] == COUNT
            assert (ends[1:, 0] == ends[:-1, 1]).all(), ends
            while pyjob.goes_on(ctx):
                assert (flat[mine] == total[0]).all(), "a shard is stale"
                flat[mine] += 1
                total[:] += 1
                time.sleep(0.005)
                state.commit()
        state.run(train)


def test():
    from house import Job
    with Job(["--min", "1", "--max", "3"], pyjob.command(pyjob.UNTIL_FINISH),
             env=pyjob.environment()) as job:
        job.wait_step(20)
        job.kill(1)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        job.check()


pyjob.main(work, test=test)
