"""Products of matrices, as commits of the oneDNN library mended them."""

from __future__ import annotations

from typing import Any

from onegraph import Graph, LogicalTensor

from .builders import Shape, chained, inputs, laid, quantized, tries

FLOATS = ("f32", "bf16", "f16")
tries(
    "few rows, columns or sums of a product",
    *[
        chained(dtype, [(*batch, m, k), (k, n)], ("MatMul", {}))
        for dtype in FLOATS
        for batch in ((), (2,))
        for m, k, n in ((1, 64, 33), (1, 1, 65), (33, 1, 17), (65, 64, 1), (1, 257, 1), (3, 5, 1), (1, 4100, 9))
    ],
    *[
        quantized("MatMul", [(m, k), (k, n)], source=source, to=to)
        for source in ("u8", "s8")
        for m, k, n in ((1, 64, 33), (33, 1, 17), (65, 64, 1), (7, 130, 66))
        for to in ("", "s8")
    ],
    *[
        chained("f32", [(2, m, k), (2, k, n), (2, m, n)], ("MatMul", {}), ("Add", {}))
        for m, k, n in ((1, 64, 33), (2048, 64, 1), (1, 512, 1), (9, 1, 7))
    ],
)
BLOCKS = (
    (64, 4096, 64),
    (64, 4100, 40),
    (16, 2049, 33),
    (300, 130, 300),
    (257, 1000, 129),
    (1000, 72, 520),
    (33, 96, 1030),
    (7, 4096, 7),
    (128, 33, 31),
    (512, 512, 9),
)


def _product(dtype: str, m: int, k: int, n: int, turned: str, then: str = "", batch: Shape = ()) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.input("x", dtype, (*batch, k, m) if "a" in turned else (*batch, m, k))
        w = g.input("w", dtype, (*batch, n, k) if "b" in turned else (*batch, k, n))
        result = g.matmul(x, w, transpose_a="a" in turned, transpose_b="b" in turned)
        return g.op(then, [result, g.input("y", dtype, (*batch, m, n))]) if then else result

    return build


tries(
    "matrix products of many blocks",
    *[_product(dtype, m, k, n, turned) for dtype in ("f32", "bf16") for m, k, n in BLOCKS for turned in ("", "a", "b")],
    *[
        _product(dtype, m, k, n, turned, "Add")
        for dtype in ("f32", "bf16", "f16")
        for m, k, n in BLOCKS
        for turned in ("", "b")
    ],
    *[_product("bf16", m, k, n, "a", "", (3,)) for m, k, n in ((64, 4096, 64), (40, 2048, 24))],
)
tries(
    "matrix products of codes of many blocks",
    *[
        quantized("MatMul", [(m, k), (k, n)], source=source, to=to)
        for m, k, n in BLOCKS
        for source, to in (("u8", ""), ("s8", ""), ("s8", "u8"))
    ],
)
tries(
    "products of codes with zero points",
    *[
        quantized("MatMul", [(*batch, m, k), (*batch, k, n)], source=source, zps=zps, to=to)
        for batch in ((), (2,))
        for m, k, n in ((1, 64, 33), (17, 130, 66), (16, 4096, 40), (64, 96, 100), (3, 7, 5), (5, 256, 17))
        for source, zps in (("u8", (128, 0)), ("s8", (-3, 0)), ("s8", (5, 0)), ("u8", (7, 2)), ("s8", (0, -4)))
        for to in ("", "s8")
    ],
)


def _codes_turned(m: int, k: int, n: int, turned: str, source: str) -> Any:
    def build(g: Graph) -> LogicalTensor:
        x = g.dequantize(g.input("x", source, (k, m) if "a" in turned else (m, k)), scales=[0.015625], zps=[0])
        w = g.dequantize(g.input("w", "s8", (n, k) if "b" in turned else (k, n)), scales=[0.015625], zps=[0])
        return g.matmul(x, w, transpose_a="a" in turned, transpose_b="b" in turned)

    return build


def _ordered(dtype: str, order: list[int], shape: Shape, other: Shape, side: int) -> Any:
    """A StaticTranspose whose order is not its own inverse, before a product."""

    def build(g: Graph) -> LogicalTensor:
        x, w = inputs(g, dtype, shape, other)
        turned = g.static_transpose(x, order=order)
        return g.matmul(turned, w) if side == 0 else g.matmul(w, turned)

    return build


ACBD = ((2, 3, 4, 17), (204, 17, 51, 1))
tries(
    "products of turned axes",
    *[
        _ordered(dtype, order, shape, other, side)
        for dtype in ("f32", "bf16")
        for order, shape, other, side in (
            ([1, 2, 0], (4, 2, 3), (2, 4, 5), 0),
            ([2, 0, 1], (3, 4, 2), (2, 4, 5), 0),
            ([0, 2, 3, 1], (2, 4, 3, 5), (2, 3, 4, 6), 0),
            ([0, 3, 1, 2], (2, 5, 4, 3), (2, 3, 4, 6), 0),
            ([0, 2, 3, 1], (2, 4, 3, 5), (2, 3, 6, 5), 1),
            ([1, 2, 0], (4, 2, 3), (2, 5, 3), 1),
        )
    ],
    *[
        laid(dtype, first, second, then)
        for dtype in ("f32", "bf16")
        for first in (
            ACBD,
            ((2, 3, 4, 17), (204, 68, 1, 4)),
            ((2, 3, 4, 17), (17, 34, 102, 1)),
            ((2, 3, 4, 17), (300, 100, 20, 1)),
        )
        for second in (((2, 3, 17, 9), ()), ((2, 3, 17, 9), (459, 9, 27, 1)), ((17, 9), ()), ((17, 9), (1, 17)))
        for then in ((), (2, 3, 4, 9), (1, 1, 1, 9))
    ],
    *[
        laid(dtype, ((m, k), (row, 1)), ((k, n), ()))
        for dtype in ("f32", "bf16", "f16")
        for m, k, n, row in ((64, 100, 64, 128), (300, 130, 520, 192), (257, 1000, 129, 1024), (33, 65, 40, 70))
    ],
    *[
        laid(dtype, ((a, b, 4, 17), (a_step, b_step, 17, 1)), ((a, b, 17, 9), ()))
        for dtype in ("f32", "bf16")
        for a, b, a_step, b_step in (
            (1, 3, 999, 68),
            (3, 1, 68, 999),
            (2, 3, 500, 68),
            (2, 3, 68, 200),
            (3, 2, 136, 68),
        )
    ],
    *[
        _codes_turned(m, k, n, turned, source)
        for m, k, n in ((17, 130, 66), (1, 64, 33), (64, 1024, 16))
        for turned in ("a", "b", "ab")
        for source in ("u8", "s8")
    ],
)


def _two(dtype: str, first: Shape, second: Shape, width: int) -> Any:
    """Two products one behind the other whose tiles differ in rows alone."""

    def build(g: Graph) -> LogicalTensor:
        k = first[-1]
        ends = inputs(g, dtype, first, (k, width), second)
        return g.concat(g.matmul(ends[0], ends[1]), g.matmul(ends[2], ends[1]), axis=0)

    return build


tries(
    "products whose tiles differ in rows",
    *[
        _two(dtype, (m, 64), (n, 64), width)
        for dtype in ("bf16",)
        for m, n in ((16, 5), (5, 16), (32, 31), (48, 7), (1, 16))
        for width in (16, 64, 70)
    ],
    *[quantized("MatMul", [(m, 64), (64, 48)], source="s8", to="") for m in (5, 16, 21, 32, 3)],
)


def _rows_of_nan(dtype: str, m: int, k: int, n: int) -> Any:
    """A product of rows of which some hold NaN, or infinities."""

    def build(g: Graph) -> LogicalTensor:
        return g.matmul(g.input("infinite", dtype, (m, k)), g.input("w", dtype, (k, n)))

    return build


tries(
    "products of rows with NaN and infinities",
    *[
        _rows_of_nan(dtype, m, k, n)
        for dtype in FLOATS
        for m, k, n in ((64, 100, 64), (300, 130, 520), (257, 1001, 129), (33, 65, 40), (5, 7, 9), (16, 33, 16))
    ],
)


def _reordered(dtype: str, shape: Shape, order: list[int]) -> Any:
    def build(g: Graph) -> LogicalTensor:
        return g.reorder(g.static_transpose(g.input("x", dtype, shape), order=order))

    return build


tries(
    "reorders of turned axes",
    *[
        _reordered(dtype, shape, order)
        for dtype in FLOATS
        for shape, order in (
            ((1, 300, 200), [0, 2, 1]),
            ((1, 300, 1, 200), [0, 3, 2, 1]),
            ((3, 1, 200, 130), [0, 1, 3, 2]),
            ((2, 3, 70, 130), [0, 1, 3, 2]),
            ((1, 1, 256, 256), [1, 0, 3, 2]),
            ((33, 1, 65), [2, 1, 0]),
            ((4, 70, 3, 130), [0, 2, 3, 1]),
        )
    ],
)


def _with_gaps(shape: Shape, order: list[int], strides: Shape) -> Any:
    """A StaticTranspose into rows with gaps between them."""

    def build(g: Graph) -> LogicalTensor:
        turned = g.static_transpose(g.input("x", "f32", shape), order=order)
        return g.output("out", g.reorder(turned), strides=strides)

    return build


tries(
    "reorders into rows with gaps",
    _with_gaps((2, 2, 3, 2), [1, 0, 2, 3], (48, 100, 8, 3)),
    _with_gaps((2, 2, 3, 2), [0, 1, 2, 3], (100, 48, 8, 3)),
    _with_gaps((4, 5, 16), [0, 1, 2], (100, 20, 1)),
    _with_gaps((3, 70, 33), [0, 2, 1], (3000, 80, 1)),
)
