"""Lowers the products of mixtures of experts, in which groups of rows have matrices of their own."""

from __future__ import annotations

import numpy as np

from ....lowering.elementwise import binary, filled, select
from ....lowering.emitter import Value
from ....lowering.layers import matmul
from ....lowering.movement import cast
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, lowers
from .elementwise import native
from .movement import reshape


@lowers("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_product(node: AtenNode) -> Value:
    """Rows (rows, width) times the matrices (groups, width, size) of their groups, whose ends ``offs`` states; or bmm.

    Rows behind the last end are 0.
    """
    names = ("self", "mat2") if "aten" in node.name else ("input", "weight")
    rows, matrices = (native(node, name) for name in names)
    shape, (count, *_) = node.shape(names[0]), node.shape(names[1])
    if len(node.shape(names[1])) != 3 or node["bias"] is not None:
        raise NotLowered("groups of columns, or a bias")
    if len(shape) == 3:
        return cast(node.emit, matmul(node.emit, rows, matrices), node.result_dtype)
    emit, ends = node.emit, cast(node.emit, node.value("offs"), DataType.s64)
    places = np.arange(shape[0])[:, None]
    passed = binary(emit, "GreaterEqual", places, reshape(node, ends, [1, count]))
    group = reduce(emit, "ReduceSum", cast(emit, passed, DataType.s64), [1], False)
    known = binary(emit, "Minimum", group, np.array(count - 1))
    own = emit.op("Gather", [matrices, known], {"axis": 0})
    result = reshape(node, matmul(emit, reshape(node, rows, [shape[0], 1, shape[1]]), own), node.result_shape)
    is_of = reshape(node, binary(emit, "Less", group, np.array(count)), [shape[0], 1])
    return cast(emit, select(emit, is_of, result, filled(0, result)), node.result_dtype)


@lowers("histc.default")
def histogram(node: AtenNode) -> Value:
    """How many elements each of several ranges of one width has."""
    low, high, bins = node["min"], node["max"], node["bins"]
    if low == high:
        raise NotLowered("ranges that follow from the elements")
    emit, src = node.emit, reshape(node, node.value("self"), [-1])
    wide = cast(emit, src, DataType.f32)
    share = binary(emit, "Divide", binary(emit, "Subtract", wide, np.array(low, "f")), np.array(high - low, "f"))
    place = emit.op("Floor", [binary(emit, "Multiply", share, np.array(bins, "f"))])
    last = binary(emit, "Equal", wide, np.array(high, "f"))
    place = select(emit, last, np.array(bins - 1, "f"), place)
    rows = reshape(node, place, [*(src.shape or ()), 1])
    same = binary(emit, "Equal", rows, np.arange(bins, dtype="f")[None])
    return reduce(emit, "ReduceSum", cast(emit, same, node.result_dtype), [0], False)
