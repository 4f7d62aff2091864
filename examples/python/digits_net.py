"""The 64-32-10 network of the digits example, in numpy; nothing here knows
Regroup.

Gradients are integers, fixed point at a scale of 2^32, computed sample by
sample: so the order of adding makes no difference, and neither does the number
of workers. numpy's exp and log may round differently on another machine.
"""

import hashlib

import numpy

IN, HIDDEN, OUT = 64, 32, 10
SHAPES = ((IN, HIDDEN), (HIDDEN,), (HIDDEN, OUT), (OUT,))
WEIGHTS = sum(int(numpy.prod(shape)) for shape in SHAPES)
LOSS = WEIGHTS  # the loss comes after the gradient
SCALE, RATE, MOMENTUM = 2.0 ** 32, 0.2, 0.9


def read(path):
    """Pixels and digits: those to train with, and every fifth to test."""
    lines = numpy.loadtxt(path, delimiter=",", dtype=numpy.int64)
    is_test = numpy.arange(len(lines)) % 5 == 4
    pixels, digits = lines[:, :IN] / 16, lines[:, IN]
    return (pixels[~is_test], digits[~is_test]), \
        (pixels[is_test], digits[is_test])


class Model:
    """What a step changes: weights, their momentum, the step and the loss."""

    def __init__(self):
        rng = numpy.random.RandomState(7)
        self.weights = numpy.concatenate(
            [(rng.uniform(-1, 1, shape) * (0.2 if shape[0] == IN else 0.3)
              if len(shape) == 2 else numpy.zeros(shape)).ravel()
             for shape in SHAPES])
        self.speed = numpy.zeros(WEIGHTS)
        self.step = numpy.zeros(1, numpy.int64)
        self.loss = numpy.zeros(1)

    def arrays(self):
        """Arrays by name; none of them ever moves in memory."""
        return {"weights": self.weights, "speed": self.speed,
                "step": self.step, "loss": self.loss}

    def parts(self):
        """The weights of each layer, as views."""
        ends = numpy.cumsum([numpy.prod(shape) for shape in SHAPES])
        return [part.reshape(shape) for part, shape in
                zip(numpy.split(self.weights, ends[:-1]), SHAPES)]

    def gradient(self, pixels, digit):
        """One sample's gradient and loss, as integers."""
        w1, b1, w2, b2 = self.parts()
        hidden = numpy.maximum((w1 * pixels[:, None]).sum(axis=0) + b1, 0)
        out = (w2 * hidden[:, None]).sum(axis=0) + b2
        p = numpy.exp(out - out.max())
        p /= p.sum()
        loss = -numpy.log(max(p[digit], 1e-30))
        p[digit] -= 1
        back = (w2 * p).sum(axis=1) * (hidden > 0)
        found = numpy.concatenate([
            numpy.outer(pixels, back).ravel(), back,
            numpy.outer(hidden, p).ravel(), p, [loss]])
        return numpy.rint(found * SCALE).astype(numpy.int64)

    def apply(self, sums, batch):
        """The sums of a whole batch become one step."""
        mean = sums / SCALE / batch
        self.speed[:] = MOMENTUM * self.speed + mean[:WEIGHTS]
        self.weights -= RATE * self.speed
        self.loss[0] = mean[LOSS]
        self.step += 1

    def accuracy(self, test):
        """The part of the test digits that it gets right."""
        w1, b1, w2, b2 = self.parts()
        hidden = numpy.maximum(test[0] @ w1 + b1, 0)
        return float(((hidden @ w2 + b2).argmax(axis=1) == test[1]).mean())

    def hash(self):
        """16 digits that stand for the whole model."""
        digest = hashlib.blake2b(digest_size=8)
        for array in self.arrays().values():
            digest.update(array.tobytes())
        return digest.hexdigest()
