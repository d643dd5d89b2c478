"""ReplaceNaN of f32, f16 and bf16: an element, or the value where the element is not a number."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.value import Value
from .kernel import NOT_EMPTY, OF_FLOATS, Kernel


def _is_of_one_type(values: Sequence[Value]) -> bool:
    return len({value.dtype for value in values}) == 1


KERNELS = (
    Kernel(
        "replace_nan",
        kinds=("ReplaceNaN",),
        takes=(NOT_EMPTY, OF_FLOATS, (_is_of_one_type, "the operands have other data types")),
        is_dense=False,
        is_movement=True,
    ),
)
