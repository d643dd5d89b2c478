"""Select of f32, f16 and bf16; the inputs are broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.dtypes import DataType
from ..ir.value import Value
from .kernel import FLOATS, NOT_EMPTY, Kernel


def _selects(values: Sequence[Value]) -> bool:
    cond, *operands = (value.dtype for value in values)
    return cond is DataType.boolean and len({*operands}) == 1 and FLOATS.issuperset(operands)


KERNELS = (
    Kernel(
        "select",
        kinds=("Select",),
        takes=(NOT_EMPTY, (_selects, "the operands have other data types")),
        is_dense=False,
        is_movement=True,
    ),
)
