"""Graphs of products whose weights are compressed, and products beside them: a material of :mod:`draws`."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.lowering.compression import coded
from onegraph.lowering.emitter import Emitter
from onegraph.opset.dtypes import DataType

from .draws import material, recorded
from .recorded import numbers_of

SIZES = ((64, 64), (64, 64), (128, 32), (63, 65), (40, 130), (4, 1024), (64, 63))


def weights_of(drawn: Random, shape: tuple[int, ...], dtype: DataType) -> Any:
    """Numbers that differ, of which a block may be 0; seldom one that is not finite."""
    array = np.random.RandomState(drawn.randrange(99)).randint(-9, 10, shape).astype(np.float32) / 8
    if drawn.random() < 0.3:
        array[:48, :1] = 0
    if drawn.random() < 0.06 and dtype is not og.s32:
        array.reshape(-1)[drawn.randrange(min(9, array.size))] = drawn.choice((np.nan, np.inf))
    return array.astype(dtype.numpy)


def product(drawn: Random, graph: og.Graph, emit: Emitter, known: list[Any]) -> Any:
    """A product of one of the forms that are compressed, or nearly."""
    one = drawn.choice
    dtype = one((og.f32, og.f32, og.f32, og.f16, og.bf16, og.s32))
    weights = weights_of(drawn, one(SIZES), dtype)
    if known and drawn.random() < 0.3:
        weights = one(known)
    known.append(weights)
    turned, through = drawn.random() < 0.4, drawn.random() < 0.3
    depth = weights.shape[1 if turned is not through else 0]
    rows: Any = one(([3, depth], [2, 3, depth], [None, depth], [depth]))
    attrs: dict[str, Any] = {"transpose_b": True} if turned else {}
    if drawn.random() < 0.08 and len(rows) == 2:
        rows, attrs = [depth, 3], attrs | {"transpose_a": True}
    other = one((og.f32, og.s8)) if drawn.random() < 0.05 else DataType.of(weights.dtype)
    src = graph.input(f"x{len(graph.inputs)}", other, None if drawn.random() < 0.04 else rows)
    own: Any = graph.constant(weights)
    if drawn.random() < 0.08:
        own = graph.variable(f"w{len(graph.variables)}", weights)
    elif drawn.random() < 0.06:
        own = graph.constant(weights[None])
    if through:
        axes = len(own.shape)
        order = one(([1, 0], [1, 0], [-1, 0], [-1, -2], [1, -2], [0, 1])) if axes == 2 else [0, 2, 1]
        kind = "StaticTranspose" if dtype is not og.s32 and drawn.random() < 0.8 else "Transpose"
        own = emit.op(kind, [own], {"order": order})
    columns = own.shape[-2 if turned else -1]
    bias = [np.ones(columns, weights.dtype)] if drawn.random() < 0.3 else []
    return emit.op("MatMul", [src, own, *bias], attrs)


@material(lambda: ("graphs", "matrices"))
def compressed(name: str, number: int) -> list[str]:
    """Graphs with compressed weights, with what is said of them; or the codes of a matrix."""
    drawn = Random(f"{name} {number}")
    if name == "matrices":
        matrix = weights_of(drawn, (drawn.choice((1, 3)), drawn.choice((1, 15, 16, 17, 64))), og.f32)
        codes, scales, error = coded(np.nan_to_num(matrix), drawn.choice(("u4", "s8")), drawn.choice((0, 1, 4, 16, 64)))
        return [numbers_of(codes), numbers_of(scales), f"{error:.4g}"]
    graph = og.Graph()
    emit, known = Emitter(graph), list[Any]()

    def made() -> list[str]:
        for place in range(drawn.choice((1, 1, 2, 2, 4))):
            graph.output(f"y{place}", emit.tensor(product(drawn, graph, emit, known)))
        if drawn.random() < 0.3:
            graph.output("z", graph.relu(graph.input("v", "f32", (2,))))
        kind, groups = drawn.choice(("int4", "int8")), (0, 16, 32, 64, 128, 1 << 30)
        if drawn.random() < 0.15:
            kind, groups = drawn.choice(("int4", "int4", "int2")), (8, 24, 48, -1, 15, 1 << 31, 1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = og.compress_weights(graph, kind, group=drawn.choice(groups))
        told = [f"{one} {one.error:.4g}" for one in found.compression]
        return [*recorded.lines_of(found), *told, *[str(one.message) for one in said], str([*found.variables])]

    return recorded.outcome(made)
