"""What the graph API of oneDNN fuses, and kernels of single ops, as commits of the library mended them."""

from __future__ import annotations

from typing import Any

from onegraph import Graph, LogicalTensor

from .builders import IMAGE, Shape, chained, convolved, inputs, pooled, quantized, tries

tries(
    "transposed convolution and a binary op",
    *[
        convolved("ConvTranspose", dtype, [(2, 5, 6, 8), (3, 3, 16, 8), other], then)
        for dtype in ("f32", "bf16")
        for then in ("Add", "Multiply")
        for other in ((2, 7, 8, 16), (16,), (1, 1, 1, 16))
    ],
    *[
        convolved(
            "ConvTranspose", "f32", [(2, 8, 5, 6), (8, 16, 3, 3), other], "Add", data_format="NCX", weights_format="IOX"
        )
        for other in ((2, 16, 7, 8), (1, 16, 1, 1))
    ],
)
tries(
    "matrix product and a difference",
    *[
        chained("f32", [(4, 8), (8, 6), (4, 6)], ("MatMul", {}), (kind, {}), swapped=swapped)
        for kind in ("Subtract", "Divide", "Add")
        for swapped in (False, True)
    ],
    *[
        chained("f32", [(2, 4, 8), (8, 6), (6,), (2, 4, 6)], ("MatMul", {}), ("Add", {}), (kind, {}))
        for kind in ("Subtract", "Add", "Multiply")
    ],
    *[
        chained("f32", [(4, 8), (8, 6), (6,), (4, 6)], ("MatMul", {}), ("Add", {}), (kind, {}), swapped=True)
        for kind in ("Subtract", "Divide")
    ],
)
tries(
    "binary ops in a row",
    *[
        chained("f32", [(2, 3, 4, 8), a, b], ("Add", {}), ("ReLU", {}), ("Multiply", {}))
        for a in ((2, 3, 4, 8), (8,), (1, 3, 1, 1))
        for b in ((2, 3, 4, 8), (1, 1, 1, 8), (1, 3, 1, 1))
    ],
)
tries(
    "reciprocal and a product",
    *[
        chained("f32", [(2, 3, 8), other], ("Exp", {}), ("Reciprocal", {}), ("Multiply", {}), swapped=swapped)
        for other in ((2, 3, 8), (8,), (2, 1, 8))
        for swapped in (False, True)
    ],
)
tries(
    "softmax and ops behind it",
    *[
        chained(dtype, [(2, 3, 4, 8), other], ("SoftMax", {"axis": axis}), ("ReLU", {}), ("Multiply", {}))
        for dtype in ("f32", "bf16")
        for axis in (-1, 1)
        for other in ((2, 3, 4, 8), (8,), (1, 3, 1, 1), (1, 1, 1, 1), (1,))
    ],
    *[chained(dtype, [(3, 5, 17), (1,)], ("SoftMax", {"axis": -1}), ("Add", {})) for dtype in ("f32", "bf16", "f16")],
)


def _normal(then: str, dtype: str, other: Shape = (16,), codes: bool = True) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, (3, 4, 16))
        vectors = [g.input(name, "f32", (16,)) for name in ("gamma", "beta")]
        result = g.layer_norm(x, *vectors, keep_stats=False, epsilon=0.125)
        result = g.type_cast(result, dtype="f32") if dtype != "f32" else result
        if then:
            result = g.op(then, [result, *([g.input("y", "f32", other)] if then in ("Multiply", "Add") else [])])
        return g.quantize(result, scales=[0.25], zps=[3], dtype="u8") if codes else result

    return build


tries(
    "layer norm, a cast, an op and Quantize",
    *[_normal(then, dtype) for then in ("", "ReLU", "Multiply", "Add") for dtype in ("f32", "bf16")],
    *[
        _normal(then, dtype, other, codes)
        for then in ("Multiply", "Add")
        for dtype in ("f32", "bf16")
        for other in ((3, 4, 16), (3, 4, 1), (1, 4, 1), (3, 1, 16))
        for codes in (False, True)
    ],
)


def _summed_codes(then: str, to: str, kind: str = "Convolution") -> Any:
    """A product of codes in bf16, a sum of further codes, and an op."""

    def build(g: Graph) -> LogicalTensor:
        shapes = (
            [(2, 6, 6, 8), (3, 3, 8, 16), (2, 4, 4, 16)] if kind == "Convolution" else [(2, 5, 8), (8, 16), (2, 5, 16)]
        )
        x, w, y = (
            g.type_cast(g.dequantize(g.input(name, code, shape), scales=[0.03125], zps=[0]), dtype="bf16")
            for name, code, shape in zip("xwy", ("u8", "s8", "u8"), shapes, strict=True)
        )
        result = g.op(
            kind, [x, w], IMAGE if kind == "Convolution" else {}, dtype=None if kind == "Convolution" else "bf16"
        )
        result = g.add(result, y)
        result = g.op(then, [result]) if then else result
        if not to:
            return result
        return g.quantize(g.type_cast(result, dtype="f32"), scales=[0.25], zps=[2], dtype=to)

    return build


tries(
    "convolution of codes in bf16 and a sum",
    *[
        _summed_codes(then, to, kind)
        for kind in ("Convolution", "MatMul")
        for then in ("", "ReLU")
        for to in ("", "u8", "s8")
    ],
)
tries(
    "matrix product of codes in bf16 and an op",
    *[
        quantized("MatMul", [(5, 8), (8, 16), other], source=source, then=then, to=to, cast=True, swapped=swapped)
        for source in ("u8", "s8")
        for then in ("Add", "Multiply")
        for other in ((5, 16), (16,))
        for to in ("", "u8")
        for swapped in (False, True)
    ],
)
tries(
    "transposed convolution of codes and an op",
    *[
        quantized("ConvTranspose", [(2, 5, 6, 8), (3, 3, 16, 8), *others], source=source, then=then, to=to, **IMAGE)
        for source in ("u8", "s8")
        for then, others in (("", ()), ("Add", ((2, 7, 8, 16),)), ("Add", ((16,),)), ("ReLU", ()))
        for to in ("", "s8", "u8")
    ],
)


def _then_codes(kind: str, attrs: dict[str, Any], shape: Shape, other: Shape, to: str, axis: bool = False) -> Any:
    """An op, a product, and Quantize, with one scale or one for each channel."""

    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", "f32", shape)
        options: dict[str, Any] = {"outputs": [], "dtype": "f32"} if kind == "SoftMax" else {}
        ends = [x, g.input("z", "f32", shape)] if kind in ("Add", "Maximum") else [x]
        result = g.op(kind, ends, attrs, **options)
        result = g.op("Multiply", [result, g.input("y", "f32", other)]) if other else result
        if axis:
            scales = [0.125 * (1 + index % 3) for index in range(shape[-1])]
            return g.quantize(result, qtype="per_channel", axis=3, scales=scales, zps=[2] * shape[-1], dtype=to)
        return g.quantize(result, scales=[0.125], zps=[5], dtype=to)

    return build


POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
tries(
    "quantization folded into an op",
    *[
        _then_codes(kind, attrs, (2, 4, 6, 8), other, to, axis)
        for kind, attrs in (
            ("Abs", {}),
            ("Sigmoid", {}),
            ("SoftMax", {"axis": -1}),
            ("MaxPool", POOL),
            ("AvgPool", {**POOL, "exclude_pad": True}),
            ("Add", {}),
            ("Maximum", {}),
        )
        for other in ((), (8,), (1, 1, 1, 1))
        for to in ("u8", "s8")
        for axis in (False, True)
    ],
)


def _choice(kind: str, shapes: list[Shape], condition: Shape, first: bool) -> Any:
    def build(g: Graph) -> LogicalTensor:
        *ends, other = inputs(g, "f32", *shapes)
        result = g.op(kind, ends, {}, dtype="f32" if kind == "MatMul" else None)
        pair = [result, other] if first else [other, result]
        return g.op("Select", [g.input("cond", "boolean", condition), *pair])

    return build


tries(
    "an op and Select",
    *[
        _choice(kind, shapes, condition, first)
        for kind, shapes in (
            ("MatMul", [(2, 5, 8), (2, 8, 17), (2, 5, 17)]),
            ("MatMul", [(2, 5, 8), (2, 8, 17), (1, 1, 1)]),
            ("Add", [(2, 5, 17), (2, 5, 17), (1, 5, 1)]),
            ("Exp", [(2, 5, 17), (1, 1, 17)]),
        )
        for condition in ((2, 5, 17), (1, 5, 17), (1, 1, 1), (2, 1, 1))
        for first in (False, True)
    ],
)
tries(
    "an op and GreaterEqual",
    *[
        chained("f32", [*shapes, other], (kind, {}), ("GreaterEqual", {}), swapped=swapped)
        for kind, shapes in (("MatMul", [(5, 8), (8, 17)]), ("Add", [(5, 17), (5, 17)]), ("Abs", [(5, 17)]))
        for other in ((5, 17), (17,), (5, 1), (1,))
        for swapped in (False, True)
    ],
)


def _shared(kind: str) -> Any:
    """Graphs in which one tensor is read at two ports of what is fused."""

    def build(g: Graph) -> LogicalTensor:
        x, y = inputs(g, "f32", (4, 8), (4, 8))
        return {
            "swish": lambda: g.multiply(x, g.sigmoid(x)),
            "swish, the other way": lambda: g.multiply(g.sigmoid(x), x),
            "square of a sum": lambda: g.multiply(g.add(x, y), g.add(x, y)),
            "product with itself": lambda: g.add(g.matmul(x, x, transpose_b=True), g.matmul(x, y, transpose_b=True)),
            "residual": lambda: g.subtract(x, g.add(g.relu(x), x)),
            "residual, the other way": lambda: g.subtract(g.add(g.relu(x), y), x),
            "quotient": lambda: g.divide(g.exp(x), g.exp(g.multiply(x, x))),
        }[kind]()

    return build


tries(
    "one input at two ports",
    *[
        _shared(kind)
        for kind in (
            "swish",
            "swish, the other way",
            "square of a sum",
            "product with itself",
            "residual",
            "residual, the other way",
            "quotient",
        )
    ],
)


def _resized(mode: str, layout: str, other: Shape, then: str, dtype: str) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, (2, 5, 6, 3) if layout == "NXC" else (2, 3, 5, 6))
        result = g.op("Interpolate", [x], {"mode": mode, "sizes": [7, 9], "data_format": layout})
        return g.op(then, [result, g.input("y", dtype, other)])

    return build


tries(
    "interpolation and an op",
    *[
        _resized(mode, layout, other, then, dtype)
        for mode in ("nearest", "bilinear")
        for layout, others in (("NXC", ((2, 7, 9, 3), (3,), (1, 7, 1, 1))), ("NCX", ((2, 3, 7, 9), (1, 3, 1, 1))))
        for other in others
        for then in ("Add", "Multiply")
        for dtype in ("f32", "bf16")
    ],
)


def _turned(dtype: str, order: tuple[int, ...], kind: str, axis: int) -> Any:
    """A SoftMax of a tensor whose axes lie in another order in memory."""

    def build(g: Graph) -> LogicalTensor:
        shape, steps, step = (2, 3, 5, 17), [0] * 4, 1
        for place in reversed(order):
            steps[place], step = step, step * shape[place]
        options: dict[str, Any] = {"outputs": []} if kind == "SoftMax" else {}
        return g.op(kind, [g.input("x", dtype, shape, strides=steps)], {"axis": axis}, dtype=dtype, **options)

    return build


tries(
    "softmax of turned axes",
    *[
        _turned(dtype, order, kind, axis)
        for dtype in ("f32", "bf16")
        for order in ((0, 2, 1, 3), (2, 0, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0))
        for kind in ("SoftMax", "LogSoftmax")
        for axis in (3, 1)
    ],
)


def _group_norm(channels: int, groups: int, dtype: str, layout: str) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, (2, 3, 5, channels) if layout == "NXC" else (2, channels, 3, 5))
        vectors = [g.input(name, "f32", (channels,)) for name in ("gamma", "beta")]
        attrs = {"groups": groups, "keep_stats": False, "epsilon": 0.125, "data_format": layout}
        return g.op("GroupNorm", [x, *vectors], attrs)

    return build


GROUPS = ((8, 2), (16, 16), (32, 2), (48, 3), (96, 2), (160, 2), (224, 2), (15, 3), (34, 2), (6, 1), (256, 1))
tries(
    "group norms",
    *[_group_norm(c, n, dtype, layout) for c, n in GROUPS for dtype in ("f32", "bf16") for layout in ("NXC", "NCX")],
)
KINDS = ("Abs", "Exp", "GELU", "HardSwish", "Mish", "ReLU", "Sigmoid", "SoftPlus", "Square", "Tanh")
tries(
    "elementwise ops of many kinds",
    *[chained(dtype, [(3, 5, 17)], (kind, {})) for dtype in ("f32", "bf16", "f16") for kind in KINDS],
    *[chained(dtype, [(3, 37)], ("Square", {}), ("Log", {})) for dtype in ("f32", "bf16", "f16")],
    *[chained("f32", [(7, 8), (8, 37)], ("MatMul", {}), (kind, {})) for kind in KINDS],
    *[chained(dtype, [(5, 37), (5, 37)], ("Multiply", {}), (kind, {})) for dtype in ("f32", "bf16") for kind in KINDS],
)


def _with_mask(dtype: str, kind: str, shape: Shape) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, shape)
        if kind == "PReLU":
            return g.op(kind, [x, g.input("slope", dtype, (shape[-1],))], {"data_format": "NXC"})
        return g.op(kind, [x], {"axes": [1], "keep_dims": True})

    return build


tries(
    "narrow rows of 16 bits",
    *[
        _with_mask(dtype, kind, (2, 5, 6, channels))
        for dtype in ("bf16", "f16")
        for kind in ("PReLU", "ReduceSum", "ReduceMax")
        for channels in (1, 2, 3, 4, 5, 7, 9, 12)
    ],
)
tries(
    "operands of single elements and columns",
    *[
        chained("f32", [(2, 3, 4, 17), (17, 9), other], ("MatMul", {}), ("Multiply", {}))
        for other in ((1, 1, 4, 1), (1, 1, 1, 9), (2, 3, 4, 9), (1, 3, 1, 1), (2, 1, 1, 1))
    ],
    *[
        convolved("Convolution", "f32", [(2, 5, 17, 8), (1, 1, 8, 9), other], "Add")
        for other in ((1, 1, 17, 1), (1, 5, 1, 1), (2, 1, 1, 9))
    ],
    *[
        chained("f32", [(1, 3, 4, 17), other, (1, 1, 1, 17)], ("Add", {}), ("Multiply", {}))
        for other in ((1, 3, 4, 17), (1, 1, 4, 1), (1, 3, 1, 1))
    ],
)
tries(
    "pools of tails of channels",
    *[
        pooled(kind, dtype, (2, 9, 11, channels))
        for kind in ("AvgPool", "MaxPool", "AvgPoolBackward", "MaxPoolBackward")
        for dtype in ("f32", "bf16")
        for channels in (1, 3, 17, 40)
    ],
)


def _pooled_codes(kind: str, code: str, channels: int, then: str, other: Shape) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.dequantize(g.input("x", code, (2, 6, 8, channels)), scales=[0.03125], zps=[0])
        attrs = {"strides": [2, 2], "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [0, 0]}
        result = g.op(kind, [x], {**attrs, "exclude_pad": False} if kind == "AvgPool" else attrs)
        if then:
            y = g.dequantize(g.input("y", code, other), scales=[0.0625], zps=[0])
            result = g.op(then, [result, y])
        return g.quantize(result, scales=[0.0625], zps=[0], dtype=code)

    return build


tries(
    "pools of codes and an op",
    *[
        _pooled_codes(kind, code, channels, then, other)
        for kind in ("AvgPool", "MaxPool")
        for code in ("u8", "s8")
        for channels in (3, 16, 70)
        for then, other in (("", ()), ("Add", (2, 3, 4, channels)), ("Add", (1, 1, 1, channels)))
    ],
)
