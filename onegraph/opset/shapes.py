"""Shape algebra that several categories share. An unknown dim is None, a shape of unknown rank is None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .schema import Call, Finding, Shape

Dim = int | None
MAX_RANK = 12  # of the library


def merge(first: Shape, second: Shape) -> Shape:
    """The more exact of two statements of one shape: a dim that either of them knows is known."""
    if first is None or second is None or len(first) != len(second):
        return second if first is None else first
    return tuple(a if a is not None else b for a, b in zip(first, second, strict=True))


def of_rank(rank: Dim) -> Shape:
    """A shape of which the rank is known, or not even that; of more axes than a tensor has, one too many is enough."""
    return None if rank is None else (None,) * min(rank, MAX_RANK + 1)


def known(shape: Shape) -> bool:
    """Whether every dim is known."""
    return shape is not None and None not in shape


def known_dims(shape: Shape) -> tuple[int, ...]:
    """Every dim as an integer, 0 for one that is unknown; no dims where not even the rank is known."""
    return tuple([dim or 0 for dim in shape or ()])


def compatible(first: Shape, second: Shape) -> bool:
    """Whether two statements can be of one shape."""
    if first is None or second is None:
        return True
    return len(first) == len(second) and all(
        a is None or b is None or a == b for a, b in zip(first, second, strict=True)
    )


def broadcast(first: Shape, second: Shape) -> Shape:
    """The shape that numpy broadcasts two to.

    Raises:
        ValueError: they cannot be broadcast.
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
        # The unknown one is 1 or equal to the other; where the other is more than 1, that is the result.
        return b if a is None else a
    raise ValueError(f"{a} and {b}")


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; an empty axis counts as one of size 1, as the library has it."""
    strides, stride = [], 1
    for dim in reversed(shape):
        strides.append(stride)
        stride *= max(dim, 1)
    return tuple(reversed(strides))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides are row-major without gaps; axes of size 1 do not count."""
    wanted = 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim != 1 and stride != wanted:
            return False
        wanted *= dim or 1
    return True


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor with these strides share memory."""
    if 0 in shape:
        return False
    reach = 0
    for stride, dim in sorted((stride, dim) for stride, dim in zip(strides, shape, strict=True) if dim > 1):
        if stride <= reach:
            return True
        reach += (dim - 1) * stride
    return False


def beyond_single_axes(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The same strides but for axes of size 1, which get the size of the whole tensor, gaps included."""
    whole = max((dim * stride for dim, stride in zip(shape, strides, strict=True) if dim > 1), default=1)
    return tuple(stride if dim > 1 else whole for dim, stride in zip(shape, strides, strict=True))


def has_gaps(shape: Sequence[int], strides: Sequence[int], apart: int = 1) -> bool:
    """Whether a tensor is not dense in any order of its axes, its elements being so many places apart."""
    whole = apart
    for stride, dim in sorted((stride, dim) for dim, stride in zip(shape, strides, strict=True) if dim > 1):
        if stride != whole:
            return True
        whole *= dim
    return False


def normalize_axis(axis: int, rank: int) -> int | None:
    """``axis`` counted from 0, None where a tensor of this rank has no such axis."""
    return axis + rank if -rank <= axis < 0 else axis if 0 <= axis < rank else None


def dim_at(shape: Shape, axis: int) -> Dim:
    """The size of an axis, which may be counted from the end; None where it is unknown or there is no such axis."""
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def axis_of(rank: int, tensor: str = "tensor", which: str = "an axis") -> str:
    """What an axis must be, for messages."""
    if not rank:
        return f"a {tensor} with axes, not a scalar"
    return f"{which} of a rank {rank} {tensor}, {-rank} to {rank - 1}"


# Rules ---------------------------------------------------------------------------------------------------------------


def inputs_alike(call: Call) -> Iterable[Finding]:
    """All inputs have the shape of the first."""
    first = call.inputs[0]
    if first is None:
        return
    for port, tensor in zip(call.schema.inputs[1:], call.inputs[1:], strict=False):
        if tensor is not None and not compatible(first.shape, tensor.shape):
            yield Finding(
                port.name,
                f"shape {show(tensor.shape)}",
                f"shape {show(first.shape)}, as {call.schema.inputs[0].name} has",
            )


def axis_in_range(call: Call) -> Iterable[Finding]:
    """axis names an axis of the first input."""
    rank, axis = call.rank(call.schema.inputs[0].name), call.s64("axis")
    if rank is not None and normalize_axis(axis, rank) is None:
        yield Finding("axis", axis, axis_of(rank))


def counted(number: object, noun: str) -> str:
    """A number of things: ``"1 element"``, ``"2 elements"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show(shape: Shape) -> str:
    """A shape in messages: ``[8, ?, 3]``."""
    if shape is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
