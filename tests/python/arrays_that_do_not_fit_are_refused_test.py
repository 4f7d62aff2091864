"""An object that is not an array, or an array that a collective can't take, is
refused before anything starts, in a sentence that names the call and the
remedy.

Covers: _buffers.py"""
import pyjob

CASES = [  # (array as an expression, words of the sentence)
    ("3", "scalar 3"), ("2.5", "scalar 2.5"), ("True", "scalar True"),
    ("numpy.float32(1)", "scalar"), ("None", "NoneType"), ("'text'", "str"),
    ("[1, 2]", "list"), ("numpy.ones((4, 4)).T[:2]", "ascontiguousarray"),
    ("numpy.ones(8)[::2]", "ascontiguousarray"),
    ("numpy.ones(4, 'c8')", "complex64"), ("numpy.array(['a'])", "<U1"),
    ("numpy.ones(4, '>f4')", "astype"),
    ("numpy.ones(4, object)", "object"),
    ("numpy.ma.array([1, 2], mask=[0, 1])", "filled"),
    ("memoryview(bytes(8))[::2]", "ascontiguousarray"),
    ("memoryview(bytes(8)).cast('P')", "format")]


def refused(call, *arguments, **named):
    import regroup
    try:
        call(*arguments, **named)
    except (regroup.Invalid, regroup.Unsupported) as error:
        return error.sentence
    raise AssertionError(f"{arguments} {named} was taken")


def work():
    import numpy
    import regroup
    ctx = regroup.init()
    world = ctx.world
    for text, words in CASES:
        array = eval(text, {"numpy": numpy})  # pylint: disable=eval-used
        for name in "allreduce", "broadcast", "allgather":
            sentence = refused(getattr(world, name), array)
            assert name in sentence and words in sentence, (text, sentence)
    assert "first dimension" in refused(world.allgather, numpy.array(1.0))
    fixed = numpy.ones(4)
    fixed.flags.writeable = False
    assert "read-only" in refused(world.allreduce, fixed, out=fixed)
    assert "read-only" in refused(world.allreduce, bytes(4), out=bytes(4))
    assert "read-only" in refused(ctx.state().add, "fixed", fixed)
    ones = numpy.ones(4)
    assert "out has 3" in refused(world.allreduce, ones, out=numpy.ones(3))
    assert "F32" in refused(world.allreduce, ones, out=numpy.ones(4, "f4"))
    nine = numpy.ones(9)
    assert "overlap" in refused(world.allreduce, nine[:8], out=nine[1:])
    assert (world.allreduce(ones) == 1).all()


pyjob.main(work, sizes=(1,))
