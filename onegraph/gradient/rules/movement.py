"""Gradients of ops that rearrange elements, of the base vocabulary and of the host ops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ...errors import UnsupportedError
from ...lowering.emitter import Emitter, Value, known_rank, numbers
from ...lowering.movement import concat, dims_of, expand, reshape, slice_, transpose, unsqueeze
from ...lowering.reduction import reduce
from ...lowering.shares import Shares, padded_places, shared
from ...opset.host.movement_shapes import slices
from ...opset.shapes import known, known_dims
from ..use import GradientUse, Piece
from .indexing import taken_back
from .table import gradient_of


@gradient_of("Reorder", "src")
def same(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


@gradient_of("StaticReshape, Reshape, Squeeze, Unsqueeze, DynamicReshape-1", "src input")
def reshaped(emit: Emitter, use: GradientUse, diff: Value) -> tuple[Value, Value]:
    gradient_ = reshape(emit, diff, dims_of(emit, use.source))
    return gradient_, gradient_


@gradient_of("StaticTranspose, Transpose", "src")
def transposed(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    axes = use.call.s64s("order")
    rank = len(axes) or use.rank("src")
    order = [axis % rank for axis in axes]
    return transpose(emit, diff, np.argsort(order or [*reversed(range(rank))]).tolist())


@gradient_of("Concat", "src_i")
def parted(emit: Emitter, use: GradientUse, diff: Value) -> list[Value | None]:
    shapes = [None if tensor is None else tensor.shape for tensor in use.call.inputs]
    axis = use.call.s64("axis") % known_rank(diff)
    sizes = tuple([None if shape is None else shape[axis] for shape in shapes])
    if not known(sizes):
        raise UnsupportedError(
            f"gradient: {use.op.kind} {use.op.name!r}: the sizes along axis {axis} are unknown; expected known sizes"
        )
    return [
        slice_(emit, diff, [end - size], [end], [axis]) if index in use.indices else None
        for index, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True))
    ]


@gradient_of("Expand", "src")
def expanded(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


@gradient_of("SumTo", "src")
def summed(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return expand(emit, diff, dims_of(emit, use["src"]))


@gradient_of("Tile", "src")
def tiled(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    dims, repeats = sizes_of(use, "src"), use.value("repeats")
    pairs = [end for pair in zip(repeats, dims, strict=True) for end in pair]
    parts = reshape(emit, diff, numbers(*pairs))
    return reduce(emit, "ReduceSum", parts, [*range(0, len(pairs), 2)], keep=False) if dims else diff


def sizes_of(use: GradientUse, port: str) -> tuple[int, ...]:
    """The shape of an input for a reshape: a single unknown dim is -1.

    Raises:
        UnsupportedError: several dims are unknown.
    """
    shape = use.call.shape(port)
    if shape is None or shape.count(None) > 1:
        return use.dims(port)
    return tuple(-1 if dim is None else dim for dim in shape)


@gradient_of("Slice", "src")
def sliced(emit: Emitter, use: GradientUse, diff: Value) -> Value | Piece:
    """Zeros around the gradient, and between its elements where the steps are longer than 1."""
    dims, parts = use.call.shape("src"), slices(use.call)
    full = slice(None)
    if (
        dims is None
        or parts is None
        or any(dim is None and part != full for dim, part in zip(dims, parts, strict=True))
    ):
        return _sliced_later(emit, use, diff)
    before, after = [0] * len(dims), [0] * len(dims)
    for axis, (dim, part) in enumerate(zip(dims, parts, strict=True)):
        if dim is None:
            continue
        indices = range(*part.indices(dim))
        if len(indices) == 0:
            after[axis] = dim
            continue
        if indices.step < 0:
            diff = slice_(emit, diff, [-1], [-(2**62)], [axis], [-1])
            indices = indices[::-1]
        if indices.step > 1 and len(indices) > 1:
            diff = _spaced(emit, diff, axis, indices.step)
        before[axis], after[axis] = indices[0], dim - 1 - indices[-1]
    cut = [axis for axis in range(len(dims)) if before[axis] or after[axis]]
    return Piece(diff, cut[0], before[cut[0]]) if len(cut) == 1 else pad(emit, diff, before, after)


def _sliced_later(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The gradient where the sizes, or where the slices begin and end, are known when a graph is compiled."""
    axes = use.value("axes") if use.has("axes") else tuple(range(use.dims("starts")[0]))
    rank = use.rank("src")
    axes = tuple(axis % rank for axis in axes)
    sources, rows = [use["src"]], []
    for place, axis in enumerate(axes):
        start, end = (slice_(emit, use[port], [place], [place + 1], [0]) for port in ("starts", "ends"))
        step = slice_(emit, use["steps"], [place], [place + 1], [0]) if use.has("steps") else numbers(1)
        last = sources[-1]
        size = emit.op("Gather", [dims_of(emit, last), np.array(axis)], {"axis": 0})
        all_indices = emit.op("Range", [np.array(0), size, np.array(1)])
        rows.append(slice_(emit, all_indices, start, end, numbers(0), step))
        sources.append(slice_(emit, last, start, end, numbers(axis), step))
    for source, row, axis in reversed([*zip(sources, rows, axes, strict=False)]):
        diff = taken_back(emit, source, row, diff, axis)
    return diff


def _spaced(emit: Emitter, src: Value, axis: int, step: int) -> Value:
    """src with step - 1 zeros between the elements along an axis."""
    shape = src.shape
    assert shape is not None
    zeros, count = [0] * (len(shape) + 1), known_dims(shape)[axis]
    wide = pad(emit, unsqueeze(emit, src, [axis + 1]), zeros, [*zeros[: axis + 1], step - 1, *zeros[axis + 2 :]])
    sizes = [-1 if dim is None else dim for dim in (*shape[:axis], count * step, *shape[axis + 1 :])]
    merged = reshape(emit, wide, numbers(*sizes))
    return slice_(emit, merged, [0], [(count - 1) * step + 1], [axis])


def pad(emit: Emitter, src: Value, before: list[int], after: list[int]) -> Value:
    """src with zeros before and after each axis; negative numbers cut."""
    if not any(before) and not any(after):
        return src
    return emit.op("Pad", [src, numbers(*before, *after)])


def joined(emit: Emitter, pieces: Sequence[Piece], size: int) -> list[Value]:
    """Gradients whose sum is that of all pieces along one axis of a size: runs of pieces are joined, not added."""
    runs: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece_: (piece_.begin, piece_.end)):
        run = next((run for run in runs if run[-1].end == piece.begin), None)
        if run is None:
            runs.append([piece])
        else:
            run.append(piece)
    joined_pieces = []
    for run in runs:
        zeros, axis = [0] * known_rank(run[0].value), run[0].axis
        ends = (
            [*zeros[:axis], run[0].begin, *zeros[axis + 1 :]],
            [*zeros[:axis], size - run[-1].end, *zeros[axis + 1 :]],
        )
        joined_pieces.append(pad(emit, concat(emit, [piece.value for piece in run], axis), *ends))
    return joined_pieces


@gradient_of("Pad", "src")
def padded(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    pads, rank = use.value("pads"), use.rank("src")
    before, after = pads[:rank], pads[rank:]
    if use.call.string("mode") == "constant":
        return pad(emit, diff, [-size for size in before], [-size for size in after])
    for axis in range(rank):
        if before[axis] or after[axis]:
            dim = use.dim("src", axis)
            places = padded_places(dim, before[axis], after[axis], use.call.string("mode"))[:, None]
            diff = shared(emit, diff, {axis: Shares(places, np.ones(places.shape)).turned(dim)})
    return diff


@gradient_of("Pad", "value")
def padding(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The sum of the gradient where the padding is: of all of it, less that of src."""
    inner = padded(emit, use, diff)
    sums = [reduce(emit, "ReduceSum", tensor, None, keep=False) for tensor in (diff, inner)]
    return emit.op("Subtract", sums)


@gradient_of("Triangle", "src")
def triangle(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("Triangle", [diff], dict(use.call.given))
