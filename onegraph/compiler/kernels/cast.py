"""Casts f32, f16 and bf16 to one of them, and copies them, from any strides to any strides."""

from __future__ import annotations

from ..ir.value import Value
from .kernel import NOT_EMPTY, OF_FLOATS, REGULAR, Kernel, refusal

CAST = Kernel("cast", takes=(NOT_EMPTY, REGULAR, OF_FLOATS), is_dense=False, is_movement=True)
KERNELS = (CAST,)


def can_cast(source: Value, target: Value) -> bool:
    """Whether the kernel copies a value to another one."""
    return not refusal(CAST.takes, (source, target))
