"""Graphs that run what a commit of the oneDNN library mended, by the commits or issues."""

from __future__ import annotations

from typing import Any

from onegraph import Graph, LogicalTensor

ROW: dict[str, Any] = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
IMAGE: dict[str, Any] = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
VOLUME: dict[str, Any] = {"strides": [1] * 3, "pads_begin": [0] * 3, "pads_end": [0] * 3, "dilations": [1] * 3}
TRIES: dict[str, tuple[str, list[Any]]] = {}  # the name of a try: the commits in one text, and its graphs


def tries(name: str, commits: str, *builds: Any) -> None:
    """Note the graphs that run what these commits mended."""
    TRIES[name] = commits, list(builds)


def inputs(g: Graph, dtype: str, *shapes: tuple[int, ...]) -> list[LogicalTensor]:
    return [g.input(f"x{number}", dtype, shape) for number, shape in enumerate(shapes)]


def convolved(kind: str, dtype: str, shapes: list[tuple[int, ...]], then: str = "", /, **attrs: Any) -> Any:
    """A convolution of inputs of these shapes, of which the third goes to the op behind it."""

    def build(g: Graph) -> LogicalTensor:
        x, w, *others = inputs(g, dtype, *shapes)
        rank = len(shapes[0]) - 2
        found = g.op(kind, [x, w], {**(ROW, IMAGE, VOLUME)[rank - 1], **attrs})
        return g.op(then, [found, *others]) if then else found

    return build


def chained(
    dtype: str, shapes: list[tuple[int, ...]], *kinds: tuple[str, dict[str, Any]], swapped: bool = False
) -> Any:
    """Ops one behind the other; each reads the result before it, and a further input if it needs one."""

    def build(g: Graph) -> LogicalTensor:
        found, *others = inputs(g, dtype, *shapes)
        for kind, attrs in kinds:
            options = {"dtype": dtype} if kind in ("MatMul", "SoftMax") else {}
            options |= {"outputs": []} if kind == "SoftMax" else {}
            ends = [found, others.pop(0)] if kind in BINARY else [found]
            found = g.op(kind, ends[::-1] if swapped and kind != "MatMul" else ends, attrs, **options)
        return found

    return build


BINARY = {"Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "MatMul", "GreaterEqual"}


def quantized(kind: str, shapes: list[tuple[int, ...]], /, source: str = "u8", then: str = "", **attrs: Any) -> Any:
    """A product of int8, with an op behind it."""

    def build(g: Graph) -> LogicalTensor:
        x = g.dequantize(g.input("x", source, shapes[0]), scales=[0.5], zps=[0])
        w = g.dequantize(g.input("w", "s8", shapes[1]), scales=[0.5], zps=[0])
        found = g.op(kind, [x, w], attrs, dtype="f32" if kind == "MatMul" else None)
        if then:
            others = [g.input("y", "f32", shapes[2])] if len(shapes) > 2 else []
            found = g.op(then, [found, *others])
        return g.quantize(found, scales=[16.0], zps=[0], dtype="s8")

    return build


# The graph API ------------------------------------------------------------------------------------------------------

tries(
    "transposed convolution and a binary op",
    "75734853a5 5240",
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
    "15126aa7b0 f7c212b61e",
    *[
        chained("f32", [(4, 8), (8, 6), (4, 6)], ("MatMul", {}), (kind, {}), swapped=swapped)
        for kind in ("Subtract", "Divide", "Add")
        for swapped in (False, True)
    ],
    *[
        chained("f32", [(2, 4, 8), (8, 6), (6,), (2, 4, 6)], ("MatMul", {}), ("Add", {}), (kind, {}))
        for kind in ("Subtract", "Add", "Multiply")
    ],
)
tries(
    "binary ops in a row",
    "5a3613eb83 b7f92f2765",
    *[
        chained("f32", [(2, 3, 4, 8), a, b], ("Add", {}), ("ReLU", {}), ("Multiply", {}))
        for a in ((2, 3, 4, 8), (8,), (1, 3, 1, 1))
        for b in ((2, 3, 4, 8), (1, 1, 1, 8), (1, 3, 1, 1))
    ],
)
tries(
    "reciprocal and a product",
    "3cb934aea8",
    *[
        chained("f32", [(2, 3, 8), other], ("Exp", {}), ("Reciprocal", {}), ("Multiply", {}), swapped=swapped)
        for other in ((2, 3, 8), (8,), (2, 1, 8))
        for swapped in (False, True)
    ],
)
tries(
    "softmax and ops behind it",
    "1999f88fdf",
    *[
        chained(dtype, [(2, 3, 4, 8), other], ("SoftMax", {"axis": axis}), ("ReLU", {}), ("Multiply", {}))
        for dtype in ("f32", "bf16")
        for axis in (-1, 1)
        for other in ((2, 3, 4, 8), (8,), (1, 3, 1, 1))
    ],
)


def _norm(then: str, dtype: str) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, (3, 4, 16))
        vectors = [g.input(name, "f32", (16,)) for name in ("gamma", "beta")]
        found = g.layer_norm(x, *vectors, keep_stats=False, epsilon=0.125)
        found = g.type_cast(found, dtype="f32") if dtype != "f32" else found
        if then:
            found = g.op(then, [found, *([g.input("y", "f32", (16,))] if then in BINARY else [])])
        return g.quantize(found, scales=[0.25], zps=[3], dtype="u8")

    return build


tries(
    "layer norm, a cast, an op and Quantize",
    "b22ceb043f 12d3404461",
    *[_norm(then, dtype) for then in ("", "ReLU", "Multiply", "Add") for dtype in ("f32", "bf16")],
)
tries(
    "convolution, a sum and an op",
    "7d46e64455",
    *[
        convolved("Convolution", dtype, [(2, 6, 6, 8), (3, 3, 8, 16), (2, 4, 4, 16)], then)
        for dtype in ("f32", "bf16")
        for then in ("Add", "Subtract")
    ],
    quantized("Convolution", [(2, 6, 6, 8), (3, 3, 8, 16), (2, 4, 4, 16)], then="Add", **IMAGE),
)

# Kernels ------------------------------------------------------------------------------------------------------------

tries(
    "strides longer than the kernel",
    "c3d821b6ac 466f1edd19",
    *[
        convolved("Convolution", dtype, [(2, 17, 17, channels), (k, k, channels, 16)], strides=[s, s])
        for dtype in ("f32", "bf16")
        for channels in (3, 16, 64)
        for k, s in ((1, 3), (2, 3), (2, 4))
    ],
    *[
        quantized("Convolution", [(2, 17, 17, channels), (k, k, channels, 16)], **{**IMAGE, "strides": [s, s]})
        for channels in (3, 16, 64)
        for k, s in ((1, 3), (2, 3), (2, 4))
    ],
)
tries(
    "strided transposed convolution",
    "9d8aec9f6e b19f5a2b3d 56825411fc c0c7e5bb12 82c2605395",
    *[
        convolved(
            "ConvTranspose", dtype, [(2, 9, 9, channels), (3, 3, 16, channels)], strides=[s, s], pads_begin=[p, p]
        )
        for dtype in ("f32", "bf16")
        for channels in (3, 16, 64)
        for s, p in ((2, 0), (2, 1), (3, 1))
    ],
    *[
        quantized(
            "ConvTranspose",
            [(2, 9, 9, channels), (3, 3, 16, channels)],
            source=source,
            **{**IMAGE, "strides": [2, 2], "pads_begin": [1, 1]},
        )
        for channels in (16, 64)
        for source in ("u8", "s8")
    ],
)
tries(
    "few rows, columns or sums of a product",
    "2854d0dae0 d891dd6e83 aa4b03b275 2fba675fbf 77900cb807 611d22bcc2 05812df1e1 94783b4d7b fb40bcc75c 2d3d1635dc "
    "93b9e59593 75a92fb384 414ab513bc 4bd44f0dc4 73888930fe c4abad017f 9fb2e2ff6b",
    *[
        chained(dtype, [(*batch, m, k), (k, n)], ("MatMul", {}))
        for dtype in ("f32", "bf16", "f16")
        for batch in ((), (2,))
        for m, k, n in ((1, 64, 33), (1, 1, 65), (33, 1, 17), (65, 64, 1), (1, 257, 1), (3, 5, 1))
    ],
    *[
        quantized("MatMul", [(m, k), (k, n)], source=source)
        for source in ("u8", "s8")
        for m, k, n in ((1, 64, 33), (33, 1, 17), (65, 64, 1), (7, 130, 66))
    ],
)
tries(
    "operands of single elements and columns",
    "4b11ee35bf 195cc95a86 666a8eb659 1d3e68495c 7ea91b02c2",
    *[
        chained("f32", [(2, 3, 4, 17), (17, 9), other], ("MatMul", {}), ("Multiply", {}))
        for other in ((1, 1, 4, 1), (1, 1, 1, 9), (2, 3, 4, 9), (1, 3, 1, 1), (2, 1, 1, 1))
    ],
    *[
        convolved("Convolution", "f32", [(2, 5, 17, 8), (1, 1, 8, 9), other], "Add")
        for other in ((1, 1, 17, 1), (1, 5, 1, 1), (2, 1, 1, 9))
    ],
)
tries(
    "ops behind int8 convolutions",
    "143b694b95 e5541c917a 5fd981efb3 aad4779b08 e16ae685bc 1a0fb18b6c",
    *[
        quantized(
            "Convolution",
            [(1, 8, 8, channels), (3, 3, channels // groups, 24), (24,)],
            source=source,
            then=then,
            **{**IMAGE, "pads_begin": [1, 1], "groups": groups},
        )
        for channels, groups in ((16, 1), (24, 24), (12, 2))
        for source in ("u8", "s8")
        for then in ("Add", "Multiply")
    ],
)


def _pool(kind: str, dtype: str, shape: tuple[int, ...], **attrs: Any) -> Any:
    def build(g: Graph) -> LogicalTensor:
        window = {"strides": [2, 2], "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [1, 1], **attrs}
        counts = tuple((size - 1) // 2 + 1 for size in shape[1:3])
        part = (shape[0], *counts, shape[3])
        if kind.startswith("Avg"):
            window["exclude_pad"] = False
        if kind == "AvgPoolBackward":
            window["src_shape"] = list(shape)
        ends = {"AvgPoolBackward": [part], "MaxPoolBackward": [shape, part]}.get(kind, [shape])
        return g.op(kind, inputs(g, dtype, *ends), window)

    return build


tries(
    "pools of tails of channels",
    "91d0304edb 75b1257032 6cba4529cd e938ae058f f3e6102630 9a6d532f0a",
    *[
        _pool(kind, dtype, (2, 9, 11, channels))
        for kind in ("AvgPool", "MaxPool", "AvgPoolBackward", "MaxPoolBackward")
        for dtype in ("f32", "bf16")
        for channels in (1, 3, 17, 40)
    ],
)
tries(
    "padded int8 convolution of single channels",
    "939b353699 5080",
    *[
        quantized(
            "Convolution",
            [(1, 8, 16, 1), (2, k, 1, oc)],
            source="s8",
            **{**IMAGE, "pads_begin": [0, 1], "pads_end": [0, 2]},
        )
        for k in (1, 3, 4)
        for oc in (1, 8)
    ],
)
tries(
    "gradient of strided pixels",
    "6035",
    *[
        convolved(
            "ConvolutionBackwardWeights",
            "f32",
            [(2, 2 * size, 2 * size, ic), (2, size, size, 16)],
            strides=[2, 2],
            weights_shape=[1, 1, ic, 16],
        )
        for size in (16, 32)
        for ic in (1, 7, 15)
    ],
)
