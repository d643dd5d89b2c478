"""Gradients of ops that rearrange elements, of the base vocabulary and of the host ops."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from ...errors import UnsupportedError
from ...lowering.elementwise import filled
from ...lowering.emitter import Array, Emitter, Value, numbers, rank_of
from ...lowering.movement import dims_of, reshape, slice_, transpose, unsqueeze
from ...lowering.reduction import reduce
from ...opset.host.movement import slices
from ...opset.shapes import known, known_dims, normalize_axis
from ..use import Use
from .table import gradient_of


@gradient_of("Reorder", "src")
def same(emit: Emitter, use: Use, diff: Value) -> Value:
    return diff


@gradient_of("StaticReshape, Reshape, Squeeze, Unsqueeze, DynamicReshape-1", "src input")
def reshaped(emit: Emitter, use: Use, diff: Value) -> tuple[Value, Value]:
    found = reshape(emit, diff, dims_of(emit, use.source))
    return found, found


@gradient_of("StaticTranspose, Transpose", "src")
def transposed(emit: Emitter, use: Use, diff: Value) -> Value:
    rank = use.call.rank("src") or 0
    order = [axis % rank for axis in use.call.s64s("order")] if rank else []
    return transpose(emit, diff, np.argsort(order or [*reversed(range(rank))]).tolist())


@gradient_of("Concat", "src_i")
def joined(emit: Emitter, use: Use, diff: Value) -> list[Value | None]:
    shapes = [None if tensor is None else tensor.shape for tensor in use.call.inputs]
    axis = normalize_axis(use.call.s64("axis"), rank_of(diff) or 0) or 0
    sizes = [None if shape is None else shape[axis] for shape in shapes]
    if not known(tuple(sizes)):
        raise UnsupportedError(
            f"gradient: {use.op.kind} {use.op.name!r}: the sizes along axis {axis} are unknown; expected known sizes"
        )
    ends = [*accumulate(size or 0 for size in sizes)]
    return [
        slice_(emit, diff, [end - (size or 0)], [end], [axis]) if index in use.indices else None
        for index, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


@gradient_of("Expand", "src")
def expanded(emit: Emitter, use: Use, diff: Value) -> Value:
    return diff


@gradient_of("Tile", "src")
def tiled(emit: Emitter, use: Use, diff: Value) -> Value:
    dims, repeats = use.dims("src"), use.value("repeats")
    pairs = [end for pair in zip(repeats, dims, strict=True) for end in pair]
    parts = reshape(emit, diff, numbers(*pairs))
    return reduce(emit, "ReduceSum", parts, [*range(0, len(pairs), 2)], keep=False) if dims else diff


@gradient_of("Slice", "src")
def sliced(emit: Emitter, use: Use, diff: Value) -> Value:
    """Zeros around the gradient, and between its elements where the steps are longer than 1."""
    dims, parts = use.dims("src"), slices(use.call)
    assert parts is not None
    before, after = [0] * len(dims), [0] * len(dims)
    for axis, (dim, part) in enumerate(zip(dims, parts, strict=True)):
        taken = range(*part.indices(dim))
        if len(taken) == 0:
            after[axis] = dim
            continue
        if taken.step < 0:
            diff = slice_(emit, diff, [-1], [-(2**62)], [axis], [-1])
            taken = taken[::-1]
        if taken.step > 1 and len(taken) > 1:
            diff = _spaced(emit, diff, axis, taken.step)
        before[axis], after[axis] = taken[0], dim - 1 - taken[-1]
    return pad(emit, diff, before, after)


def _spaced(emit: Emitter, src: Value, axis: int, step: int) -> Value:
    """src with step - 1 zeros between the elements along an axis."""
    shape = known_dims(src.shape)
    zeros = [0] * (len(shape) + 1)
    wide = pad(emit, unsqueeze(emit, src, [axis + 1]), zeros, [*zeros[: axis + 1], step - 1, *zeros[axis + 2 :]])
    merged = reshape(emit, wide, numbers(*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    return slice_(emit, merged, [0], [(shape[axis] - 1) * step + 1], [axis])


def pad(emit: Emitter, src: Value, before: list[int], after: list[int]) -> Value:
    """src with zeros before and after each axis; negative numbers cut."""
    if not any(before) and not any(after):
        return src
    found: Value = emit.op("Pad", [src, numbers(*before, *after)])
    return found


@gradient_of("Pad", "src")
def padded(emit: Emitter, use: Use, diff: Value) -> Value:
    pads, dims = use.value("pads"), use.dims("src")
    before, after = pads[: len(dims)], pads[len(dims) :]
    if use.call.string("mode") == "constant":
        return pad(emit, diff, [-size for size in before], [-size for size in after])
    for axis, dim in enumerate(dims):
        places = _places(dim, before[axis], after[axis], use.call.string("mode"))
        diff = added_along(emit, diff, places, axis, dim)
    return diff


def _places(dim: int, before: int, after: int, mode: str) -> Array:
    """The element of src that each element along a padded axis repeats."""
    low, high = max(before, 0), max(after, 0)
    found: Array = np.pad(np.arange(dim), (low, high), mode=mode)  # type: ignore[call-overload]
    return found[max(-before, 0) : len(found) - max(-after, 0)]


def added_along(emit: Emitter, src: Value, places: Array, axis: int, dim: int) -> Value:
    """An array of ``dim`` elements along an axis, to which the elements of src are added at known places."""
    if len(places) == dim and (places == np.arange(dim)).all():
        return src
    shape = known_dims(src.shape)
    zeros = np.full((*shape[:axis], dim, *shape[axis + 1 :]), filled(0, src))
    whole = np.broadcast_to(places.reshape(-1, *(1,) * (len(shape) - axis - 1)), shape)
    found: Value = emit.op(
        "ScatterElements", [zeros, np.ascontiguousarray(whole), src], {"axis": axis, "reduction": "add"}
    )
    return found


@gradient_of("Pad", "value")
def padding(emit: Emitter, use: Use, diff: Value) -> Value:
    """The sum of the gradient where the padding is: of all of it, less that of src."""
    inner = padded(emit, use, diff)
    sums = [reduce(emit, "ReduceSum", one, None, keep=False) for one in (diff, inner)]
    whole: Value = emit.op("Subtract", sums)
    return whole


@gradient_of("Triangle", "src")
def triangle(emit: Emitter, use: Use, diff: Value) -> Value:
    found: Value = emit.op("Triangle", [diff], dict(use.call.given))
    return found
