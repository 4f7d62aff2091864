"""Programs of Horovod's interfaces for TensorFlow and Keras run with their
import changed: all names that docs/horovod.md has are there; operations and
their gradients are right, eager and inside of tf.function, those of
IndexedSlices too; a tape and an optimizer train as one process does on all
samples; callbacks average metrics, warm the rate up and broadcast; a saved model
goes on; and an elastic fit goes on where its state was committed.

With a python3 that has tensorflow (PYTHON names one) this is the real one, and
otherwise tests/python/stubs, which has the same calls with numpy alone.

Covers: horovod/tensorflow/_operations.py horovod/tensorflow/elastic.py
horovod/keras/callbacks.py horovod/keras/elastic.py horovod/_elastic.py _kept.py
tests/python/stubs/tensorflow/__init__.py tests/python/stubs/keras/__init__.py"""
import os
import signal
import subprocess
import sys
import tempfile

import pyjob

STUBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs")
NAMES = """init shutdown is_initialized start_timeline stop_timeline size rank
local_size local_rank cross_size cross_rank ProcessSet global_process_set
add_process_set remove_process_set Average Sum Adasum Min Max Product allreduce
grouped_allreduce allgather grouped_allgather broadcast alltoall reducescatter
grouped_reducescatter join barrier broadcast_variables broadcast_object
allgather_object Compression elastic HorovodInternalError HostsUpdatedInterrupt
DistributedOptimizer""".split()
OF_TENSORFLOW = """DistributedGradientTape elastic.run elastic.TensorFlowState
elastic.TensorFlowKerasState""".split()
OF_KERAS = """broadcast_global_variables load_model elastic.run
elastic.KerasState elastic.CommitStateCallback
elastic.UpdateBatchStateCallback elastic.UpdateEpochStateCallback
callbacks.BroadcastGlobalVariablesCallback callbacks.MetricAverageCallback
callbacks.LearningRateScheduleCallback callbacks.LearningRateWarmupCallback
callbacks.BestModelCheckpoint""".split()


def names(hvd, keras_hvd, other):
    import functools
    for module, more in (hvd, OF_TENSORFLOW), (keras_hvd, OF_KERAS), \
            (other, OF_KERAS):
        for name in NAMES + more:
            functools.reduce(getattr, name.split("."), module)


def operations(hvd, tf, n, me):
    one = tf.constant([1.0, 2.0, 4.0])
    compiled = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    for found, factor in (
            (hvd.allreduce(one), 1), (hvd.allreduce(one, average=False), n),
            (hvd.allreduce(one, op=hvd.Sum, prescale_factor=2.0,
                           compression=hvd.Compression.fp16), 2 * n),
            (compiled(one), n), (compiled(one * 2), 2 * n)):
        assert (found.numpy() == one.numpy() * factor).all(), found
    pair = hvd.grouped_allreduce([one, one + float(me)], op=hvd.Max)
    assert (pair[1].numpy() == one.numpy() + n - 1).all()
    mine = tf.constant([2.0 if r == me else 0.0 for r in range(n + 1)])
    assert hvd.allreduce(mine, op=hvd.Adasum).numpy().tolist() == \
        [2.0] * n + [0.0]
    rows = hvd.allgather(tf.constant([[float(me)]] * (me + 1)))
    assert rows.numpy().ravel().tolist() == [
        r for r in range(n) for _ in range(r + 1)]
    whole = hvd.broadcast(tf.constant([float(me)]), n - 1)
    assert whole.numpy().tolist() == [n - 1]
    got, splits = hvd.alltoall(
        tf.constant([float(me)] * (n * (n + 1) // 2)),
        splits=tf.constant([r + 1 for r in range(n)]))
    assert splits.numpy().tolist() == [me + 1] * n
    assert len(got.numpy()) == n * (me + 1)
    part = hvd.reducescatter(tf.constant([[1.0, 2.0]] * n), op=hvd.Sum)
    assert part.numpy().tolist() == [[n, 2 * n]]
    slices = hvd.allreduce(tf.IndexedSlices(
        tf.constant([[float(n)]]), tf.constant([me]),
        dense_shape=tf.constant([n, 1])))
    assert slices.values.numpy().ravel().tolist() == [1.0] * n
    assert slices.indices.numpy().tolist() == list(range(n))
    first = hvd.add_process_set([0])
    if me == 0:
        assert hvd.allreduce(one, op=hvd.Sum, process_set=first
                             ).numpy()[0] == 1
    hvd.remove_process_set(first)
    variable = tf.Variable([float(me)])
    hvd.broadcast_variables([variable], n - 1)
    assert variable.numpy()[0] == n - 1
    assert hvd.broadcast_object({"x": me}) == {"x": 0}
    assert hvd.allgather_object(me) == list(range(n))
    if n > 1:
        try:
            hvd.allreduce(one, name=f"mine{me}")
            raise AssertionError("names that differ were taken")
        except Exception as error:
            assert "tag" in str(error), error
    for step in range(me + 1):  # rank r has r + 1 batches
        found = hvd.allreduce(tf.constant([1.0]), op=hvd.Sum)
        assert found.numpy()[0] == n - step
    assert hvd.join() == n - 1
    hvd.barrier()


def gradients(hvd, tf, n, me):
    def of(call, rows):
        sent = tf.Variable([[1.0]] * rows)
        with tf.GradientTape() as tape:
            total = call(sent) * float(me + 1)
        return tape.gradient(total, sent).numpy().ravel().tolist()

    mean = (n + 1) / 2  # as Horovod has them
    ranks = [r + 1 for r in range(n)]
    assert of(hvd.allreduce, 2) == [mean] * 2
    assert of(hvd.allgather, me + 1) == [mean] * (me + 1)
    assert of(lambda x: hvd.broadcast(x, 0), 1) == [0 if me else mean]
    assert of(hvd.alltoall, n) == ranks
    assert of(lambda x: hvd.alltoall(x, splits=tf.constant([1] * n))[0],
              n) == ranks
    assert of(hvd.reducescatter, n) == ranks
    assert of(lambda x: hvd.reducescatter(x, op=hvd.Sum), n) == \
        [n * one for one in ranks]
    one, none = tf.Variable([[2.0]]), tf.Variable([[2.0]])
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        total = hvd.allreduce(one, op=hvd.Sum) * float(me)
    found = tape.gradient(total, [one, none])
    assert found[1] is None
    assert found[0].numpy().tolist() == [[n * (n - 1) / 2]], found


def model_of(keras, optimizer=None, seed=0):
    import numpy
    model = keras.Sequential([keras.Input((2,)),
                              keras.layers.Dense(1, use_bias=False)])
    model.set_weights([numpy.full((2, 1), 0.5 + seed, "f4")])
    if optimizer is not None:
        model.compile(optimizer=optimizer, loss="mse")
    return model


def samples(numpy, ranks):
    return numpy.concatenate([numpy.random.default_rng(r).standard_normal(
        (16, 2)).astype("f4") for r in ranks])


def training(hvd, keras, n, me):
    """As one process on all samples, with callbacks."""
    import numpy
    mine, every = samples(numpy, [me]), samples(numpy, range(n))
    alone = model_of(keras, keras.optimizers.SGD(0.1))
    alone.fit(every, every.sum(1, keepdims=True), batch_size=16 * n, epochs=4,
              shuffle=False, verbose=0)
    model = model_of(keras, hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1)))
    seen = []

    class See(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(dict(logs))
    model.fit(mine, mine.sum(1, keepdims=True), batch_size=16, epochs=4,
              shuffle=False, verbose=0,
              callbacks=[hvd.callbacks.MetricAverageCallback(), See()])
    assert numpy.allclose(model.get_weights()[0], alone.get_weights()[0],
                          atol=1e-6)
    assert len(set(hvd.allgather_object(seen[-1]["loss"]))) == 1
    rates(hvd, keras, n, me)
    other = model_of(keras, hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2), seed=me)
    other.fit(mine, mine.sum(1, keepdims=True), batch_size=8, epochs=2,
              shuffle=False, verbose=0, callbacks=[
                  hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert len(set(hvd.allgather_object(
        str(other.get_weights()[0].tolist())))) == 1
    saved(hvd, keras, model)


def rates(hvd, keras, n, me):
    """A warm-up, then a factor."""
    import numpy
    model = model_of(keras, hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.5)))
    seen = []

    class See(keras.callbacks.Callback):
        def on_batch_end(self, batch, logs=None):
            seen.append(float(self.model.optimizer.learning_rate))
    mine = samples(numpy, [me])
    model.fit(mine, mine.sum(1, keepdims=True), batch_size=8, epochs=3,
              shuffle=False, verbose=0, callbacks=[
                  hvd.callbacks.LearningRateWarmupCallback(0.5, 2),
                  hvd.callbacks.LearningRateScheduleCallback(0.5, 0.1, 2),
                  See()])
    ramp = [0.5 * ((n - 1) * k / 4 + 1) / n for k in (1, 2, 3, 4)]
    assert numpy.allclose(seen, ramp + [0.05] * 2), seen


def saved(hvd, keras, model):
    import numpy
    with tempfile.TemporaryDirectory(prefix="rg-py-") as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        found = hvd.load_model(path)
    assert hasattr(found.optimizer, "reduced")
    assert int(found.optimizer.iterations.numpy()) == 4
    assert numpy.array_equal(found.get_weights()[0], model.get_weights()[0])


def elastic(hvd, keras):
    """One worker dies in its fifth batch; there are 6 epochs of 2 batches."""
    import numpy
    hvd.init()
    print("a process begins", flush=True)
    model = model_of(keras, hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1, momentum=0.5)))
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    died = os.path.join(os.environ["GATES"], "died")

    class Die(keras.callbacks.Callback):
        def on_batch_begin(self, batch, logs=None):
            if state.epoch == 2 and batch == 1 and hvd.rank() == 1 and \
                    not os.path.exists(died):
                open(died, "w", encoding="utf-8").close()
                os.kill(os.getpid(), signal.SIGKILL)

    @hvd.elastic.run
    def train(state):
        mine = samples(numpy, [hvd.rank()])
        model.fit(mine, mine.sum(1, keepdims=True), batch_size=8, verbose=0,
                  epochs=6 - state.epoch, shuffle=False, callbacks=[
                      Die(), hvd.elastic.UpdateEpochStateCallback(state),
                      hvd.elastic.UpdateBatchStateCallback(state),
                      hvd.elastic.CommitStateCallback(state, 2)])
        return "done"

    assert train(state) == "done" and os.path.exists(died)
    assert state.epoch == 6 and state.batch == 0
    # Two batches of epochs 0 to 5, and the first of epoch 2 perhaps again.
    print(f"{int(model.optimizer.iterations.numpy())} steps, weights "
          f"{model.get_weights()[0].ravel().tolist()}", flush=True)


def work():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import regroup.horovod.keras as keras_hvd
    import regroup.horovod.tensorflow as hvd
    import regroup.horovod.tensorflow.keras as other
    import tensorflow as tf
    if sys.argv[-1] == "elastic":
        elastic(keras_hvd, keras)
        return
    names(hvd, keras_hvd, other)
    hvd.init()
    n, me = hvd.size(), hvd.rank()
    operations(hvd, tf, n, me)
    gradients(hvd, tf, n, me)
    training(keras_hvd, keras, n, me)
    hvd.shutdown()


def where():
    """The interpreter, and what its PYTHONPATH has before ours."""
    for python in pyjob.INTERPRETERS:
        if python and os.path.exists(python) and subprocess.run(
                [python, "-c", "import importlib.util as u, sys; sys.exit("
                 "not all(map(u.find_spec, ('tensorflow', 'keras'))))"],
                capture_output=True, check=False).returncode == 0:
            print(f"with the tensorflow of {python}")
            return python, ()
    return pyjob.python_with("numpy"), (STUBS,)


def test():
    from house import Job, claim
    python, before = where()
    path = os.pathsep.join([*before, pyjob.environment()["PYTHONPATH"]])
    program = [python, os.path.abspath(sys.argv[0]), "work"]
    pyjob.job(1, program, PYTHONPATH=path)
    pyjob.job(3, program, PYTHONPATH=path)
    with tempfile.TemporaryDirectory(prefix="rg-py-") as gates, \
            Job(["-n", "2"], [*program, "elastic"], env=pyjob.environment(
                HOROVOD_ELASTIC="1", GATES=gates, PYTHONPATH=path)) as job:
        job.finish()
        claim(job.text().count("a process begins") == 3,
              f"only the killed process begins again:\n{job.text()}")
        lines = {line.split(" | ")[1] for line in job.text().splitlines()
                 if " steps, weights " in line}
        claim(len(lines) == 1 and lines.pop().startswith("12 steps"),
              f"ranks ended with other weights or steps:\n{job.text()}")


pyjob.main(work, test=test)
