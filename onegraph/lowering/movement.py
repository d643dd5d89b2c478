"""Lowers reshapes, transposes, slices, joins and broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from .._util.open_numbers import numbers_of
from .._util.open_sizes import is_open
from ..opset.dtypes import DataType
from ..opset.shapes import known, known_dims
from .computed_shapes import known_parts
from .emitter import (
    Array,
    Emitter,
    NotLowered,
    Parts,
    Value,
    dtype_of,
    is_known,
    known_rank,
    numbers,
    rank_of,
    shape_of,
)
from .layout import moved
from .open_values import OpenInput

# The data types that the specification's movement ops take.
NATIVE = frozenset([DataType.f32, DataType.bf16, DataType.f16])
CODES = frozenset([DataType.s8, DataType.u8])
LEAST_CODES = 1 << 12  # of a matrix; a smaller one takes no time


def reshape(emit: Emitter, src: Value, shape: Value | Sequence[int]) -> Value:
    """src in another shape, of dims or a tensor; one dim of a known one may be -1."""
    if isinstance(shape, (np.ndarray, Sequence)):
        dims = shape.tolist() if isinstance(shape, np.ndarray) else [*shape]
        if shape_of(src) == tuple(dims):
            return src
        if dtype_of(src) in NATIVE and not is_known(src):
            return emit.op("StaticReshape", [src], {"shape": dims, "special_zero": False})
        if emit.opened is not None and is_open(dims):
            rows = emit.op("Reshape", [src, numbers(-1)])
            places = emit.opened.value(emit.graph, DataType.s64, dims, OpenInput("rows", dims))
            return emit.op("Gather", [rows, places], {"axis": 0})
        shape = sizes_of(emit, dims)
    result = emit.op("Reshape", [src, shape])
    return _with_dims(emit, result, known_parts(emit, shape))


def sizes_of(emit: Emitter, dims: Sequence[int]) -> Value:
    """Sizes as a vector of s64: an array, or where one is open, a tensor whose contents each program decides."""
    if emit.opened is not None or not is_open(dims):  # a graph for unknown dims has other ways to say sizes
        return numbers(*dims)
    return emit.graph._tensor(DataType.s64, (len(dims),), "", None, numbers_of(dims, (len(dims),)))


def _with_dims(emit: Emitter, value: Value, dims: Parts | None) -> Value:
    """The value, of whose dims these are known; other numbers than dims count as unknown."""
    shape, stated = shape_of(value), [max(dim or 0, 0) for dim in dims or ()]
    is_new = shape is not None and any(dim and have is None for have, dim in zip(shape, stated, strict=False))
    if not is_new or shape is None or len(shape) != len(stated) or dtype_of(value) not in NATIVE:
        return value
    return emit.op("StaticReshape", [value], {"shape": stated, "special_zero": True})


def transpose(emit: Emitter, src: Value, order: Sequence[int]) -> Value:
    """src with its axes in another order; a transpose of a transpose is one transpose or none."""
    if [*order] == [*range(len(order))]:
        return src
    inner = moved(emit, src)
    if inner is not None and {*order} == {*inner[1]}:
        return transpose(emit, inner[0], [inner[1][axis] for axis in order])
    kind = "StaticTranspose" if dtype_of(src) in NATIVE and not is_known(src) else "Transpose"
    return emit.op(kind, [src], {"order": [*order]})


def unsqueeze(emit: Emitter, src: Value, axes: Sequence[int]) -> Value:
    """src with further axes of size 1, counted in the result."""
    shape = shape_of(src)
    if known(shape):
        rank = len(shape) + len(axes)
        places, dims = {axis % rank for axis in axes}, iter(shape)
        return reshape(emit, src, [1 if axis in places else next(dims) for axis in range(rank)])
    return emit.op("Unsqueeze", [src], {"axes": [*axes]})


def squeeze(emit: Emitter, src: Value, axes: Sequence[int]) -> Value:
    """src without some axes of size 1."""
    shape = shape_of(src)
    if known(shape):
        dropped = {axis % len(shape) for axis in axes}
        if all(shape[axis] == 1 for axis in dropped):
            return reshape(emit, src, [dim for axis, dim in enumerate(shape) if axis not in dropped])
    return emit.op("Squeeze", [src], {"axes": [*axes]})


def flatten(emit: Emitter, src: Value, axis: int) -> Value:
    """src as a matrix: the axes before ``axis``, and the axes from it on."""
    shape, rank = shape_of(src), known_rank(src)
    axis = axis % rank if axis < 0 else axis
    assert shape is not None
    if None not in shape[axis:]:
        columns = prod(known_dims(shape[axis:]))
        rows = -1 if None in shape[:axis] else prod(known_dims(shape[:axis]))
        if rows >= 0 or columns:  # beside a dim of 0, no -1 says what the other one is
            return reshape(emit, src, numbers(rows, columns))
    dims = emit.op("Shape", [src])
    ends = [
        emit.op("ReduceProd", [part, None], {"axes": [0], "keep_dims": True})
        for part in (slice_(emit, dims, [0], [axis], [0]), slice_(emit, dims, [axis], [rank], [0]))
    ]
    return reshape(emit, src, concat(emit, ends, 0))


def slice_(
    emit: Emitter,
    src: Value,
    starts: Sequence[int] | Value,
    ends: Sequence[int] | Value,
    axes: Sequence[int] | Value | None = None,
    steps: Sequence[int] | Value | None = None,
) -> Value:
    """src[start:end:step] along each of axes."""
    parts = [None if part is None else _vector(emit, part) for part in (starts, ends, axes, steps)]
    while parts[-1] is None:
        parts.pop()
    return emit.op("Slice", [src, *parts])


def _vector(emit: Emitter, values: Sequence[int] | Value) -> Value:
    if isinstance(values, (list, tuple, range)):
        return sizes_of(emit, values)
    return as_s64(emit, values)  # type: ignore[arg-type]


def as_s64(emit: Emitter, value: Value) -> Value:
    """Integers as s64, which shapes and axes of host ops have."""
    return cast(emit, value, DataType.s64)


def cast(emit: Emitter, value: Value, dtype: DataType, saturate: bool = True) -> Value:
    """The value in another data type."""
    src_dtype = dtype_of(value)
    if src_dtype is dtype:
        return value
    wide = emit.same_as.get(id(value))
    if wide is not None and dtype_of(wide[1]) is dtype:
        return wide[1]
    if {src_dtype, dtype} <= NATIVE and not is_known(value):
        if DataType.f32 in (src_dtype, dtype):
            return emit.op("TypeCast", [value], dtype=dtype)
        return cast(emit, cast(emit, value, DataType.f32), dtype)
    if src_dtype in CODES and dtype in NATIVE and _is_large_matrix(value):
        # A product reads such weights as they are, in a quarter of the time that numbers of f32 take.
        real = emit.op("Dequantize", [value], {"scales": [1.0], "zps": [0]})
        return cast(emit, real, dtype)
    return emit.op("Cast", [value], {"saturate": saturate}, dtype=dtype)


def _is_large_matrix(value: Value) -> bool:
    return rank_of(value) == 2 and prod(known_dims(shape_of(value))) >= LEAST_CODES


def rounded(emit: Emitter, value: Value, dtype: DataType) -> Value:
    """A result that was computed in f32, in the 16-bit type of its sources; see ``DataGraph._roundings``."""
    narrow, roundings = cast(emit, value, dtype), emit.graph._roundings
    op = emit.maker(narrow)
    if roundings is not None and narrow is not value and op is not None and op.kind == "TypeCast":
        emit.graph._roundings = roundings | {op.name}
    return narrow


def concat(emit: Emitter, sources: Sequence[Value], axis: int) -> Value:
    """The sources along one axis; empty ones are left out."""
    full = [source for source in sources if not _is_empty(source, axis)] or [*sources]
    if len(full) == 1:
        return full[0]
    dtype = dtype_of(full[0])
    edition = None if dtype in NATIVE and len(full) <= 64 else "host"
    return emit.op("Concat", full, {"axis": axis}, edition=edition)


def _is_empty(source: Value, axis: int) -> bool:
    """Whether a tensor has no elements along an axis; PyTorch also joins (0,) with tensors of other ranks."""
    shape = shape_of(source) or ()
    return shape == (0,) or 0 in shape[axis:][:1]


def expand(emit: Emitter, src: Value, shape: Value | Sequence[int]) -> Value:
    """src broadcast with a shape, of dims or a tensor."""
    if isinstance(shape, (np.ndarray, Sequence)):
        dims, rank = tuple(shape.tolist() if isinstance(shape, np.ndarray) else shape), rank_of(src)
        if rank is not None and len(dims) <= rank and all(dim == 1 for dim in dims):
            return src
        if shape_of(src) == dims:
            return src
        if isinstance(src, np.ndarray) and not is_open(dims):
            return np.broadcast_to(src, np.broadcast_shapes(src.shape, dims))
        if emit.opened is not None and is_open(dims):
            shape_source = emit.opened.value(emit.graph, DataType.boolean, dims, OpenInput("shape", dims))
            return emit.op("Where", [shape_source, src, src], edition="host")
        shape = sizes_of(emit, dims)
    expanded = emit.op("Expand", [src, as_s64(emit, shape)])
    # A 1 in the shape leaves the dim of src.
    return _with_dims(emit, expanded, [dim if dim != 1 else None for dim in known_parts(emit, shape) or ()])


def split(emit: Emitter, src: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """src cut along one axis into parts of these sizes; each part is a view."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice_(emit, src, [start], [end], [axis]) for start, end in pairwise(ends)]


def part(emit: Emitter, src: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    """src[start:end:step] along one axis, with places that are not negative; of a known array a view."""
    shape = shape_of(src)
    if shape is not None and (start, end, step) == (0, shape[axis], 1):
        return src
    if isinstance(src, np.ndarray):
        return src[(slice(None),) * axis + (slice(start, end, step),)]
    return slice_(emit, src, [start], [max(end, start)], [axis], [step])


def is_replaceable(size: int, places: range) -> bool:
    """Whether :func:`with_part` takes these places of an axis: neighbours, or one of each of the axis's equal parts."""
    apart = places.step != 1 and len(places) > 1
    return not apart or (size % places.step == 0 and places.start < places.step and len(places) == size // places.step)


def with_part(emit: Emitter, src: Value, updates: Value, axis: int, places: range) -> Value:
    """src, whose shape is known, with updates in the place of src[places] along an axis.

    Raises:
        NotLowered: the places are apart, and are not one element of each of the parts that the axis has.
    """
    shape = known_dims(shape_of(src))
    if not places:
        return src
    if not is_replaceable(shape[axis], places):
        raise NotLowered("a step that does not divide the axis")
    if places.step != 1 and len(places) > 1:
        step = places.step
        halves = [numbers(*shape[:axis], shape[axis] // step, own, *shape[axis + 1 :]) for own in (step, 1)]
        at = range(places.start, places.start + 1)
        halved = with_part(emit, reshape(emit, src, halves[0]), reshape(emit, updates, halves[1]), axis + 1, at)
        return reshape(emit, halved, shape)
    pieces = [updates]
    if places.start > 0:
        pieces.insert(0, part(emit, src, axis, 0, places.start))
    if places[-1] + 1 < shape[axis]:
        pieces.append(part(emit, src, axis, places[-1] + 1, shape[axis]))
    return concat(emit, pieces, axis)


def padded(emit: Emitter, src: Value, before: Sequence[int], after: Sequence[int], number: float = 0) -> Value:
    """src, whose shape is known, with so many elements of one number before and after each axis."""
    shape = [*known_dims(shape_of(src))]
    for axis, counts in enumerate(zip(before, after, strict=True)):
        first, last = (
            np.full([*shape[:axis], count, *shape[axis + 1 :]], number, dtype_of(src).numpy) for count in counts
        )
        src = concat(emit, [first, src, last], axis) if any(counts) else src
        shape[axis] += sum(counts)
    return src


def dims_of(emit: Emitter, src: Value) -> Value:
    """The shape of a value, known if every dim is known."""
    shape = shape_of(src)
    if known(shape):
        return np.array(shape, np.int64)
    return emit.op("Shape", [src])


def scalar(value: float, dtype: DataType) -> Array:
    """A number as a known scalar of a data type.

    Raises:
        NotLowered: the data type is one of integers, and the number is beyond its range.
    """
    try:
        with np.errstate(over="ignore"):
            return np.array(value, dtype.numpy)
    except OverflowError:
        raise NotLowered(f"{value} is beyond the range of {dtype}") from None
