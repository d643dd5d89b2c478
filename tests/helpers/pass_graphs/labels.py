"""A cross-entropy with its gradient."""

from __future__ import annotations

import onegraph as og
from onegraph import training
from onegraph.compiler.passes.label_gradients import LEAST

CLASSES = 1024


ROWS = LEAST // 4 // CLASSES


def with_gradient(shape, *, ignore_index=None, dtype="f32", returned=False, probabilities=False):
    g = og.Graph()
    logits = g.input("logits", dtype, shape)
    labels = g.input("labels", "f32", shape) if probabilities else g.input("labels", "s32", shape[:-1])
    loss = training.cross_entropy(g, logits, labels, reduction="sum", ignore_index=ignore_index)
    g.output("loss", loss)
    (slope,) = g.gradient(loss, [logits])
    g.output("slope", slope)
    if returned:
        (scattered,) = [op.outputs[0] for op in g.ops if op.kind == "ScatterElements"]
        g.output("scattered", scattered)
    return g
