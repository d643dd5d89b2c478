"""Rules that keep images in the layout (N, X, C), which the kernels of the library want.

An op over (N, C, X) becomes the op over (N, X, C) between two transposes. Transposes move behind the ops that follow,
until two of them cancel. What remains are transposes at the ends of the model; most are views without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.op import LogicalTensor
from ...opset.schema import Shape
from .emitter import Emitter, Value, numbers, rank_of, shape_of
from .movement import NATIVE, reshape, transpose
from .rules import Attrs, before, known, made_by

Order = tuple[int, ...]
WINDOWS = ("Convolution", "ConvTranspose", "MaxPool", "AvgPool", "BatchNormInference", "Interpolate")
UNARY = (
    *("Abs", "Clamp", "Elu", "Erf", "Exp", "GELU", "HardSigmoid", "HardSwish", "LeakyReLU", "Log", "Mish", "Pow"),
    *("ReLU", "Reciprocal", "Round", "Sigmoid", "SoftPlus", "Sqrt", "Square", "Tanh", "TypeCast", "Negative", "Cast"),
)
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")


def moved(emit: Emitter, value: Value | None) -> tuple[LogicalTensor, Order] | None:
    """The tensor behind a transpose, and the order of its axes; None if no transpose makes the value."""
    op = made_by(emit, value, "StaticTranspose", "Transpose")
    if op is None or op.inputs[0] is None:
        return None
    return op.inputs[0], tuple(op.attrs["order"])  # type: ignore[arg-type]


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes a transpose."""
    return tuple(np.argsort(order).tolist())


@before(*WINDOWS)
def channels_last(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Run an op over (N, C, X) as the op over (N, X, C)."""
    src, rank = inputs[0], None if inputs[0] is None else rank_of(inputs[0])
    if attrs.get("data_format", "NXC") != "NCX" or rank is None or rank < 3 or src is None or known(src) is not None:
        return None
    order = (0, *range(2, rank), 1)
    found: Value = emit.op(kind, [transpose(emit, src, order), *inputs[1:]], {**attrs, "data_format": "NXC"})
    return transpose(emit, found, inverse(order))


@before("StaticTranspose", "Transpose")
def joined(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Join two transposes to one, or to none."""
    found = moved(emit, inputs[0])
    if found is None:
        return None
    return transpose(emit, found[0], [found[1][axis] for axis in attrs["order"]])  # type: ignore[attr-defined]


@before(*UNARY)
def behind_unary(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind an op on single elements."""
    found = moved(emit, inputs[0])
    if found is None or len(inputs) > 1 or kind in ("Cast", "TypeCast"):
        return None
    return transpose(emit, emit.op(kind, [found[0]], attrs), found[1])


@before(*BINARY)
def behind_binary(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind an op on two tensors, if both are transposed in the same way or one is small."""
    order = next((found[1] for one in inputs if (found := moved(emit, one))), None)
    if order is None:
        return None
    inner = [_untransposed(emit, one, order) for one in inputs]
    if None in [*map(type, inner)] or any(one is None for one in inner):
        return None
    return transpose(emit, emit.op(kind, inner, attrs), order)


def _untransposed(emit: Emitter, value: Value | None, order: Order) -> Value | None:
    """What a transpose with this order makes the value of; None if that needs a copy."""
    found, shape = moved(emit, value), None if value is None else shape_of(value)
    if found is not None and found[1] == order:
        return found[0]
    if value is None or shape is None or len(shape) > len(order) or None in shape:
        return None
    if all(dim == 1 for dim in shape) and known(value) is not None and len(shape) == 0:
        return value
    full = (1,) * (len(order) - len(shape)) + tuple(dim or 0 for dim in shape)
    array = known(value)
    if array is not None:
        return np.ascontiguousarray(array.reshape(full).transpose(inverse(order)))
    if sum(dim != 1 for dim in full) <= 1:
        return reshape(emit, value, numbers(*[full[axis] for axis in inverse(order)]))
    return None


@before("Concat")
def behind_concat(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind a Concat whose inputs are all transposed in the same way."""
    found = [moved(emit, one) for one in inputs]
    orders = {one[1] for one in found if one is not None}
    if None in found or len(orders) != 1:
        return None
    (order,) = orders
    axis = order[int(attrs["axis"])]  # type: ignore[call-overload]
    edition = None if len(found) <= 64 else "host"
    inner = emit.op("Concat", [one[0] for one in found if one], {"axis": axis}, edition=edition)
    return transpose(emit, inner, order)


@before(*REDUCTIONS)
def behind_reduction(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind a reduction."""
    found, axes = moved(emit, inputs[0]), attrs.get("axes")
    if found is None or not axes or any(one is not None for one in inputs[1:]):
        return None
    src, order = found
    along = [order[axis] for axis in axes]  # type: ignore[attr-defined]
    inner = emit.op(kind, [src], {**attrs, "axes": sorted(along)})
    if attrs.get("keep_dims"):
        return transpose(emit, inner, order)
    left = [axis for axis in order if axis not in along]
    return transpose(emit, inner, [sorted(left).index(axis) for axis in left])


@before("SoftMax", "LogSoftmax")
def behind_softmax(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind a SoftMax."""
    found = moved(emit, inputs[0])
    if found is None:
        return None
    axis = found[1][int(attrs.get("axis", 1))]  # type: ignore[call-overload]
    return transpose(emit, emit.op(kind, [found[0]], {**attrs, "axis": axis}), found[1])


@before("Slice")
def behind_slice(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Transpose behind a Slice along known axes."""
    found = moved(emit, inputs[0])
    axes = known(inputs[3]) if len(inputs) > 3 else None
    if found is None or axes is None:
        return None
    along = numbers(*[found[1][int(axis)] for axis in axes])
    return transpose(emit, emit.op(kind, [found[0], *inputs[1:3], along, *inputs[4:]], attrs), found[1])


@before("StaticReshape", "Reshape")
def one_view(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Join a chain of reshapes and transposes to one reshape and one transpose, if their result needs no copy."""
    src = inputs[0]
    if not isinstance(src, LogicalTensor) or src.dtype not in NATIVE:
        return None
    wanted = _sizes(src.shape, attrs.get("shape"))
    if wanted is None:
        return None
    steps: list[tuple[int, ...] | Order] = [wanted]
    kinds, base = [kind], src
    while (op := made_by(emit, base, "StaticReshape", "StaticTranspose")) is not None:
        before_, shape = op.inputs[0], op.outputs[0].shape
        if before_ is None or before_.shape is None or None in before_.shape or shape is None or None in shape:
            return None
        steps.append(tuple(op.attrs["order"]) if op.kind == "StaticTranspose" else tuple(shape))  # type: ignore[arg-type]
        kinds.append(op.kind)
        base = before_
    if len(steps) == 1 or "StaticTranspose" not in kinds and len(steps) == 1:
        return None
    axes = _axes(base.shape, [*zip(kinds[::-1], steps[::-1], strict=True)])
    if axes is None:
        return None
    # The axes in the order of their strides, with those of size 1 where they are read.
    last, places = 0, []
    strides = [stride for _, stride in axes]
    for place in reversed(range(len(axes))):
        size, stride = axes[place]
        last = stride if size != 1 else last
        places.append((-last, place))
        strides[place] = last
    order = [place for _, place in sorted(places)]
    if len(steps) <= (1 if order == sorted(order) else 2):
        return None
    fine = reshape(emit, base, numbers(*[axes[place][0] for place in order]))
    return transpose(emit, fine, inverse(order))


def _sizes(shape: Shape, given: object) -> tuple[int, ...] | None:
    """The sizes that a reshape makes, with -1 replaced; None if a size is unknown."""
    if shape is None or None in shape or not isinstance(given, (list, tuple)) or 0 in shape:
        return None
    rest = [int(dim) for dim in given if dim != -1]
    whole, part = int(np.prod([dim or 0 for dim in shape])), int(np.prod(rest))
    return tuple(whole // part if dim == -1 else int(dim) for dim in given) if part else None


Atom = tuple[int, int]  # size and stride


def _axes(shape: Shape, steps: Sequence[tuple[str, Sequence[int]]]) -> list[Atom] | None:
    """Sizes and strides, in a dense tensor of this shape, of what the steps make of it; None if that needs a copy."""
    axes: list[list[Atom]] = []
    stride = 1
    for dim in reversed(shape or ()):
        axes.insert(0, [(dim or 0, stride)])
        stride *= dim or 1
    for kind, given in steps:
        if kind == "StaticTranspose":
            axes = [axes[axis] for axis in given]
            continue
        found = _cut([atom for axis in axes for atom in axis if atom[0] != 1], given)
        if found is None:
            return None
        axes = found
    whole = [_whole(axis) for axis in axes]
    return None if None in whole else [atom for atom in whole if atom is not None]


def _cut(atoms: list[Atom], sizes: Sequence[int]) -> list[list[Atom]] | None:
    """The atoms divided among axes of these sizes; None if a size cuts an atom unevenly."""
    rest, axes = atoms[::-1], []
    for size in sizes:
        axis: list[Atom] = []
        while size != 1:
            if not rest:
                return None
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
    return None if rest else axes


def _whole(axis: Sequence[Atom]) -> Atom | None:
    """One atom in the place of those of an axis; None if they do not lie behind each other."""
    if not axis:
        return 1, 0
    size, stride = axis[-1]
    for length, apart in reversed(axis[:-1]):
        if apart != size * stride:
            return None
        size *= length
    return size, stride
