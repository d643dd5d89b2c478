"""Train a convolutional autoencoder on the handwritten digits of scikit-learn, and draw digits with their copies.

Two Convolutions reduce an 8x8 digit to 32 numbers, and two ConvTransposes restore it. A step is one graph: forward,
gradients and Adam. One of the ConvTransposes is of an old edition; its gradient is too.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from shared.loop import args, train
from sklearn.datasets import load_digits

import onegraph as og

BATCH, EPOCHS, RATE = 64, 4 if args.quick else 40, 3e-3
WINDOW = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
# deconv1 is a ConvTranspose of the edition legacy-1 with weights (X, in, out). The weights of deconv2 are (X, out, in).
SHAPES = {"conv1": (4, 4, 1, 16), "conv2": (4, 4, 16, 8), "deconv1": (4, 4, 8, 16), "deconv2": (4, 4, 1, 16)}
SHAPES |= {"conv1_bias": (16,), "conv2_bias": (8,), "deconv1_bias": (16,), "deconv2_bias": (1,)}
digits = (load_digits().images / 16).astype(np.float32)[..., None]
TRAIN, CHECK = digits[: 26 * BATCH], digits[-BATCH:]


def copies(g, x, w):
    """The digits that the network makes of digits, with values from 0 to 1."""
    h1 = g.relu(g.convolution(x, w["conv1"], w["conv1_bias"], **WINDOW))
    h2 = g.relu(g.convolution(h1, w["conv2"], w["conv2_bias"], **WINDOW))
    h3 = g.relu(g.op("ConvTranspose", [h2, w["deconv1"], w["deconv1_bias"]], WINDOW, edition="legacy-1"))
    return g.sigmoid(g.conv_transpose(h3, w["deconv2"], w["deconv2_bias"], **WINDOW))


def training_step():
    g, rng = og.Graph(), np.random.default_rng(0)
    x = g.input("x", og.f32, (BATCH, 8, 8, 1))
    w = {name: g.variable(name, rng.normal(0, 0.15, shape).astype(np.float32)) for name, shape in SHAPES.items()}
    loss = g.output("loss", og.training.mean_squared_error(g, copies(g, x, w), x))
    og.training.Adam(RATE).minimize(g, loss, [*w.values()])
    return g


def copier():
    g = og.Graph()
    x = g.input("x", og.f32, (BATCH, 8, 8, 1))
    y = g.output("y", copies(g, x, {name: g.input(name, og.f32, shape) for name, shape in SHAPES.items()}))
    g.output("loss", og.training.mean_squared_error(g, y, x))
    return g


def batches(epoch):
    return [{"x": x} for x in np.random.default_rng(epoch).permutation(TRAIN).reshape(-1, BATCH, 8, 8, 1)]


def copy():
    return drawn(x=CHECK, **{name: step.variables[name] for name in SHAPES})


graph = training_step()
step, drawn = graph.compile(threads=1), copier().compile(threads=1)  # so small steps gain nothing from another thread
history = train("autoencoder", step, batches, lambda: copy().loss, epochs=EPOCHS)
rows = [np.hstack([np.pad(image, 1) for image in images[:16, ..., 0]]) for images in (CHECK, copy().y)]
Image.fromarray((np.vstack(rows) * 255).astype(np.uint8)).resize((1280, 160), 0).save("autoencoder.png")
print(f"{Path('autoencoder.png').resolve()}\nunseen digits above their copies, each made from 32 numbers")
print(f"loss {history[0][0]:.4f} in the first epoch, {history[-1][0]:.4f} in the last of {len(history)}")
count = len(history) * len(TRAIN) // BATCH
print(f"{len(graph.ops)} ops in {len(step.report().partitions)} partitions, trained in {count} steps")
