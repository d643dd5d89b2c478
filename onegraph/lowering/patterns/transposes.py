"""Keeps images in the layout (N, X, C), which the kernels of the library want.

An op over (N, C, X) becomes the op over (N, X, C) between two transposes. Transposes move behind the ops that follow,
until two of them cancel. What remains are transposes at the ends of the model; most are views without a copy.
"""

from __future__ import annotations

import numpy as np

from ...ir.op import LogicalTensor, Op
from ...opset.editions.registry import BASE
from ...opset.kinds import (
    ARITHMETIC,
    ELEMENTWISE,
    GRADIENTS,
    HOST_UNARY,
    REDUCTIONS,
    UNARY,
    in_category,
    with_attribute,
)
from ...opset.shapes import known, known_dims
from ..emitter import Emitter, Value, integers, numbers
from ..layout import Order, inverse, moved
from ..movement import reshape, transpose
from .table import again, contents, ends_of, made, operand_of, rewrites

# Ops over images, whose channels lie where data_format says, with one result. Their first inputs are images.
IMAGES = with_attribute("data_format") - in_category("binary") - {"GroupNorm"}
WINDOWS = frozenset(kind for kind in IMAGES if len(BASE[kind].outputs) == 1)


@rewrites(*WINDOWS, early=True, of_known_dims=True)
def channels_last(emit: Emitter, op: Op) -> Value | None:
    """Run an op over (N, C, X) as the op over (N, X, C)."""
    count = sum(port.name in ("src", "diff_dst") for port in BASE[op.kind].inputs)
    images = [input_ for input_ in op.inputs[:count] if input_ is not None]
    rank = sum(len(known_dims(image.shape)) for image in images[:1])
    if op.attrs.get("data_format") != "NCX" or rank < 3:
        return None
    order = (0, *range(2, rank), 1)
    attrs: dict[str, object] = {"data_format": "NXC"}
    for name in ("dst_shape", "src_shape"):
        if name in op.attrs:
            shape = integers(op, name)
            attrs[name] = [shape[axis] for axis in order]
    inner = again(emit, op, [*(_codes_first(emit, image, order) for image in images), *op.inputs[count:]], **attrs)
    return inner if op.kind.endswith("Weights") else transpose(emit, inner, inverse(order))


def _codes_first(emit: Emitter, value: LogicalTensor, order: Order) -> Value:
    """The transpose of a tensor: of the codes that a Dequantize reads, which a product takes in.

    In front of a Quantize too, if that reads an input.
    """
    chain, src = list[Op](), value
    while (op := made(emit, src, "Dequantize", "Quantize")) is not None:
        if op.attrs.get("qtype", "per_tensor") != "per_tensor":
            break
        chain.append(op)
        src = operand_of(op)
    if emit.maker(src) is not None:
        chain = [op for op in chain[:1] if op.kind == "Dequantize"]
        src = operand_of(chain[0]) if chain else value
    transposed = transpose(emit, src, order)
    for op in reversed(chain):
        transposed = again(emit, op, [transposed])
    return transposed


@rewrites(*UNARY, *HOST_UNARY, early=True, of_known_dims=True)
@rewrites("TypeCast", of_known_dims=True)
def behind_unary(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind an op on single elements."""
    inner = moved(emit, op.inputs[0])
    return None if inner is None else transpose(emit, again(emit, op, [inner[0]]), inner[1])


@rewrites("Dequantize", early=True, of_known_dims=True)
@rewrites("Quantize", of_known_dims=True)
def behind_quantize(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Quantize or Dequantize, unless it transposes an input of the model."""
    inner = moved(emit, op.inputs[0])
    if inner is None or emit.maker(inner[0]) is None:
        return None
    attrs: dict[str, object] = {}
    if op.attrs.get("qtype") == "per_channel":
        axis = int(str(op.attrs.get("axis", 1)))
        if not -len(inner[1]) <= axis < len(inner[1]):
            return None
        attrs["axis"] = inner[1][axis]
    return transpose(emit, again(emit, op, [inner[0]], **attrs), inner[1])


@rewrites("PReLU", of_known_dims=True)
def behind_prelu(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a PReLU whose slopes need no copy: with channels last, the library has a fast kernel."""
    inner = moved(emit, op.inputs[0])
    if inner is None or op.attrs.get("per_channel_broadcast"):
        return None
    slope = _untransposed(emit, operand_of(op, 1), inner[1])
    return None if slope is None else transpose(emit, again(emit, op, [inner[0], slope]), inner[1])


@rewrites(*ARITHMETIC, *(ELEMENTWISE & GRADIENTS), of_known_dims=True)
def behind_binary(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind an op on two tensors, if both are transposed in the same way or one needs no copy."""
    order = next((moved_input[1] for input_ in op.inputs if (moved_input := moved(emit, input_))), None)
    if order is None:
        return None
    inner = [_untransposed(emit, end, order) for end in ends_of(op)]
    return None if any(operand is None for operand in inner) else transpose(emit, again(emit, op, inner), order)


def _untransposed(emit: Emitter, value: LogicalTensor, order: Order) -> Value | None:
    """What a transpose with this order makes the value of; None if that needs a copy."""
    if value.shape is None:
        return None
    inner = moved(emit, value)
    if inner is not None and inner[1] == order:
        return inner[0]
    if len(value.shape) > len(order) or not known(value.shape):
        return None
    if not value.shape:
        return value
    op = made(emit, value, *ARITHMETIC)
    if op is not None and all(map(_is_constant_or_one, ends_of(op))):
        return again(emit, op, [_untransposed(emit, end, order) for end in ends_of(op)])
    full = (1,) * (len(order) - len(value.shape)) + value.shape
    if value.value is not None:
        return np.ascontiguousarray(value.value.reshape(full).transpose(inverse(order)))
    back = inverse(order)
    wide = [axis for axis in back if full[axis] != 1]
    return reshape(emit, value, [full[axis] for axis in back]) if wide == sorted(wide) else None


def _is_constant_or_one(value: LogicalTensor) -> bool:
    """Whether a tensor is known or has one element without axes, so that transposing what it makes moves nothing."""
    return value.value is not None or value.shape == ()


@rewrites("Concat", early=True, of_known_dims=True)
def behind_concat(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Concat whose inputs are all transposed in the same way."""
    moved_inputs = [
        moved_input for moved_input in (moved(emit, input_) for input_ in op.inputs) if moved_input is not None
    ]
    orders = {order for _, order in moved_inputs}
    if len(moved_inputs) < len(op.inputs) or len(orders) != 1:
        return None
    (order,), axis = orders, int(str(op.attrs["axis"]))
    if not -len(order) <= axis < len(order):
        return None
    return transpose(emit, again(emit, op, [inner for inner, _ in moved_inputs], axis=order[axis]), order)


@rewrites(*REDUCTIONS, of_known_dims=True)
def behind_reduction(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a reduction."""
    moved_input = moved(emit, op.inputs[0])
    if moved_input is None or "axes" not in op.attrs:
        return None
    src, order = moved_input
    if not all(-len(order) <= axis < len(order) for axis in integers(op, "axes")):  # of an unknown rank
        return None
    along = sorted(order[axis] for axis in integers(op, "axes"))
    inner = again(emit, op, [src], axes=along)
    if op.attrs.get("keep_dims"):
        return transpose(emit, inner, order)
    left = [axis for axis in order if axis not in along]
    return transpose(emit, inner, [sorted(left).index(axis) for axis in left])


@rewrites("SoftMax", "LogSoftmax", of_known_dims=True)
def behind_softmax(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a SoftMax, unless it is along the last axis, as its kernel is, and would not be any more."""
    inner = moved(emit, op.inputs[0])
    if inner is None or len(op.outputs) > 1:
        return None
    src, order = inner
    axis_attr = int(str(op.attrs.get("axis", 1)))
    last, axis = len(order) - 1, order[axis_attr]
    if order[last] == axis != last:
        return None
    return transpose(emit, again(emit, op, [src], axis=axis), order)


@rewrites("Slice", of_known_dims=True)
def behind_slice(emit: Emitter, op: Op) -> Value | None:
    """Transpose behind a Slice along known axes."""
    inner = moved(emit, op.inputs[0])
    axes = contents((*op.inputs, None)[3])
    if inner is None or axes is None:
        return None
    along = numbers(*[inner[1][int(axis)] for axis in axes.tolist()])
    return transpose(emit, again(emit, op, [inner[0], *op.inputs[1:3], along, *op.inputs[4:]]), inner[1])
