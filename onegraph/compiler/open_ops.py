"""The ops that the library would compile for each size, and that kernels of the package compute where sizes are open.

Where the library's reductions are slow, they are pools and products with ones, whose windows are as large as the axes.
So not even their ops are the same for two sizes.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.op import Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..opset.ops.reduction import reduced_axes
from ..opset.schema import Call
from .kernels.arrays import REDUCING
from .kernels.kernel import FLOATS
from .rewrites.norms import layer_norm_width

FOR_SIZES = "by onegraph: sizes change, and the library would compile the op for each of them"
OTHERS = "ReduceMax", "ReduceMin"  # reductions with a kernel for all sizes


def _is_reduction(call: Call) -> bool:
    return bool(reduced_axes(call))


def _is_norm_of_rows(call: Call) -> bool:
    return layer_norm_width(call) is not None


TAKEN: dict[str, Callable[[Call], bool]] = {
    "LayerNorm": _is_norm_of_rows,
    **{kind: _is_reduction for kind in REDUCING if kind not in OTHERS},
}


def is_left_open(op: Op) -> bool:
    """Whether a kernel of the package computes an op of f32 where sizes are open."""
    takes, base = TAKEN.get(op.kind), base_of(schema_of(op))
    if takes is None or base.kind != op.kind:
        return False
    given = [tensor for tensor in op.inputs if tensor is not None]
    ends = [given[0], *[tensor for tensor in given[1:] if tensor.dtype in FLOATS], *op.outputs]
    is_full = all(tensor.dtype is DataType.f32 and 0 not in (tensor.shape or ()) for tensor in ends)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    return is_full and takes(Call(base, op.attrs, types, len(op.outputs)))
