"""Single ops that oneDNN computes right with a reference kernel: 20 to 2,000 times as long as the way around."""

from __future__ import annotations

import math

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .fault import SLOW, Faults
from .operands import is_fast, varying
from .use import BINARY, Dims

# Broadcast operands of single binary ops -----------------------------------------------------------------------------

BROADCASTS = Faults[tuple[Dims, Dims]]()
SLOW_BROADCAST = BROADCASTS.add(
    "slow_broadcast",
    BINARY,
    "src_1",
    SLOW,
    lambda shapes: not is_fast(varying(*shapes)),
    {(3, 2): "slow"},
    "A binary op has a reference kernel only for an operand that is broadcast along some axes between others",
    "the same op on fewer axes, where neighbours are one axis",
)


@SLOW_BROADCAST.example({(3, 2): "right"})
def operand_along_every_other_axis(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (2, 3, 4, 5)), g.input("y", "f32", (2, 1, 4, 1)))


@SLOW_BROADCAST.example({(3, 2): "right"})
def operand_along_every_other_group_of_axes(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (2, 3, 4, 5, 6)), g.input("y", "f32", (1, 3, 1, 5, 6)))


# Biases of products --------------------------------------------------------------------------------------------------


def _is_no_row(call: Call) -> bool:
    """Whether the bias of a MatMul is anything but one row."""
    weights, bias = call.shape("weights"), call.shape("bias")
    if weights is None or bias is None or len(weights) < 2:
        return False
    columns = known_dims(weights)[-2 if call.flag("transpose_b") else -1]
    return known_dims(bias)[-1:] != (columns,) or math.prod(known_dims(bias)) != columns


BIASES = Faults[Call]()
SLOW_BIAS = BIASES.add(
    "slow_bias",
    "MatMul",
    "bias",
    SLOW,
    _is_no_row,
    {(3, 2): "slow"},
    "a bias that is no row takes a reference kernel, some 200 times slower",
    "a MatMul and an Add",
)


@SLOW_BIAS.example({(3, 2): "right"})
def product_and_a_column(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (40, 30)), g.input("w", "f32", (30, 20)), g.input("b", "f32", (40, 1)))


@SLOW_BIAS.example({(3, 2): "right"})
def products_and_one_number(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (2, 4, 30)), g.input("w", "f32", (2, 30, 20)), g.input("b", "f32", (1, 1)))
