"""Sampler: the ranks of any world take every sample of an epoch exactly once,
shuffled unless in order; what is out of range is Invalid.

Covers: _state.py sampler.c"""
import pyjob

COUNT, BATCH = 103, 10


def epoch_of(sampler, epoch, size):
    return [i for step in range(sampler.steps) for rank in range(size)
            for i in sampler.take(epoch, step, rank, size)]


def work():
    import regroup
    ctx = regroup.init(elastic=True)
    for state in None, ctx.state():
        sampler = regroup.Sampler(COUNT, BATCH, seed=5, state=state)
        assert sampler.steps == 11
        assert [sampler.batch_size(step) for step in (0, 10)] == [10, 3]
        alone = epoch_of(sampler, 0, 1)
        assert sorted(alone) == list(range(COUNT)) != alone
        assert epoch_of(sampler, 0, 4) == alone
        assert epoch_of(sampler, 1, 1) != alone
    in_order = regroup.Sampler(COUNT, BATCH, in_order=True)
    assert epoch_of(in_order, 3, 2) == list(range(COUNT))
    for wrong in (lambda: sampler.take(0, 11, 0, 1),
                  lambda: sampler.take(0, 0, 2, 2),
                  lambda: regroup.Sampler(0, 10)):
        try:
            wrong()
        except regroup.Invalid:
            continue
        raise AssertionError("out of range, and taken")
    ctx.finalize()
    try:
        sampler.take(0, 0, 0, 1)
        raise AssertionError("a sampler outlived its state")
    except regroup.Invalid:
        pass


pyjob.main(work, sizes=(1,), modules=())
