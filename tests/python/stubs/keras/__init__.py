"""What regroup.horovod.keras calls of Keras 3, for one layer without a bias and
plain SGD, with numpy alone. An exception in a step has another class and only
its text, as of a graph."""
import pickle
import types

import numpy
import tensorflow as tf


class Callback:
    model = params = None

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *_: None
        raise AttributeError(name)


class ModelCheckpoint(Callback):
    pass


class SGD:
    built = False

    def __init__(self, learning_rate=0.01, momentum=0.0,
                 gradient_accumulation_steps=None):
        self._rate = tf.Variable(float(learning_rate))
        self.iterations = tf.Variable(numpy.zeros((), "int64"))
        self.momentum = momentum
        self.passes = gradient_accumulation_steps
        self.variables = [self.iterations, self._rate]
        self._waiting = []

    def get_config(self):
        return {"learning_rate": float(self._rate.value),
                "momentum": self.momentum,
                "gradient_accumulation_steps": self.passes}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    @property
    def learning_rate(self):
        return self._rate.value

    @learning_rate.setter
    def learning_rate(self, value):
        self._rate.assign(value)

    def build(self, trained):
        self.built = True
        self.moments = [tf.Variable(numpy.zeros_like(one.value))
                        for one in trained]
        self.variables += self.moments

    def apply_gradients(self, pairs):
        gradients, trained = zip(*pairs)
        self.apply(gradients, trained)

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(trainable_variables)
        self.iterations.value += 1
        self._waiting.append([one.value for one in grads])
        if len(self._waiting) < (self.passes or 1):
            return
        for one, moment, parts in zip(trainable_variables, self.moments,
                                      zip(*self._waiting)):
            mean = sum(parts) / numpy.float32(len(parts))
            moment.value[...] = self.momentum * moment.value \
                - self._rate.value * mean
            one.value += moment.value
        self._waiting = []


class Sequential:
    optimizer = None

    def __init__(self, parts):
        self.weights = self.trainable_variables = [
            tf.Variable(numpy.zeros((parts[0][0], 1), "float32"))]

    def compile(self, optimizer, loss):
        assert loss == "mse"
        self.optimizer = optimizer

    def get_weights(self):
        return [one.numpy() for one in self.weights]

    def set_weights(self, values):
        for one, value in zip(self.weights, values):
            one.assign(value)

    def _step(self, x, y):
        off = x @ self.weights[0].value - y
        try:
            self.optimizer.apply_gradients([(
                tf.Tensor(2 * x.T @ off / numpy.float32(len(x))),
                self.weights[0])])
        except Exception as error:
            raise tf.errors.OpError("Graph execution error:\n\n"
                                    f"{type(error).__name__}: {error}\n\n")
        return float((off ** 2).mean())

    def fit(self, x, y, batch_size, epochs, shuffle, verbose, callbacks=()):
        def tell(what, *arguments):
            for one in callbacks:
                getattr(one, what)(*arguments)
        assert not shuffle
        for one in callbacks:
            one.model, one.params = self, {"steps": -(-len(x) // batch_size)}
        tell("on_train_begin")
        for epoch in range(epochs):
            tell("on_epoch_begin", epoch)
            losses = []
            for batch, at in enumerate(range(0, len(x), batch_size)):
                tell("on_batch_begin", batch)
                losses.append(self._step(x[at:at + batch_size],
                                         y[at:at + batch_size]))
                tell("on_batch_end", batch)
            tell("on_epoch_end", epoch, {"loss": sum(losses) / len(losses)})

    def save(self, path):
        named = getattr(optimizers, type(self.optimizer).__name__)
        assert type(self.optimizer).__module__ == named.__module__
        with open(path, "wb") as file:
            pickle.dump((self.get_weights(), self.optimizer.get_config(), [
                one.value for one in self.optimizer.variables]), file)


def load_model(path, custom_objects=None):
    with open(path, "rb") as file:
        weights, config, state = pickle.load(file)
    model = Sequential([(len(weights[0]),)])
    model.set_weights(weights)
    model.compile(SGD.from_config(config), "mse")
    model.optimizer.build(model.weights)
    for one, value in zip(model.optimizer.variables, state):
        one.assign(value)
    return model


def Input(shape):
    return shape


callbacks = types.SimpleNamespace(Callback=Callback,
                                  ModelCheckpoint=ModelCheckpoint)
config = types.SimpleNamespace(backend=lambda: "tensorflow")
layers = types.SimpleNamespace(Dense=lambda units, use_bias: units)
models = types.SimpleNamespace(load_model=load_model)
optimizers = types.SimpleNamespace(SGD=SGD)
