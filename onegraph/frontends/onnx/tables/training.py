"""Lowers nodes of training steps: optimizers, and the statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering import norms
from ....lowering.elementwise import add, binary, filled, multiply
from ....lowering.emitter import Array, Value
from ....lowering.movement import cast
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import Node, computes

DOMAIN = "ai.onnx.preview.training"


def batch_norm_of_batch(node: Node) -> tuple[Value, ...]:
    """A normalization with the statistics of the batch, and the running statistics with these."""
    emit, src, momentum = node.emit, node.value(0), node.attr("momentum", 0.9)
    wide = cast(emit, src, DataType.f32)
    axes = [0, *range(2, node.rank())]
    mean = reduce(emit, "ReduceMean", wide, axes, True)
    centered = binary(emit, "Subtract", wide, mean)
    variance = reduce(emit, "ReduceMean", multiply(emit, centered, centered), axes, False)
    mean = reduce(emit, "ReduceMean", wide, axes, False)
    gamma, beta = (cast(emit, node.value(place), DataType.f32) for place in (1, 2))
    normal = norms.batch_norm(emit, wide, gamma, beta, mean, variance, epsilon=node.attr("epsilon", 1e-5))
    running = []
    for place, now in ((3, mean), (4, variance)):
        before = cast(emit, node.value(place), DataType.f32)
        weighted = [multiply(emit, one, filled(share, one)) for one, share in ((before, momentum), (now, 1 - momentum))]
        running.append(cast(emit, add(emit, *weighted), node.dtype(place)))
    return (cast(emit, normal, node.dtype()), *running)[: len(node.proto.output)]


def _of_each(node: Node, states: int, step: Callable[..., tuple[Array, ...]]) -> list[Array]:
    """The results of a step for each tensor: first all new tensors, then each kind of state."""
    count = (len(node) - 2) // (2 + states)
    rate, number = float(node.array(0).reshape(-1)[0]), int(node.array(1).reshape(-1)[0])
    sets = [[node.wide(2 + place + count * kind) for kind in range(2 + states)] for place in range(count)]
    updates = [step(rate, number, *one) for one in sets]
    dtype = node.array(2).dtype
    return [one[kind].astype(dtype) for kind in range(1 + states) for one in updates]


@computes("Adam", domain=DOMAIN)
def adam(node: Node) -> list[Array]:
    """A step of Adam."""
    norm, after = node.attr("norm_coefficient", 0.0), node.attr("norm_coefficient_post", 0.0)
    alpha, beta, epsilon = node.attr("alpha", 0.9), node.attr("beta", 0.999), node.attr("epsilon", 1e-6)

    def step(rate: float, number: int, x: Array, slope: Array, mean: Array, square: Array) -> tuple[Array, ...]:
        slope = norm * x + slope
        mean, square = alpha * mean + (1 - alpha) * slope, beta * square + (1 - beta) * slope * slope
        if number > 0:
            rate = rate * float(np.sqrt(1 - beta**number)) / (1 - alpha**number)
        return (1 - after) * (x - rate * mean / (np.sqrt(square) + epsilon)), mean, square

    return _of_each(node, 2, step)


@computes("Adagrad", domain=DOMAIN)
def adagrad(node: Node) -> list[Array]:
    """A step of AdaGrad."""
    norm, decay, epsilon = (
        node.attr("norm_coefficient", 0.0),
        node.attr("decay_factor", 0.0),
        node.attr("epsilon", 1e-6),
    )

    def step(rate: float, number: int, x: Array, slope: Array, square: Array) -> tuple[Array, ...]:
        slope = norm * x + slope
        square = square + slope * slope
        return x - rate / (1 + number * decay) * slope / (np.sqrt(square) + epsilon), square

    return _of_each(node, 1, step)


@computes("Momentum", domain=DOMAIN)
def momentum(node: Node) -> list[Array]:
    """A step of gradient descent with momentum."""
    norm, alpha, beta = node.attr("norm_coefficient"), node.attr("alpha"), node.attr("beta")
    nesterov = node.attr("mode") == "nesterov"

    def step(rate: float, number: int, x: Array, slope: Array, speed: Array) -> tuple[Array, ...]:
        slope = norm * x + slope
        speed = alpha * speed + (beta if number > 0 else 1.0) * slope
        return x - rate * (slope + alpha * speed if nesterov else speed), speed

    return _of_each(node, 1, step)
