"""What a colour function raises is raised once. In set_by it leaves no set
behind: the name is free. In a later generation the set's next call raises it,
and the one behind that works again; destroy always does."""
import pyjob


class Transient(Exception):
    """What the function raises while it fails."""


def claim_raises(call):
    try:
        call()
    except Transient:
        return
    raise AssertionError("the function's exception is lost")


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
        rule = made._rule  # called as in a new generation
        rule.callback(None, None)
        claim_raises(lambda: made.size)
        assert made.size == ctx.size, "an exception is raised for ever"
        rule.callback(None, None)
        fails.clear()
        rule.callback(None, None)
        assert made.size == ctx.size, "an exception of former times is raised"
        fails.append(True)
        rule.callback(None, None)
        made.destroy()


pyjob.main(work, sizes=(1, 3), modules=())
