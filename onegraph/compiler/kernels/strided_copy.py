"""Copies of tensors of any data type from one layout to another, where the library has no such copy."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.value import Value
from .kernel import NOT_EMPTY, Kernel, refusal

SIZES = (1, 2, 4, 8)  # bytes of an element


def _is_of_one_type(values: Sequence[Value]) -> bool:
    source, target = values
    return source.dtype is target.dtype and source.dtype.numpy.itemsize in SIZES and source.shape == target.shape


def _runs_forwards(values: Sequence[Value]) -> bool:
    return all(
        stride >= 0 or dim == 1 for value in values for dim, stride in zip(value.shape, value.strides, strict=True)
    )


COPY = Kernel(
    "strided_copy",
    takes=(
        NOT_EMPTY,
        (_is_of_one_type, "tensors of two data types, or of one that C lacks"),
        (_runs_forwards, "the elements of a tensor run backwards"),
        (lambda values: not values[1].irregular, "the elements of the result share memory"),
    ),
    is_dense=False,
    is_movement=True,
)
KERNELS = (COPY,)


def can_copy(source: Value, target: Value) -> bool:
    """Whether the kernel copies a value to another one."""
    return not refusal(COPY.takes, (source, target))
