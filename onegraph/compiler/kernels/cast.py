"""Casts f32, f16 and bf16 to one of them, and copies these and integers, from any strides to any strides."""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.dtypes import DataType
from ..ir.value import Value
from .kernel import FLOATS, NOT_EMPTY, REGULAR, Kernel, refusal

COPIED = FLOATS | {DataType.s8, DataType.u8, DataType.s32, DataType.boolean}


def _has_types(values: Sequence[Value]) -> bool:
    types = {values[0].dtype, values[-1].dtype}
    return FLOATS.issuperset(types) or (len(types) == 1 and COPIED.issuperset(types))


CAST = Kernel(
    "cast",
    takes=(NOT_EMPTY, REGULAR, (_has_types, "a tensor is neither f32, f16 nor bf16, nor copied as it is")),
    is_dense=False,
    is_movement=True,
)
KERNELS = (CAST,)


def can_cast(source: Value, target: Value) -> bool:
    """Whether the kernel copies a value to another one."""
    return not refusal(CAST.takes, (source, target))
