"""Lowers the products of mixtures of experts, in which groups of rows have matrices of their own."""

from __future__ import annotations

import numpy as np

from ....lowering.elementwise import binary, filled, select, unary
from ....lowering.emitter import Value
from ....lowering.layers import matmul
from ....lowering.movement import cast, concat, part
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from .elementwise import native
from .movement import reshape

LEAST_BLOCK = 32  # rows that read a copy of their matrix, which takes as long as some products


@lowers("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_product(node: Node) -> Value:
    """Rows (rows, width) times the matrices (groups, width, size) of their groups, whose ends ``offs`` states; or bmm.

    Rows behind the last end are 0. Few rows read one matrix each; of more rows, blocks of each group do.
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
    if shape[0] <= count:
        own = emit.op("Gather", [matrices, known], {"axis": 0})
        found = matmul(emit, reshape(node, rows, [shape[0], 1, shape[1]]), own)
        found = reshape(node, found, node.result_shape)
    else:
        found = _in_blocks(node, (rows, matrices), ends, known, (shape[0], count, node.shape(names[1])[2]))
    is_of = reshape(node, binary(emit, "Less", group, np.array(count)), [shape[0], 1])
    return cast(emit, select(emit, is_of, found, filled(0, found)), node.result_dtype)


def _in_blocks(
    node: Node, operands: tuple[Value, Value], ends: Value, group: Value, sizes: tuple[int, int, int]
) -> Value:
    """The products of rows and the matrices of their groups, each of which begins a block of its own.

    A block reads its matrix alone, so that the rows of a group meet no other one. The last block of a group has rows
    that no result reads.
    """
    emit, (rows, matrices), (total, count, size) = node.emit, operands, sizes
    block = max(LEAST_BLOCK, 1 << (total // count).bit_length())
    blocks = -(-total // block) + count
    begins = concat(emit, [np.zeros(1, np.int64), part(emit, ends, 0, 0, count - 1)], 0)
    wide = cast(emit, binary(emit, "Add", binary(emit, "Subtract", ends, begins), np.array(block - 1)), DataType.f32)
    own = cast(emit, unary(emit, "Floor", binary(emit, "Divide", wide, np.array(block, "f"))), DataType.s64)
    before = np.tril(np.ones((count, count), np.int64), -1)
    firsts = reduce(emit, "ReduceSum", binary(emit, "Multiply", reshape(node, own, [1, count]), before), [1], False)

    def of(values: Value, places: Value) -> Value:
        return emit.op("Gather", [values, places], {"axis": 0})

    def row(firsts: Value, places: Value, step: int) -> Value:
        return binary(emit, "Add", places, binary(emit, "Multiply", firsts, np.array(step)))

    passed = binary(emit, "GreaterEqual", np.arange(blocks)[:, None], reshape(node, firsts, [1, count]))
    groups = reduce(emit, "ReduceSum", cast(emit, passed, DataType.s64), [1], False)
    groups = binary(emit, "Subtract", groups, np.array(1))
    starts = row(binary(emit, "Subtract", np.arange(blocks), of(firsts, groups)), of(begins, groups), block)
    taken = binary(emit, "Add", reshape(node, starts, [blocks, 1]), np.arange(block)[None])
    taken = binary(emit, "Maximum", binary(emit, "Minimum", taken, np.array(total - 1)), np.array(0))
    found = reshape(node, matmul(emit, of(rows, taken), of(matrices, groups)), [blocks * block, size])
    local = binary(emit, "Subtract", np.arange(total), of(begins, group))
    place = binary(emit, "Minimum", row(of(firsts, group), local, block), np.array(blocks * block - 1))
    return of(found, place)


@lowers("histc.default")
def histogram(node: Node) -> Value:
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
