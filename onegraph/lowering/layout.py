"""Rewrites that keep images in the layout (N, X, C), which the kernels of the library want.

An op over (N, C, X) becomes the op over (N, X, C) between two transposes. Transposes move behind the ops that follow,
until two of them cancel. What remains are transposes at the ends of the model; most are views without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.schema import Shape
from .emitter import Array, Emitter, Value, numbers
from .movement import reshape, slice_, transpose
from .patterns.table import made, number, operand_of, rewrites

Order = tuple[int, ...]
F32 = DataType.f32
WINDOWS = ("Convolution", "ConvTranspose", "MaxPool", "AvgPool", "BatchNormInference", "Interpolate", "GroupNorm")
UNARY = (
    *("Abs", "Clamp", "Elu", "Erf", "Exp", "GELU", "HardSigmoid", "HardSwish", "LeakyReLU", "Log", "Mish", "Pow"),
    *("ReLU", "Reciprocal", "Round", "Sigmoid", "SoftPlus", "Sqrt", "Square", "Tanh", "TypeCast"),
)
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")
TYPED = ("TypeCast", "SoftMax", "LogSoftmax", "Quantize")  # ops whose result has a data type of its own

# A Concat takes longer than another sum if it has so many times as many channels as the sum.
SMALLER = 3


def moved(emit: Emitter, value: Value | None) -> tuple[LogicalTensor, Order] | None:
    """The tensor behind a transpose, and the order of its axes; None if no transpose makes the value."""
    op = emit.maker(value)
    if op is None or op.kind not in ("StaticTranspose", "Transpose") or op.inputs[0] is None:
        return None
    return op.inputs[0], _integers(op, "order")


def _integers(op: Op, name: str) -> Order:
    found: Any = op.attrs[name]
    return tuple(int(one) for one in found)


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes a transpose."""
    return tuple(np.argsort(order).tolist())


def again(emit: Emitter, op: Op, inputs: Sequence[Value | None], **attrs: object) -> Value:
    """The op with other inputs and attributes."""
    dtype = op.outputs[0].dtype if op.kind in TYPED else None
    found: Value = emit.op(op.kind, inputs, {**op.attrs, **attrs}, dtype=dtype, edition=op.edition)
    return found


@rewrites(*WINDOWS)
def channels_last(emit: Emitter, op: Op) -> Value | None:
    """Run an op over (N, C, X) as the op over (N, X, C)."""
    src = op.inputs[0]
    rank = len(src.shape or ()) if src is not None else 0
    if op.attrs.get("data_format") != "NCX" or rank < 3 or len(op.outputs) > 1:
        return None
    order = (0, *range(2, rank), 1)
    assert src is not None
    inner = again(emit, op, [_codes_first(emit, src, order), *op.inputs[1:]], data_format="NXC")
    return transpose(emit, inner, inverse(order))


def _codes_first(emit: Emitter, value: LogicalTensor, order: Order) -> Value:
    """The transpose of a tensor; before its Quantize and Dequantize, which a product takes in, if that is an input."""
    chain, src = list[Op](), value
    while (op := made(emit, src, "Dequantize", "Quantize")) is not None and op.attrs["qtype"] == "per_tensor":
        chain.append(op)
        src = operand_of(op)
    if emit.maker(src) is not None:
        return transpose(emit, value, order)
    found = transpose(emit, src, order)
    for op in reversed(chain):
        found = again(emit, op, [found])
    return found


@rewrites("StaticTranspose", "Transpose")
def joined(emit: Emitter, op: Op) -> Value | None:
    """Join two transposes to one, or to none."""
    found = moved(emit, op.inputs[0])
    if found is None:
        return None
    return transpose(emit, found[0], [found[1][axis] for axis in _integers(op, "order")])


@rewrites(*UNARY)
def behind_unary(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind an op on single elements."""
    found = moved(emit, op.inputs[0])
    return None if found is None else transpose(emit, again(emit, op, [found[0]]), found[1])


@rewrites("Quantize", "Dequantize")
def behind_quantize(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Quantize or Dequantize, unless it transposes an input of the model."""
    found = moved(emit, op.inputs[0])
    if found is None or emit.maker(found[0]) is None:
        return None
    attrs: dict[str, object] = {}
    if op.attrs.get("qtype") == "per_channel":
        attrs["axis"] = found[1][int(str(op.attrs.get("axis", 1)))]
    return transpose(emit, again(emit, op, [found[0]], **attrs), found[1])


@rewrites(*BINARY)
def behind_binary(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind an op on two tensors, if both are transposed in the same way or one is small."""
    order = next((found[1] for one in op.inputs if (found := moved(emit, one))), None)
    if order is None:
        return None
    inner = [_untransposed(emit, one, order) for one in op.inputs]
    return None if any(one is None for one in inner) else transpose(emit, again(emit, op, inner), order)


def _untransposed(emit: Emitter, value: LogicalTensor | None, order: Order) -> Value | None:
    """What a transpose with this order makes the value of; None if that needs a copy."""
    if value is None or value.shape is None:
        return None
    found = moved(emit, value)
    if found is not None and found[1] == order:
        return found[0]
    if len(value.shape) > len(order) or None in value.shape:
        return None
    if not value.shape:
        return value
    full = (1,) * (len(order) - len(value.shape)) + tuple(dim or 0 for dim in value.shape)
    if value.value is not None:
        return np.ascontiguousarray(value.value.reshape(full).transpose(inverse(order)))
    if sum(dim != 1 for dim in full) <= 1:
        return reshape(emit, value, numbers(*[full[axis] for axis in inverse(order)]))
    return None


@rewrites("Concat")
def behind_concat(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Concat whose inputs are all transposed in the same way."""
    found = [one for one in (moved(emit, one) for one in op.inputs) if one is not None]
    orders = {order for _, order in found}
    if len(found) < len(op.inputs) or len(orders) != 1:
        return None
    (order,) = orders
    axis = order[int(str(op.attrs["axis"]))]
    return transpose(emit, again(emit, op, [inner for inner, _ in found], axis=axis), order)


@rewrites("Concat")
def joined_slices(emit: Emitter, op: Op) -> Value | None:
    """Join Slices that lie side by side in one tensor, and that a Concat joins again."""
    axis, inputs = int(str(op.attrs["axis"])), list[Value | None]()
    last: tuple[LogicalTensor, int, int] | None = None
    for value in op.inputs:
        part = _part(emit, value, axis)
        if part is not None and last is not None and part[0] is last[0] and part[1] == last[2]:
            src, last = part[0], (part[0], last[1], part[2])
            is_whole = src.shape is not None and (last[1], last[2]) == (0, src.shape[axis])
            inputs[-1] = src if is_whole else slice_(emit, src, [last[1]], [last[2]], [axis], [1])
        else:
            last = part
            inputs.append(value)
    return again(emit, op, inputs) if 1 < len(inputs) < len(op.inputs) else None


def _part(emit: Emitter, value: LogicalTensor | None, axis: int) -> tuple[LogicalTensor, int, int] | None:
    """The tensor that a Slice along one axis takes a part of, and where the part begins and ends."""
    op = emit.maker(value)
    if op is None or op.kind != "Slice" or len(op.inputs) < 4 or value is None or value.shape is None:
        return None
    src, size = op.inputs[0], value.shape[axis]
    if src is None or src.shape is None or size is None or (total := src.shape[axis]) is None:
        return None
    start, _, along, step = (*[number(one) for one in op.inputs[1:]], 1.0)[:4]
    if start is None or along is None or step != 1 or int(along) % len(src.shape) != axis % len(src.shape):
        return None
    first = min(max(int(start) + (total if start < 0 else 0), 0), total)
    return src, first, first + size


@rewrites("MaxPool")
def pool_of_parts(emit: Emitter, op: Op) -> Value | None:
    """Pool the tensors of a Concat of channels, because the Concat of the results is smaller."""
    concat = emit.maker(op.inputs[0])
    src = op.inputs[0]
    if concat is None or concat.kind != "Concat" or src is None or src.shape is None or len(op.outputs) > 1:
        return None
    if op.attrs.get("data_format") != "NXC" or int(str(concat.attrs["axis"])) % len(src.shape) != len(src.shape) - 1:
        return None
    if prod(_integers(op, "strides")) == 1 or len(concat.inputs) > 2:
        return None
    return again(emit, concat, [again(emit, op, [part]) for part in concat.inputs])


def _pointwise_weights(op: Op) -> Array | None:
    """The f32 weights of a Convolution of channels-last data that are known and look at one place; else None."""
    src, weights = op.inputs[0], op.inputs[1]
    if src is None or weights is None or src.dtype is not F32 or weights.value is None or src.shape is None:
        return None
    around = len(src.shape) - 2
    if (
        op.attrs.get("weights_format") != "OIX"
        or op.attrs.get("data_format") != "NXC"
        or prod(weights.value.shape[2:]) != 1
    ):
        return None
    plain = {"strides": 1, "pads_begin": 0, "pads_end": 0}
    if op.attrs.get("groups", 1) != 1 or any(_integers(op, name) != (one,) * around for name, one in plain.items()):
        return None
    return weights.value


@rewrites("Convolution")
def sum_over_parts(emit: Emitter, op: Op) -> Value | None:
    """A convolution of two tensors side by side as the sum of two, if its result is much smaller than a Concat."""
    concat, weights = emit.maker(op.inputs[0]), _pointwise_weights(op)
    if concat is None or weights is None or concat.kind != "Concat" or len(concat.inputs) != 2:
        return None
    first, second = concat.inputs
    if first is None or second is None or first.shape is None or first.shape[-1] is None:
        return None
    last, count, channels = len(first.shape) - 1, first.shape[-1], weights.shape[1]
    if int(str(concat.attrs["axis"])) % (last + 1) != last or SMALLER * weights.shape[0] > channels:
        return None
    left, right = (np.ascontiguousarray(part) for part in (weights[:, :count], weights[:, count:]))
    one, other = again(emit, op, [first, left]), again(emit, op, [second, right, *op.inputs[2:]])
    total: Value = emit.op("Add", [other, one])
    return total


@rewrites("Convolution")
def before_upsampling(emit: Emitter, op: Op) -> Value | None:
    """Compute a Convolution that looks at one place before its src is enlarged by repeating elements."""
    enlarged, dst = emit.maker(op.inputs[0]), op.outputs[0]
    if enlarged is None or enlarged.kind != "Interpolate" or _pointwise_weights(op) is None:
        return None
    src, large = enlarged.inputs[0], enlarged.outputs[0]
    if src is None or src.shape is None or large.shape is None or dst.shape is None:
        return None
    if (
        enlarged.attrs.get("mode") != "nearest"
        or enlarged.attrs.get("data_format") != "NXC"
        or len(enlarged.inputs) > 1
    ):
        return None
    counts = [prod(dim or 0 for dim in shape[1:-1]) for shape in (src.shape, large.shape)]
    if counts[0] >= counts[1] or None in dst.shape or (dst.shape[-1] or 0) > (src.shape[-1] or 0):
        return None
    return again(emit, enlarged, [again(emit, op, [src, *op.inputs[1:]])])


@rewrites(*REDUCTIONS)
def behind_reduction(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a reduction."""
    found = moved(emit, op.inputs[0])
    if found is None or "axes" not in op.attrs or any(one is not None for one in op.inputs[1:]):
        return None
    src, order = found
    along = sorted(order[axis] for axis in _integers(op, "axes"))
    inner = again(emit, op, [src], axes=along)
    if op.attrs.get("keep_dims"):
        return transpose(emit, inner, order)
    left = [axis for axis in order if axis not in along]
    return transpose(emit, inner, [sorted(left).index(axis) for axis in left])


@rewrites("SoftMax", "LogSoftmax")
def behind_softmax(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a SoftMax."""
    found = moved(emit, op.inputs[0])
    if found is None or len(op.outputs) > 1:
        return None
    axis = found[1][int(str(op.attrs.get("axis", 1)))]
    return transpose(emit, again(emit, op, [found[0]], axis=axis), found[1])


@rewrites("Slice")
def behind_slice(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Slice along known axes."""
    found = moved(emit, op.inputs[0])
    axes = op.inputs[3].value if len(op.inputs) > 3 and op.inputs[3] is not None else None
    if found is None or axes is None:
        return None
    along = numbers(*[found[1][int(axis)] for axis in axes.tolist()])
    return transpose(emit, again(emit, op, [found[0], *op.inputs[1:3], along, *op.inputs[4:]]), found[1])


@rewrites("Gather")
def one_slice(emit: Emitter, op: Op) -> Value | None:
    """A Gather with known indices that count up as a Slice, which is a view."""
    src, indices = op.inputs[0], op.inputs[1]
    if src is None or indices is None or indices.value is None or not indices.value.size or src.shape is None:
        return None
    shape, axis = src.shape, int(str(op.attrs.get("axis", 0))) % len(src.shape)
    size, count = shape[axis], indices.value.size
    if None in shape or size is None:
        return None
    places = indices.value.reshape(-1).astype(np.int64)
    first = int(places[0]) + (size if places[0] < 0 else 0)
    if not 0 <= first <= size - count or not np.isin(np.arange(first, first + count) - places, (0, size)).all():
        return None
    part = slice_(emit, src, [first], [first + count], [axis], [1])
    dims = (*shape[:axis], *indices.value.shape, *shape[axis + 1 :])
    return reshape(emit, part, numbers(*[dim or 0 for dim in dims]))


Atom = tuple[int, int]  # size and stride


@rewrites("StaticReshape")
def one_view(emit: Emitter, op: Op) -> Value | None:
    """A chain of reshapes and transposes as one reshape and then one transpose at most, if it needs no copy."""
    chain: list[Op] = []
    last: Op | None = op
    while last is not None and last.kind in ("StaticReshape", "StaticTranspose"):
        chain.insert(0, last)
        last = emit.maker(last.inputs[0])
    base = chain[0].inputs[0]
    sizes = [one.shape for step in chain for one in (*step.inputs, *step.outputs) if one is not None]
    if len(chain) == 1 or base is None or any(one is None or not one or None in one or 0 in one for one in sizes):
        return None
    axes = _axes(_dims(base.shape), chain)
    if axes is None:
        return None
    # The axes in the order of their strides; one of size 1 stays before the axis that it precedes.
    last_stride, places = 0, []
    for place in reversed(range(len(axes))):
        size, stride = axes[place]
        last_stride = stride if size != 1 else last_stride
        places.append((-last_stride, place))
    order = [place for _, place in sorted(places)]
    return transpose(emit, reshape(emit, base, numbers(*[axes[place][0] for place in order])), inverse(order))


def _dims(shape: Shape) -> list[int]:
    return [dim or 0 for dim in shape or ()]


def _axes(shape: Sequence[int], chain: Sequence[Op]) -> list[Atom] | None:
    """Size and stride of each axis that the ops make of a dense tensor of this shape; None if that needs a copy."""
    axes = [[(dim, prod(shape[place + 1 :]))] for place, dim in enumerate(shape)]
    for op in chain:
        if op.kind == "StaticTranspose":
            axes = [axes[axis] for axis in _integers(op, "order")]
            continue
        found = _cut([atom for axis in axes for atom in axis if atom[0] != 1], _dims(op.outputs[0].shape))
        if found is None:
            return None
        axes = found
    whole = [_whole(axis) for axis in axes]
    return None if None in whole else [atom for atom in whole if atom is not None]


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
