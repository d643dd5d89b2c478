"""Trains graphs: losses, optimizers and layers, each a few ops of the graph.

A training step is one graph. It reads the variables, computes the loss, its gradients and the new variables:

>>> import numpy as np
>>> import onegraph as og
>>> g = og.Graph()
>>> x, labels = g.input("x", og.f32, (8, 4)), g.input("labels", og.s32, (8,))
>>> w = g.variable("w", np.zeros((4, 3), np.float32))
>>> loss = g.output("loss", og.training.cross_entropy(g, g.matmul(x, w), labels))
>>> gradients = og.training.Adam(1e-3).minimize(g, loss, [w])
"""

from .gradients import clip_by_norm, global_norm, low_precision
from .layers import Recurrent, batch_norm, dropout, gru, lstm
from .losses import cross_entropy, mean_squared_error
from .optimizers import SGD, Adam, AdamW, Optimizer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "Recurrent",
    "batch_norm",
    "clip_by_norm",
    "cross_entropy",
    "dropout",
    "global_norm",
    "gru",
    "low_precision",
    "lstm",
    "mean_squared_error",
]
