"""An exception of a colour function is raised once. In set_by no set is made,
the name is free, and a live set stays as it was. In a later generation the
set's next call raises it, and the one after that works again; destroy always
does. Of two functions for one name the later one counts. A static program's
functions go with their sets.

Covers: _sets.py"""
import gc
import weakref

import pyjob


class Transient(Exception):
    """What the function raises while it fails."""


def claim_raises(call):
    try:
        call()
    except Transient:
        return
    raise AssertionError("the function's exception is lost")


def claim_goes(ctx):
    def color():
        return 0
    found = weakref.ref(color)
    ctx.set_by(color).destroy()
    del color
    gc.collect()
    assert found() is None, "an unused colour function is kept"


def work():
    import regroup
    fails = [True]

    def color():
        if fails:
            raise Transient
        return 0
    with regroup.init() as ctx:
        claim_raises(lambda: ctx.set_by(color, name="fails once"))
        fails.clear()
        made = ctx.set_by(color, name="fails once")
        assert (made.rank, made.size) == (ctx.rank, ctx.size)
        made.barrier()

        fails.append(True)
        claim_raises(lambda: ctx.set_by(color, name="fails once"))
        fails.clear()
        first = made._rule
        assert ctx.set_by(lambda: color(), name="fails once") is made
        assert made.size == ctx.size

        fails.append(True)
        rule = made._rule  # called as in a new generation
        assert rule is not first
        rule.callback(None, None)
        claim_raises(lambda: made.size)
        assert made.size == ctx.size, "an exception is raised forever"
        rule.callback(None, None)
        fails.clear()
        rule.callback(None, None)
        assert made.size == ctx.size, "an exception of former times is raised"
        fails.append(True)
        rule.callback(None, None)
        made.destroy()
        claim_goes(ctx)


pyjob.main(work, sizes=(1, 3), modules=())
