"""Defines reductions and the matrix product for data types for which the specification lacks them."""

from __future__ import annotations

from ..ops.matmul import OPS as MATMUL
from ..ops.reduction import AXES, KEEP_DIMS, axes_valid, reduced_shape
from ..schema import Schema
from ..signature import Row, ports, rows
from .types import FLOAT_NAMES, INTEGER_NAMES, NUMBERS

ORDERED = rows("T", f"{FLOAT_NAMES}|{INTEGER_NAMES}|boolean")
MATRICES = next(schema for schema in MATMUL if schema.kind == "MatMul")


def _reduction(kind: str, name: str, doc: str, types: tuple[Row, ...] = NUMBERS) -> Schema:
    inputs, outputs = ports("src:T axes:s64!?"), ports("dst:T")
    fields = AXES, KEEP_DIMS
    return Schema(kind, f"host_{name}", "host", doc, inputs, outputs, types, reduced_shape, fields, (axes_valid,))


OPS = (
    _reduction("ReduceSum", "reduce_sum", "dst = the sum of src over axes"),
    _reduction("ReduceMean", "reduce_mean", "dst = the mean of src over axes"),
    _reduction("ReduceProd", "reduce_prod", "dst = the product of src over axes"),
    _reduction("ReduceMax", "reduce_max", "dst = the maximum of src over axes", ORDERED),
    _reduction("ReduceMin", "reduce_min", "dst = the minimum of src over axes", ORDERED),
    Schema(
        "MatMul",
        "host_mat_mul",
        "host",
        "dst = src @ weights + bias, as in numpy",
        ports("src:T weights:T bias:T?"),
        ports("dst:T"),
        NUMBERS,
        MATRICES.shape,
        tuple(one for one in MATRICES.attributes if one.name.startswith("transpose")),
        rules=MATRICES.rules,
        shape_rules=MATRICES.shape_rules,
    ),
)
