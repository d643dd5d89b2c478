"""Copies of tensors of any data type from one layout to another, where the library has no such copy."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.value import Value
from .kernel import NOT_EMPTY, Kernel, refusal


def _is_of_one_type(values: Sequence[Value]) -> bool:
    source, target = values
    return source.dtype is target.dtype and source.shape == target.shape


COPY = Kernel(
    "strided_copy",
    takes=(
        NOT_EMPTY,
        (_is_of_one_type, "tensors of two data types or shapes"),
        (lambda values: not values[1].irregular, "the elements of the result share memory or run backwards"),
    ),
    is_dense=False,
    is_movement=True,
)
KERNELS = (COPY,)


def can_copy(source: Value, target: Value) -> bool:
    """Whether the kernel copies a value to another one."""
    return not refusal(COPY.takes, (source, target))


def backwards(source: Value) -> tuple[Value, dict[str, int]]:
    """A source with the sizes of its strides, and the numbers of its kernel: which axes run backwards, as bits."""
    axes = [axis for axis, stride in enumerate(source.strides) if stride < 0]
    numbers = {"size": source.dtype.numpy.itemsize, "backwards": sum(1 << axis for axis in axes)}
    return source._replace(strides=tuple(map(abs, source.strides))) if axes else source, numbers
