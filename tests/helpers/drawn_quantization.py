"""Small networks of whole numbers that are quantized: a material of :mod:`draws`.

Whole numbers make results that no order of sums and no instruction set changes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from tests.lowering import test_recorded_graphs as recorded

from .draws import material

F32 = np.float32


def whole(drawn: Random, *shape: int) -> Any:
    """Small whole numbers; columns of some may be zero or large."""
    numbers = np.array([drawn.choice((-3, -2, -1, 0, 1, 2, 3)) for _ in range(int(np.prod(shape)))], F32).reshape(shape)
    if drawn.random() < 0.2:
        numbers[..., -1] = drawn.choice((0, 1e-35, 1e-39, 1000))
    return numbers


def layer(g: og.Graph, drawn: Random, x: Any, name: str) -> Any:
    """A product of the input, or something close to one."""
    rows = int(x.shape[-1])
    columns = drawn.choice((8, 8, 64 // rows, 64 // rows + 1, max(63 // rows, 1)))
    is_turned = drawn.random() < 0.3
    weights: Any = whole(drawn, columns, rows) if is_turned else whole(drawn, rows, columns)
    if drawn.random() < 0.1:
        weights = g.relu(g.constant(weights))
    if drawn.random() < 0.1 and isinstance(weights, np.ndarray):
        weights = weights[None]
    bias: list[Any] = []
    if drawn.random() < 0.6:
        bias = [whole(drawn, columns) * F32(drawn.choice((1, 1, 1e9, float("inf"))))]
        bias = drawn.choice((bias, bias, [bias[0][None]], [g.relu(g.constant(np.abs(bias[0])))]))
    return g.matmul(x, weights, *bias, transpose_b=is_turned, name=name)


def image(g: og.Graph, drawn: Random, x: Any, name: str) -> Any:
    """A convolution, and maybe a norm behind it that can be computed into its weights."""
    channels = int(x.shape[-1])
    form = drawn.choice(("XIO", "XIO", "OIX"))
    shape = (channels, channels, 2, 2) if form == "OIX" else (2, 2, channels, channels)
    bias = [whole(drawn, channels)] if drawn.random() < 0.4 else []
    y = g.convolution(x, whole(drawn, *shape), *bias, weights_format=form, pads_end=1, name=name)
    if drawn.random() < 0.7:
        parts: list[Any] = [np.full(channels, number, F32) for number in (2, 1, drawn.choice((0, 3)), 0.75)]
        if drawn.random() < 0.2:
            place = drawn.randrange(4)
            parts[place] = g.relu(g.constant(parts[place]))
        form = drawn.choice(("NXC", "NXC", "NXC", "NCX"))
        if drawn.random() < 0.15:
            g.output(f"{name}.before", y)
        z = g.batch_norm_inference(y, *parts, epsilon=0.25, data_format=form if y.shape[1] == channels else "NXC")
        y = g.add(y, z) if drawn.random() < 0.15 else z
    return y


@material(lambda: ("products", "images"), needs="onegraph.capi")
def quantized(name: str, number: int) -> list[str]:
    """What becomes of a network, and the records of its ops."""
    drawn = Random(f"{name} {number}")
    g = og.Graph()
    size = drawn.choice((4, 8, 8, 16))
    x = g.input("x", drawn.choice(("f32",) * 9 + ("bf16",)), (2, size) if name == "products" else (1, 4, 4, 4))
    y = x
    try:
        for place in range(drawn.choice((1, 1, 2, 3))):
            source = y
            y = layer(g, drawn, y, f"l{place}") if name == "products" else image(g, drawn, y, f"l{place}")
            kind = drawn.random()
            y = g.relu(y) if kind < 0.4 else g.add(y, source) if kind < 0.55 and y.shape == source.shape else y
            if kind > 0.85:
                g.output(f"y{place}", y)
            if kind > 0.95:
                y = g.relu(y) + y
    except OneGraphError:
        return []
    g.output("y", drawn.choice((y, y, g.relu(y))))
    sample = whole(drawn, *x.shape) * F32(drawn.choice((1, 1, 2, 0)))
    sample = abs(sample) if drawn.random() < 0.2 else np.maximum(sample, -1) if drawn.random() < 0.3 else sample
    options = {
        "method": drawn.choice(("minmax", "minmax", "minmax", "percentile")),
        "percentile": drawn.choice((50, 90, 99.99, 100, 101)),
        "exclude": drawn.choice(((), (), (), (), ("l0",), ("l*",), ("l1", "l?"), ("relu_1",), "l0", (5,))),
        "limit": drawn.choice((0.1, 0.1, 1.0, 0.01, 0)),
        "portable": drawn.random() < 0.4,
    }
    samples = [sample.astype(x.dtype.numpy)] * drawn.choice((1, 2))

    def made() -> str:
        found = og.quantize(g, samples, **options)
        records = (
            f"{one.name} {one.dtype} {one.scale:.5g} {one.zero_point} {one.error:.3g} {one.reason}"
            for one in found.quantization
        )
        return "\n".join([*recorded.lines_of(found), *records])

    return recorded.outcome(made)
