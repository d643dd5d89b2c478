"""Train a small ResNet on the handwritten digits of scikit-learn, and classify digits that it has not seen.

A step is one graph: forward, gradients, Adam, and the statistics of each BatchNorm. A second graph classifies with the
variables of the first one. ``--resume`` goes on from the checkpoint that every epoch leaves.
"""

import numpy as np
from shared.loop import args, train
from sklearn.datasets import load_digits

import onegraph as og

BATCH, EPOCHS, RATE = 50, 2 if args.quick else 40, 3e-3
BLOCKS = [(32, 1), (64, 2), (96, 2)]  # channels and stride
digits = load_digits()
images, labels = (digits.images / 16).astype(np.float32)[..., None], digits.target.astype(np.int32)
chosen = np.random.default_rng(0).permutation(len(labels))
TRAIN, CHECK, TEST = chosen[:1300], chosen[1300:1500], chosen[1500:]


def logits(g, x, parameter, norm):
    """The network; ``parameter`` and ``norm`` add parameters and BatchNorms for training, or for inference."""
    rng = np.random.default_rng(1)

    def convolution(name, x, channels, size, stride=1):
        shape, pad = (size, size, x.shape[-1], channels), [size // 2] * 2
        w = parameter(f"{name}_w", rng.normal(0, (2 / np.prod(shape[:3])) ** 0.5, shape))
        y = g.convolution(x, w, strides=[stride] * 2, pads_begin=pad, pads_end=pad, dilations=[1, 1])
        starts = {"gamma": 1, "beta": 0, "mean": 0, "variance": 1}
        return norm(y, *[parameter(f"{name}_{key}", np.full(channels, start)) for key, start in starts.items()])

    x = g.relu(convolution("first", x, BLOCKS[0][0], 3))
    for number, (channels, stride) in enumerate(BLOCKS):
        y = g.relu(convolution(f"block{number}_one", x, channels, 3, stride))
        y = convolution(f"block{number}_two", y, channels, 3)
        x = g.relu(y + (x if stride == 1 else convolution(f"block{number}_short", x, channels, 1, stride)))
    x, last = g.reduce_mean(x, axes=[1, 2]), (x.shape[-1], 10)
    return g.matmul(x, parameter("w", rng.normal(0, 0.1, last)), parameter("b", np.zeros(10)))


def training_step():
    g, made = og.Graph(), {}

    def variable(name, start):
        return made.setdefault(name, g.variable(name, start.astype(np.float32)))

    def norm(*tensors):
        return og.training.batch_norm(g, *tensors)

    x, target = g.input("x", og.f32, (BATCH, 8, 8, 1)), g.input("labels", og.s32, (BATCH,))
    loss = g.output("loss", og.training.cross_entropy(g, logits(g, x, variable, norm), target))
    learned = [one for name, one in made.items() if not name.endswith(("_mean", "_variance"))]
    og.training.Adam(g.input("rate", og.f32, ())).minimize(g, loss, learned)
    return g.compile()


def classifier():
    g = og.Graph()

    def norm(*tensors):
        return g.batch_norm_inference(*tensors, epsilon=1e-5)

    x = g.input("x", og.f32, (None, 8, 8, 1))
    y = logits(g, x, lambda name, start: g.input(name, og.f32, start.shape), norm)
    g.output("loss", og.training.cross_entropy(g, y, g.input("labels", og.s32, (None,))))
    g.output("logits", y)
    return g.compile()


def batches(epoch):
    """The steps of an epoch: digits moved by up to one pixel, with a learning rate that falls to 0."""
    rng, steps = np.random.default_rng(epoch), []
    for batch in rng.permutation(TRAIN).reshape(-1, BATCH):
        wide, moves = np.pad(images[batch], ((0, 0), (1, 1), (1, 1), (0, 0))), rng.integers(0, 3, (BATCH, 2))
        moved = np.stack([one[row : row + 8, left : left + 8] for one, (row, left) in zip(wide, moves, strict=True)])
        rate = np.float32(RATE * (1 + np.cos(np.pi * (epoch / EPOCHS + len(steps) * BATCH / len(TRAIN) / EPOCHS))) / 2)
        steps.append({"x": moved, "labels": labels[batch], "rate": rate})
    return steps


def classify(some):
    return evaluate(x=images[some], labels=labels[some], **{name: step.variables[name] for name in needed})


step, evaluate = training_step(), classifier()
needed = [one.name for one in evaluate.inputs if one.name not in ("x", "labels")]
history = train("digits_resnet", step, batches, lambda: classify(CHECK).loss, epochs=EPOCHS, patience=12)
correct = classify(TEST).logits.argmax(axis=1) == labels[TEST]
print(f"loss {history[0][0]:.3f} in the first epoch, {history[-1][0]:.3f} in the last of {len(history)}")
print(f"{correct.mean():.2%} of {correct.size} digits that the network has not seen")
