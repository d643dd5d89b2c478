"""Computes with shapes and strides for all categories. An unknown dim is None; a shape of unknown rank is None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from .schema import Call, RuleFinding
from .signature import Shape

Dim = int | None
MAX_RANK = 12  # the library's limit


def merge(first: Shape, second: Shape) -> Shape:
    """Combine two partly known versions of one shape; a dim is known if either version knows it."""
    if first is None or second is None or len(first) != len(second):
        return second if first is None else first
    return tuple(a if a is not None else b for a, b in zip(first, second, strict=True))


def of_rank(rank: Dim) -> Shape:
    """A shape with this rank and unknown dims; None for an unknown rank.

    The result has at most ``MAX_RANK + 1`` axes, so that a huge rank needs no memory and is still seen as too large.
    """
    return None if rank is None else (None,) * min(rank, MAX_RANK + 1)


def known(shape: Shape) -> TypeGuard[tuple[int, ...]]:
    """Whether the rank and every dim are known."""
    return shape is not None and None not in shape


def known_dims(shape: Shape) -> tuple[int, ...]:
    """The dims with 0 for each unknown dim; empty if the rank is unknown."""
    return tuple([dim or 0 for dim in shape or ()])


def compatible(first: Shape, second: Shape) -> bool:
    """Whether two partly known shapes can be the same shape."""
    if first is None or second is None:
        return True
    return len(first) == len(second) and all(
        a is None or b is None or a == b for a, b in zip(first, second, strict=True)
    )


def broadcast(first: Shape, second: Shape) -> Shape:
    """The result of broadcasting two shapes as numpy does.

    Raises:
        ValueError: the shapes cannot be broadcast.
    """
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return tuple(_broadcast_dim(a, b) for a, b in pairs)


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a is None or b is None:
        # The known dim is not 1 here. The unknown dim is 1 or equal to it, so the known dim is the result.
        return b if a is None else a
    raise ValueError(f"{a} and {b}")


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; an axis of size 0 counts as size 1, as in the library."""
    strides, stride = [], 1
    for dim in reversed(shape):
        strides.append(stride)
        stride *= max(dim, 1)
    return tuple(reversed(strides))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides are row-major without gaps; the strides of axes of size 1 are ignored."""
    expected = 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim != 1 and stride != expected:
            return False
        expected *= dim or 1
    return True


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor with these strides may share memory."""
    if 0 in shape:
        return False
    reach = 0
    for stride, dim in sorted((stride, dim) for stride, dim in zip(strides, shape, strict=True) if dim > 1):
        if stride <= reach:
            return True
        reach += (dim - 1) * stride
    return False


def beyond_single_axes(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, where each axis of size 1 gets a stride as large as the whole tensor with its gaps."""
    span = max((dim * stride for dim, stride in zip(shape, strides, strict=True) if dim > 1), default=1)
    return tuple(stride if dim > 1 else span for dim, stride in zip(shape, strides, strict=True))


def has_gaps(shape: Sequence[int], strides: Sequence[int], apart: int = 1) -> bool:
    """Whether the tensor is dense in no order of its axes; ``apart`` is the expected smallest stride."""
    expected = apart
    for stride, dim in sorted((stride, dim) for dim, stride in zip(shape, strides, strict=True) if dim > 1):
        if stride != expected:
            return True
        expected *= dim
    return False


def normalize_axis(axis: int, rank: int) -> int | None:
    """``axis`` counted from 0; None if a tensor of this rank has no such axis."""
    return axis + rank if -rank <= axis < 0 else axis if 0 <= axis < rank else None


def dim_at(shape: Shape, axis: int) -> Dim:
    """The size of ``axis``, which may be negative; None if the size is unknown or there is no such axis."""
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def axis_of(rank: int, tensor: str = "tensor", noun: str = "an axis") -> str:
    """The allowed range of an axis, for messages."""
    if not rank:
        return f"a {tensor} with axes, not a scalar"
    return f"{noun} of a rank {rank} {tensor}, {-rank} to {rank - 1}"


# Rules ---------------------------------------------------------------------------------------------------------------


def inputs_alike(call: Call) -> Iterable[RuleFinding]:
    """All inputs have the shape of the first."""
    first = call.inputs[0]
    if first is None:
        return
    for port, tensor in zip(call.schema.inputs[1:], call.inputs[1:], strict=False):
        if tensor is not None and not compatible(first.shape, tensor.shape):
            yield RuleFinding(
                port.name,
                f"shape {show(tensor.shape)}",
                f"shape {show(first.shape)}, as {call.schema.inputs[0].name} has",
            )


def axis_in_range(call: Call) -> Iterable[RuleFinding]:
    """axis names an axis of the first input."""
    rank, axis = call.rank(call.schema.inputs[0].name), call.s64("axis")
    if rank is not None and normalize_axis(axis, rank) is None:
        yield RuleFinding("axis", axis, axis_of(rank))


def show(shape: Shape) -> str:
    """A shape as text for messages: ``[8, ?, 3]``."""
    if shape is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def settled_strides(shape: tuple[int, ...], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of the same memory with those of axes of size 1, which say nothing, as in a dense tensor."""
    strides_found = [*strides]
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            strides_found[axis] = strides_found[axis + 1] * shape[axis + 1] if axis + 1 < len(shape) else 1
    return tuple(strides_found)
