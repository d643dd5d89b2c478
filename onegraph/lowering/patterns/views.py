"""Recognizes Concats, Gathers and reshapes that are views of one tensor, or parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..._util.open_sizes import is_open
from ...ir.op import LogicalTensor, Op
from ...opset.shapes import known, known_dims
from ..emitter import Array, Emitter, Value, integers, numbers
from ..layout import inverse
from ..movement import reshape, slice_, squeeze, transpose
from .table import again, contents, ends_of, made, number, operand_of, rewrites

Atom = tuple[int, int]  # size and stride


@rewrites("Concat", of_known_dims=True)
def joined_slices(emit: Emitter, op: Op) -> Value | None:
    """Join Slices that lie side by side in one tensor, and that a Concat joins again."""
    axis, runs = int(str(op.attrs["axis"])), list[list[LogicalTensor | None]]()
    ends = list[tuple[LogicalTensor, int, int] | None]()  # of each run of Slices side by side
    for value in op.inputs:
        part, last = _part(emit, value, axis), ends[-1] if ends else None
        if part is not None and last is not None and part[0] is last[0] and part[1] == last[2]:
            ends[-1] = part[0], last[1], part[2]
            runs[-1].append(value)
        else:
            ends.append(part)
            runs.append([value])
    inputs = [one for run, part in zip(runs, ends, strict=True) for one in _side_by_side(emit, run, part, axis)]
    return again(emit, op, inputs) if 1 < len(inputs) < len(op.inputs) else None


def _side_by_side(
    emit: Emitter, run: Sequence[Value | None], part: tuple[LogicalTensor, int, int] | None, axis: int
) -> Sequence[Value | None]:
    """Slices side by side as one; they stay as they are where an open size would be an end."""
    if part is None or len(run) == 1:
        return run
    src, *ends = part
    if ends == [0, known_dims(src.shape)[axis]]:
        return [src]
    return run if is_open(ends) else [slice_(emit, src, [ends[0]], [ends[1]], [axis], [1])]


def _part(emit: Emitter, value: LogicalTensor | None, axis: int) -> tuple[LogicalTensor, int, int] | None:
    """The tensor that a Slice along one axis takes a part of, and where the part begins and ends."""
    op = made(emit, value, "Slice")
    if op is None or len(op.inputs) < 4:
        return None
    src, dims = operand_of(op), known_dims(op.outputs[0].shape)
    if not any(dims[axis:][:1]):
        return None
    start, _, along, step = (*[number(input_) for input_ in op.inputs[1:]], 1.0)[:4]
    if start is None or along is None or step != 1 or int(along) % len(dims) != axis % len(dims):
        return None
    total = known_dims(src.shape)[axis]
    first = min(max(int(start) + (total if start < 0 else 0), 0), total)
    return src, first, first + dims[axis]


@rewrites("Gather", of_known_dims=True)
def one_slice(emit: Emitter, op: Op) -> Value | None:
    """A Gather with known indices that count up as a Slice, which is a view."""
    src, indices = operand_of(op), contents(op.inputs[1])
    if indices is None or not indices.size or not known(src.shape):
        return None
    shape, axis = src.shape, int(str(op.attrs.get("axis", 0))) % len(src.shape)
    size, count = shape[axis], indices.size
    if is_open((size,)):  # a Slice, once the size is known
        return None
    places = indices.ravel().astype(np.int64)
    first = int(places[0]) + (size if places[0] < 0 else 0)
    if not 0 <= first <= size - count or not np.isin(np.arange(first, first + count) - places, (0, size)).all():
        return None
    part = slice_(emit, src, [first], [first + count], [axis], [1])
    return reshape(emit, part, [*shape[:axis], *indices.shape, *shape[axis + 1 :]])


@rewrites("GatherND")
def of_one_axis(emit: Emitter, op: Op) -> Value | None:
    """A GatherND whose indices name places along the first axis alone as a Gather."""
    src, indices = ends_of(op)
    if not indices.shape or indices.shape[-1] != 1 or op.attrs.get("batch_dims"):
        return None
    places = squeeze(emit, indices, [-1]) if indices.value is None else indices.value[..., 0].astype(np.int64)
    return emit.op("Gather", [src, places], {"axis": 0})


@rewrites("GatherElements", of_known_dims=True)
def from_a_row(emit: Emitter, op: Op) -> Value | None:
    """A GatherElements with known indices as a Gather from the elements in a row, whose places are computed once."""
    src, indices = operand_of(op), contents(op.inputs[1])
    if indices is None or not known(src.shape) or is_open(src.shape):  # the places are computed once sizes are known
        return None
    shape, axis = src.shape, int(str(op.attrs.get("axis", 0))) % len(src.shape)
    at = indices.astype(np.int64)
    at = np.where(at < 0, at + shape[axis], at)
    if not at.size or at.min() < 0 or at.max() >= shape[axis]:
        return None
    axes: list[Array] = [*np.indices(at.shape, sparse=True)]
    axes[axis] = at
    places: Array = np.asarray(np.ravel_multi_index(tuple(np.broadcast_arrays(*axes)), shape))
    return emit.op("Gather", [reshape(emit, src, numbers(-1)), places], {"axis": 0})


@rewrites("StaticReshape", of_known_dims=True)
def one_view(emit: Emitter, op: Op) -> Value | None:
    """A chain of reshapes and transposes as one reshape and then one transpose at most, if it needs no copy."""
    chain: list[Op] = []
    last: Op | None = op
    while last is not None and last.kind in ("StaticReshape", "StaticTranspose"):
        chain.insert(0, last)
        last = emit.maker(last.inputs[0])
    base = operand_of(chain[0])
    shapes = [base.shape, *(step.outputs[0].shape for step in chain)]
    if len(chain) == 1 or any(not known(shape) or 0 in shape for shape in shapes):
        return None
    axes = _axes(known_dims(base.shape), chain)
    if axes is None:
        return None
    # The axes in the order of their strides; one of size 1 stays before the axis that it precedes.
    last_stride, places = 0, []
    for place in reversed(range(len(axes))):
        size, stride = axes[place]
        last_stride = stride if size != 1 else last_stride
        places.append((-last_stride, place))
    order = [place for _, place in sorted(places)]
    return transpose(emit, reshape(emit, base, [axes[place][0] for place in order]), inverse(order))


@rewrites("StaticTranspose", of_known_dims=True)
def before_a_join(emit: Emitter, op: Op) -> Value | None:
    """A transpose before the reshape that joins transposed axes: the copy for that reshape then does both."""
    joined = made(emit, op.inputs[0], "StaticReshape")
    if joined is None or made(emit, joined.inputs[0], "StaticTranspose") is None:
        return None
    apart, dst = operand_of(joined), known_dims(op.outputs[0].shape)
    if not known(apart.shape) or not prod(dst):
        return None
    axes = _joined(apart.shape, known_dims(joined.outputs[0].shape))
    if axes is None:
        return None
    order = [axis for place in integers(op, "order") for axis in axes[place]]
    return reshape(emit, transpose(emit, apart, order), dst)


def _joined(apart: Sequence[int], together: Sequence[int]) -> list[list[int]] | None:
    """The axes that each axis of a reshaped tensor joins; None if the reshape cuts an axis."""
    rest, axes = [*reversed(range(len(apart)))], list[list[int]]()
    for size in together:
        axis: list[int] = []
        while rest and (size != 1 or (not axis and apart[rest[-1]] == 1)):
            if size % apart[rest[-1]]:
                return None
            size //= apart[rest[-1]]
            axis.append(rest.pop())
        axes.append(axis)
    return [*axes[:-1], axes[-1] + rest[::-1]] if axes else None  # what is left has size 1


def _axes(shape: Sequence[int], chain: Sequence[Op]) -> list[Atom] | None:
    """Size and stride of each axis that the ops make of a dense tensor of this shape; None if that needs a copy."""
    axes = [[(dim, prod(shape[place + 1 :]))] for place, dim in enumerate(shape)]
    for op in chain:
        if op.kind == "StaticTranspose":
            axes = [axes[axis] for axis in integers(op, "order")]
            continue
        cut = _cut([atom for axis in axes for atom in axis if atom[0] != 1], known_dims(op.outputs[0].shape))
        if cut is None:
            return None
        axes = cut
    whole = [atom for axis in axes if (atom := _whole(axis)) is not None]
    return whole if len(whole) == len(axes) else None


def _cut(atoms: Sequence[Atom], sizes: Sequence[int]) -> list[list[Atom]] | None:
    """The atoms divided among axes of these sizes; None if a size cuts an atom unevenly."""
    rest, axes = [*reversed(atoms)], []
    for size in sizes:
        axis: list[Atom] = []
        while size != 1:
            length, stride = rest.pop()
            if size % length == 0:
                axis.append((length, stride))
                size //= length
            elif length % size == 0:
                axis.append((size, stride * (length // size)))
                rest.append((length // size, stride))
                size = 1
            else:
                return None
        axes.append(axis)
    return axes


def _whole(axis: Sequence[Atom]) -> Atom | None:
    """One atom in the place of those of an axis; None if they do not lie behind each other."""
    size, stride = axis[-1] if axis else (1, 0)
    for length, apart in reversed(axis[:-1]):
        if apart != size * stride:
            return None
        size *= length
    return size, stride
