"""Train a convolutional autoencoder on the handwritten digits of scikit-learn, forward and backward in oneDNN Graph.

Two Convolutions reduce an 8x8 digit to 32 numbers, and two ConvTransposes restore it. Some ops are of an old edition.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import onegraph as og

BATCH, EPOCHS, RATE = 64, 40, 3e-3
WINDOW = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
# deconv1 is a ConvTranspose of the edition legacy-1 with weights (X, in, out). The weights of deconv2 are (X, out, in).
SHAPES = {"conv1": (4, 4, 1, 16), "conv2": (4, 4, 16, 8), "deconv1": (4, 4, 8, 16), "deconv2": (4, 4, 1, 16)}
rng = np.random.default_rng(0)


def training_step() -> og.Graph:
    """A graph that computes the reconstructed digits, the loss and the gradient of every parameter."""
    g = og.Graph()
    x = g.input("x", og.f32, (BATCH, 8, 8, 1))
    w = {name: g.input(name, og.f32, shape) for name, shape in SHAPES.items()}
    b = {name: g.input(f"{name}_bias", og.f32, (n,)) for name, n in zip(SHAPES, (16, 8, 16, 1), strict=True)}
    h1 = g.relu(g.convolution(x, w["conv1"], b["conv1"], **WINDOW))
    h2 = g.relu(g.convolution(h1, w["conv2"], b["conv2"], **WINDOW))
    h3 = g.relu(g.op("ConvTranspose", [h2, w["deconv1"], b["deconv1"]], WINDOW, edition="legacy-1"))
    y = g.output("y", g.sigmoid(g.conv_transpose(h3, w["deconv2"], b["deconv2"], **WINDOW)))
    g.output("loss", g.reduce_mean(g.squared_difference(y, x), axes=[0, 1, 2, 3]))

    scale = g.constant(np.full((1, 1, 1, 1), 2 / (BATCH * 64), np.float32))
    d4 = g.sigmoid_backward(y, g.multiply(g.subtract(y, x), scale))
    d3 = g.relu_backward(h3, g.conv_transpose_backward_data(d4, w["deconv2"], **WINDOW))
    d2 = g.relu_backward(h2, g.op("ConvTransposeBackpropData", [d3, w["deconv1"]], WINDOW, edition="legacy-1"))
    data = {**WINDOW, "output_shape": h1.shape}
    d1 = g.relu_backward(h1, g.op("ConvolutionBackpropData", [d2, w["conv2"]], data, edition="legacy-1"))
    conv2, deconv1 = ({**WINDOW, "filter_shape": SHAPES[name]} for name in ("conv2", "deconv1"))
    g.output("d_conv1", g.convolution_backward_weights(x, d1, weights_shape=SHAPES["conv1"], **WINDOW))
    g.output("d_conv2", g.op("ConvolutionBackpropFilters", [h1, d2], conv2, edition="legacy-1"))
    g.output("d_deconv1", g.op("ConvTransposeBackpropFilters", [h2, d3], deconv1, edition="legacy-1"))
    g.output("d_deconv2", g.conv_transpose_backward_weights(h3, d4, weights_shape=SHAPES["deconv2"], **WINDOW))
    for name, gradient in zip(SHAPES, (d1, d2, d3, d4), strict=True):
        g.output(f"d_{name}_bias", g.bias_add_backward(gradient))
    return g


digits = (load_digits().images / 16).astype(np.float32)[..., None]
graph = training_step()
params = {name: rng.normal(0, 0.15, t.shape).astype(np.float32) for name, t in graph.inputs.items() if name != "x"}
moments = {name: (np.zeros_like(p), np.zeros_like(p)) for name, p in params.items()}
x = digits[:BATCH].copy()
model = graph.compile(threads=1)  # such small steps gain nothing from a second thread
step = model.bind(x=x, **params)  # x and the parameters change in place; every run reads the current values
for epoch in range(EPOCHS):
    batches = rng.permutation(len(digits))[: len(digits) // BATCH * BATCH].reshape(-1, BATCH)
    for count, batch in enumerate(batches, epoch * len(batches) + 1):
        x[...] = digits[batch]
        result = step.run()
        for name, p in params.items():  # Adam
            gradient, (m, v) = getattr(result, f"d_{name}"), moments[name]
            m += 0.1 * (gradient - m)
            v += 0.001 * (gradient**2 - v)
            p -= RATE * (m / (1 - 0.9**count)) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
    print(f"\repoch {epoch + 1:2}/{EPOCHS}  loss {result.loss:.5f}  {'#' * epoch}", end="", flush=True)

rows = [np.hstack([np.pad(image, 1) for image in images[:16, ..., 0]]) for images in (x, step.run().y)]
Image.fromarray((np.vstack(rows) * 255).astype(np.uint8)).resize((1280, 160), 0).save("autoencoder.png")
exact, worst = og.reference.run(graph, {"x": x, **params}), np.zeros(2)
for name in params:
    gradient, expected = getattr(result, f"d_{name}"), exact[f"d_{name}"]
    error, shift = np.abs(gradient - expected).max() / np.abs(expected).max(), 1e-3 * np.sign(gradient)
    up, down = (model(x=x, **{**params, name: params[name] + way}).loss for way in (shift, -shift))
    worst = np.maximum(worst, (error, abs((up - down) / 2 / (gradient * shift).sum() - 1)))
    assert (worst < (1e-4, 0.05)).all(), name
print(f"\n\n{Path('autoencoder.png').resolve()}\ndigits above their copies, each made from 32 numbers")
print(f"{len(graph.ops)} ops in {len(model.report().partitions)} partitions, trained in {count} steps")
print(f"{len(params)} gradients, at most {worst[0]:.0e} off numpy's and {worst[1]:.1%} off the slope of the loss")
