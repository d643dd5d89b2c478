"""Train a small convolutional network on the handwritten digits of scikit-learn, and quantize it to 8 bits.

`for_inference` fixes the weights and the statistics of BatchNorm. `og.quantize` takes the ranges of the numbers inside
from a few training digits. The new graph computes with integers, and finds nearly the same digits.
"""

from itertools import pairwise

import numpy as np
from shared.loop import args, train
from sklearn.datasets import load_digits

import onegraph as og

BATCH, EPOCHS, CHANNELS = 64, 3 if args.quick else 12, (1, 32, 64, 64)
data = load_digits()
digits, classes = (data.images / 16).astype(np.float32)[..., None], data.target.astype(np.int32)
COUNT = 22 * BATCH  # the rest is unseen


def network(g, x, rng):
    """The scores of ten classes, by convolutions with BatchNorm."""
    for number, (before, after) in enumerate(pairwise(CHANNELS)):
        shape, start = (3, 3, before, after), (2 / (9 * before)) ** 0.5
        weights = g.variable(f"conv{number}", rng.normal(0, start, shape).astype(np.float32))
        norm = {"gamma": 1, "beta": 0, "mean": 0, "variance": 1}
        norm = [g.variable(f"{name}{number}", np.full(after, first, np.float32)) for name, first in norm.items()]
        x = g.convolution(x, weights, strides=1 + number // 2, pads_begin=1, pads_end=1, name=f"layer{number}")
        x = g.relu(og.training.batch_norm(g, x, *norm))
    head = g.variable("head", rng.normal(0, 0.1, (CHANNELS[-1], 10)).astype(np.float32))
    return g.output("scores", g.matmul(g.reduce_mean(x, axes=[1, 2]), head, name="head"))


g = og.Graph()
x, labels = g.input("x", og.f32, (None, 8, 8, 1)), g.input("labels", og.s32, (None,))
loss = g.output("loss", og.training.cross_entropy(g, network(g, x, np.random.default_rng(0)), labels))
og.training.Adam(3e-3).minimize(g, loss)
step = g.compile(outputs=["loss"])


def batches(epoch):
    order = np.random.default_rng(epoch).permutation(COUNT).reshape(-1, BATCH)
    return [{"x": digits[rows], "labels": classes[rows]} for rows in order]


def share(model):
    """The share of unseen digits that a model finds."""
    return (model(x=digits[COUNT:]).argmax(axis=1) == classes[COUNT:]).mean()


def fixed():
    return g.for_inference(step.variables, outputs=["scores"])


history = train("quantize_digits", step, batches, lambda: 1 - share(fixed().compile()), epochs=EPOCHS)
real = fixed()
quantized = og.quantize(real, [digits[start : start + BATCH] for start in range(0, COUNT, 4 * BATCH)])
print(*quantized.quantization, sep="\n")
model, codes = real.compile(), quantized.compile()
print(f"{share(model):.1%} of the unseen digits in f32, {share(codes):.1%} with codes of 8 bits")
print(codes.report())
print(f"loss {history[0][0]:.4f} in the first epoch, {history[-1][0]:.4f} in the last of {len(history)}")
