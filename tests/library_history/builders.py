"""Makes the graphs that run what commits of the oneDNN library mended."""

from __future__ import annotations

from math import prod
from typing import Any

from onegraph import Graph, LogicalTensor

ROW: dict[str, Any] = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
IMAGE: dict[str, Any] = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
VOLUME: dict[str, Any] = {"strides": [1] * 3, "pads_begin": [0] * 3, "pads_end": [0] * 3, "dilations": [1] * 3}
WINDOWS = ROW, IMAGE, VOLUME
BINARY = {"Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "MatMul", "GreaterEqual"}
TRIES: dict[str, list[Any]] = {}  # the graphs of each try
Shape = tuple[int, ...]


def tries(name: str, *builds: Any) -> None:
    """Note the graphs that run what the commits mended of which history.json says this name."""
    assert name not in TRIES
    TRIES[name] = list(builds)


def inputs(g: Graph, dtype: str, *shapes: Shape) -> list[LogicalTensor]:
    return [g.input(f"x{number}", dtype, shape) for number, shape in enumerate(shapes)]


def window(rank: int, **attrs: Any) -> dict[str, Any]:
    """The attributes of a window of so many spatial axes; a number stands for as many of it."""
    wide = {key: [value] * rank if key in ROW and isinstance(value, int) else value for key, value in attrs.items()}
    return {**WINDOWS[rank - 1], **wide}


def convolved(kind: str, dtype: str, shapes: list[Shape], then: str = "", /, **attrs: Any) -> Any:
    """A convolution of inputs of these shapes, of which the third goes to the op behind it."""

    def build(g: Graph) -> LogicalTensor:
        x, w, *others = inputs(g, dtype, *shapes)
        result = g.op(kind, [x, w], window(len(shapes[0]) - 2, **attrs))
        return g.op(then, [result, *others]) if then else result

    return build


def biased(kind: str, dtype: str, shapes: list[Shape], **attrs: Any) -> Any:
    """A convolution with a bias."""

    def build(g: Graph) -> LogicalTensor:
        return g.op(kind, inputs(g, dtype, *shapes), window(len(shapes[0]) - 2, **attrs))

    return build


def chained(dtype: str, shapes: list[Shape], *kinds: tuple[str, dict[str, Any]], swapped: bool = False) -> Any:
    """Ops one behind the other; each reads the result before it, and a further input if it needs one."""

    def build(g: Graph) -> LogicalTensor:
        result, *others = inputs(g, dtype, *shapes)
        for kind, attrs in kinds:
            options: dict[str, Any] = {"dtype": dtype} if kind in ("MatMul", "SoftMax") else {}
            options |= {"outputs": []} if kind == "SoftMax" else {}
            ends = [result, others.pop(0)] if kind in BINARY else [result]
            result = g.op(kind, ends[::-1] if swapped and kind != "MatMul" else ends, attrs, **options)
        return result

    return build


def laid(dtype: str, first: tuple[Shape, Shape], second: tuple[Shape, Shape], then: Shape = (), **attrs: Any) -> Any:
    """A product of two tensors, each with a shape and strides, and an Add behind it."""

    def build(g: Graph) -> LogicalTensor:
        ends = [
            g.input(name, dtype, shape, strides=steps or None)
            for name, (shape, steps) in zip("xw", (first, second), strict=True)
        ]
        result = g.op("MatMul", ends, attrs, dtype=dtype)
        return g.add(result, g.input("y", dtype, then)) if then else result

    return build


def quantized(
    kind: str,
    shapes: list[Shape],
    /,
    *,
    source: str = "u8",
    then: str = "",
    zps: tuple[int, int] = (0, 0),
    scales: int = 0,
    to: str = "s8",
    cast: bool = False,
    swapped: bool = False,
    **attrs: Any,
) -> Any:
    """A product of codes, with an op behind it.

    Args:
        zps: zero points of the source and of the weights.
        scales: 0 for one scale of all weights, else the axis along which each weight has its own.
        to: the type of codes of the result, or "" for a result in floating point.
        cast: whether the product is of bf16.
        swapped: whether the product is the second operand of the op behind it.
    """
    terms = shapes[1][-2] if kind == "MatMul" else prod(shapes[1]) // max(shapes[1][-1], 1)
    spread = 128 * 74 * terms**0.5 / 4096  # of the sums, with scales of 1 / 64

    def build(g: Graph) -> LogicalTensor:
        x = g.dequantize(g.input("x", source, shapes[0]), scales=[0.015625], zps=[zps[0]])
        codes = g.input("w", "s8", shapes[1])
        if scales:
            count = shapes[1][scales]
            steps = [0.015625 * (1 + index % 3) / 2 for index in range(count)]
            w = g.dequantize(codes, qtype="per_channel", axis=scales, scales=steps, zps=[0] * count)
        else:
            w = g.dequantize(codes, scales=[0.015625], zps=[zps[1]])
        ends = [g.type_cast(end, dtype="bf16") for end in (x, w)] if cast else [x, w]
        dtype = "bf16" if cast else "f32"
        options = attrs if kind == "MatMul" else window(len(shapes[0]) - 2, **attrs)
        result = g.op(kind, ends, options, dtype=dtype if kind == "MatMul" else None)
        if then:
            others = [g.input("y", dtype, shapes[2])] if len(shapes) > 2 else []
            operands = [result, *others]
            result = g.op(then, operands[::-1] if swapped else operands)
        if not to:
            return result
        result = g.type_cast(result, dtype="f32") if cast else result
        return g.quantize(result, scales=[spread / 40], zps=[3], dtype=to)

    return build


def pooled(kind: str, dtype: str, shape: Shape, **attrs: Any) -> Any:
    def build(g: Graph) -> LogicalTensor:
        options = {"strides": [2, 2], "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [1, 1], **attrs}
        counts = tuple((size - 1) // 2 + 1 for size in shape[1:3])
        part = (shape[0], *counts, shape[3])
        if kind.startswith("Avg"):
            options["exclude_pad"] = False
        if kind == "AvgPoolBackward":
            options["src_shape"] = list(shape)
        ends = {"AvgPoolBackward": [part], "MaxPoolBackward": [shape, part]}.get(kind, [shape])
        return g.op(kind, inputs(g, dtype, *ends), options)

    return build
