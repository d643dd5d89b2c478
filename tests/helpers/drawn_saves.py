"""Graphs drawn at random that are written as nodes of ONNX: a material of :mod:`draws`.

Transposes that meet and cancel, biases as codes, functions with absent and narrow operands, and bodies of control flow
need several ops in a row, of which a case of one op has none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.ir.op import LogicalTensor
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import HOST
from tests.lowering import test_recorded_graphs as recorded

from .draws import material

CHANNELS = 4
ONE = ("ReLU", "Sigmoid", "Tanh", "Exp", "Abs", "GELU", "Sqrt", "HardSwish", "Round", "Elu", "LeakyReLU", "Mish")
TWO = ("Add", "Multiply", "Subtract", "Divide", "Maximum", "Minimum", "SquaredDifference")
GIVEN = {"Elu": {"alpha": 0.5}, "LeakyReLU": {"alpha": 0.5}, "HardSwish": {}}
FLOATS = (DataType.f32, DataType.bf16, DataType.f16)


def small(drawn: Random, graph: og.Graph, dtype: DataType, *dims: int) -> LogicalTensor:
    """A constant of quarters, whose products with steps of a power of two are whole numbers of such steps."""
    numbers = [drawn.choice((-1.5, -0.5, 0.25, 0.5, 1.0, 2.0)) for _ in range(int(np.prod(dims)))]
    return graph.constant(np.array(numbers).reshape(dims).astype(dtype.numpy), dtype=dtype)


def operand(drawn: Random, graph: og.Graph, like: LogicalTensor) -> LogicalTensor:
    """A constant beside a tensor: a number, one for each channel, or of more or fewer axes."""
    rank = len(like.shape or (1,) * 4)
    dims = drawn.choice(((), (1,), (CHANNELS,), (1,) * (rank - 1) + (CHANNELS,), (4, CHANNELS), (1,) * (rank + 1)))
    return small(drawn, graph, like.dtype, *dims)


def codes(drawn: Random, graph: og.Graph, src: LogicalTensor, axis: int) -> LogicalTensor:
    """A tensor as codes and back, with one scale or one for each channel."""
    if src.dtype is not og.f32:
        src = graph.op("TypeCast", [src], dtype=og.f32)
    count = drawn.choice((1, 1, CHANNELS))
    attrs: dict[str, Any] = {"scales": [drawn.choice((0.5, 0.25, 2.0**-63, 2.0**-80, 0.0, 0.1)) for _ in range(count)]}
    if drawn.random() < 0.5:
        attrs["zps"] = [drawn.choice((0, 3, 300)) for _ in range(count)]
    attrs |= {"qtype": "per_channel", "axis": axis} if count > 1 else {}
    kind = drawn.choice(("s8", "u8"))
    moved = graph.op("Quantize", [src], attrs, dtype=kind) if src.value is None else None
    if moved is None:
        moved = graph.constant(np.array(src.value).astype(kind.replace("s", "int").replace("u", "uint")))
    return graph.op("Dequantize", [moved], attrs)


def convolution(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    src = drawn.choice(values)
    form, layout = drawn.choice((("NXC", "XIO"), ("NXC", "OIX"), ("NXC", "XIO"), ("NCX", "OIX")))
    size = drawn.choice((1, 3))
    dims = (size, size, CHANNELS, CHANNELS) if layout == "XIO" else (CHANNELS, CHANNELS, size, size)
    weights = small(drawn, graph, src.dtype, *dims)
    if src.dtype is og.f32 and drawn.random() < 0.5:
        src = codes(drawn, graph, src, drawn.choice((3, -1)))
        weights = codes(drawn, graph, weights, 3 if layout == "XIO" else 0)
    bias = drawn.choice((None, small(drawn, graph, src.dtype, CHANNELS)))
    if bias is not None and drawn.random() < 0.3:
        bias = graph.constant(np.full(CHANNELS, drawn.choice((0, 2**22, 2**22 + 1)), src.dtype.numpy), dtype=src.dtype)
    if bias is not None and drawn.random() < 0.2:
        bias = graph.input(f"b{len(values)}", src.dtype, (CHANNELS,))
    begin, end = ([drawn.choice((size // 2, size // 2, 0)) for _ in "hw"] for _ in "be")
    attrs = {"strides": [1, 1], "pads_begin": begin, "pads_end": end, "dilations": [drawn.choice((1, 1, 2)), 1]}
    attrs |= {"data_format": form, "weights_format": layout}
    if drawn.random() < 0.3:
        attrs["auto_pad"] = drawn.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return graph.op("Convolution", [src, weights, bias][: 2 + (bias is not None)], attrs)


def blocks(drawn: Random, graph: og.Graph, src: LogicalTensor) -> LogicalTensor:
    """A tensor behind a DynamicDequantize with one scale for each block of its channels, or for each channel."""
    form = drawn.choice((CHANNELS // 2, CHANNELS // 2, 1))
    scales = graph.input(f"s{len(graph.ops)}", "f32", (1, 1, 1, CHANNELS // form) if form > 1 else (CHANNELS,))
    if form > 1 and drawn.random() < 0.3:
        scales = graph.op("StaticTranspose", [scales], {"order": (0, 1, 2, 3)})
    attrs = {"qtype": "per_channel", "axis": 3}
    if form > 1:
        attrs = {"qtype": "per_group", "group_shape": (1, 4, 4, form)}
    if src.dtype is not og.f32:
        src = graph.op("TypeCast", [src], dtype=og.f32)
    moved = graph.op("Quantize", [src], {"scales": [0.5]}, dtype="s8")
    return graph.op("DynamicDequantize", [moved, scales], attrs)


def unary(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    kind = drawn.choice((*ONE, "SoftPlus", "Square", "Reciprocal"))
    return graph.op(kind, [drawn.choice(values)], GIVEN.get(kind, {}))


def binary(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    first = drawn.choice(values)
    ends = [first, operand(drawn, graph, first) if drawn.random() < 0.6 else drawn.choice(values)]
    drawn.shuffle(ends)
    return graph.op(drawn.choice(TWO), ends)


def turned(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    order = drawn.choice(((0, 3, 1, 2), (0, 2, 3, 1), (0, 1, 2, 3), (0, 2, 1, 3)))
    return graph.op("StaticTranspose", [drawn.choice(values)], {"order": order})


def cast(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    src = drawn.choice(values)
    other = drawn.choice(FLOATS[1:]) if src.dtype is og.f32 else og.f32
    return graph.op("TypeCast", [src], dtype=other)


def choice(drawn: Random, graph: og.Graph, values: list[LogicalTensor]) -> LogicalTensor:
    first = drawn.choice(values)
    holds = graph.op("Greater", [first, operand(drawn, graph, first)], edition=HOST)
    return graph.op("Where", [holds, first, operand(drawn, graph, first)], edition=HOST)


STEPS: dict[str, Callable[[Random, og.Graph, list[LogicalTensor]], LogicalTensor]] = {
    "convolution": convolution,
    "unary": unary,
    "binary": binary,
    "turned": turned,
    "cast": cast,
    "choice": choice,
    "codes": lambda drawn, graph, values: codes(drawn, graph, drawn.choice(values), drawn.choice((1, 3, -1))),
    "blocks": lambda drawn, graph, values: blocks(drawn, graph, drawn.choice(values)),
    "pool": lambda drawn, graph, values: graph.op(
        "MaxPool",
        [drawn.choice(values)],
        {"strides": [1, 1], "kernel": [1, 2], "pads_begin": [0, 0], "pads_end": [0, 1], "data_format": "NXC"},
    ),
    "sizes": lambda drawn, graph, values: graph.op(
        "Interpolate",
        [drawn.choice(values)],
        {"mode": "nearest", "sizes": [4, 4], "data_format": drawn.choice(("NXC", "NCX"))},
    ),
}


def chain(name: str, drawn: Random) -> og.Graph:
    """Ops on images whose channels are last; ``name`` is the last step."""
    graph = og.Graph(strict=False)
    known = 1, 4, 4, CHANNELS
    shape = drawn.choice((*[known] * 6, (None, 4, 4, CHANNELS), (None,) * 4, None))
    values: list[LogicalTensor] = [graph.input("x", drawn.choice(("f32", "f32", "f32", "bf16")), shape)]
    for step in [*(drawn.choice([*STEPS]) for _ in range(drawn.choice((1, 2, 4)))), name]:
        with suppress(OneGraphError):
            values = [*values, STEPS[step](drawn, graph, values)][-3:]
    for place, one in enumerate(values[-drawn.choice((1, 1, 2)) :]):
        graph.output(f"y{place}", one)
    return graph


@material(lambda: STEPS, needs="onnx")
def saved_chains(name: str, number: int) -> list[str]:
    """Chains of ops on images as nodes of ONNX."""
    return recorded.outcome(lambda: recorded.nodes_of(chain(name, Random(f"{name} {number}"))))
