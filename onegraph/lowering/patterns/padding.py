"""Recognizes known numbers around an image that a convolution or a pool adds itself, without a larger copy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...ir.op import LogicalTensor, Op
from ...opset.shapes import known, known_dims
from ..emitter import Array, Emitter, Value, integers, rank_of
from ..movement import transpose
from .table import again, contents, made, operand_of, rewrites

# What each op takes for the elements of its padding.
OUTSIDE = {"Convolution": 0.0, "MaxPool": -math.inf}
PADS = ("pads_begin", "pads_end")


class Padded(NamedTuple):
    """An image, and the numbers of elements that were added before and after each axis, (2, axes)."""

    image: Value
    added: Array


@rewrites(*OUTSIDE, early=True)
def own_padding(emit: Emitter, op: Op) -> Value | None:
    """An op on a larger image as the op on the image, with this padding."""
    src = op.inputs[0]
    if src is None or str(op.attrs.get("auto_pad", "none")).lower() != "none":
        return None
    padding, window = _padded(emit, src, OUTSIDE[op.kind]), _window(op)
    if padding is None or window is None:
        return None
    spatial = padding.added[:, 1:-1] if op.attrs.get("data_format", "NXC") == "NXC" else padding.added[:, 2:]
    pads = spatial + [integers(op, name) for name in PADS]
    # A window on padding alone needs more than the kernels of the library have.
    if spatial.sum() != padding.added.sum() or (pads >= window).any():
        return None
    begin, end = pads.tolist()
    return again(emit, op, [padding.image, *op.inputs[1:]], pads_begin=begin, pads_end=end)


def _window(op: Op) -> Array | None:
    """How many elements a window reaches along each spatial axis; None if that is unknown."""
    if op.kind == "MaxPool":
        sizes = integers(op, "kernel")
    else:
        shape = None if op.inputs[1] is None else op.inputs[1].shape
        if not known(shape):
            return None
        sizes = shape[2:] if op.attrs.get("weights_format", "XIO") == "OIX" else shape[:-2]
    dilations = integers(op, "dilations") if "dilations" in op.attrs else (1,) * len(sizes)
    return (np.array(sizes) - 1) * dilations + 1


def _padded(emit: Emitter, value: LogicalTensor, outside: float) -> Padded | None:
    """The image that a larger one was made of by adding ``outside``; None for other tensors."""
    op = made(emit, value, "StaticTranspose", "Concat", "Pad")
    if op is None:
        return None
    if op.kind == "StaticTranspose":
        order, outer = integers(op, "order"), _padded(emit, operand_of(op), outside)
        return None if outer is None else Padded(transpose(emit, outer.image, order), outer.added[:, [*order]])
    step = _joined(op, outside) if op.kind == "Concat" else _extended(op, outside)
    if step is None:
        return None
    before = _padded(emit, emit.tensor(step.image), outside)
    return step if before is None else Padded(before.image, before.added + step.added)


def _joined(op: Op, outside: float) -> Padded | None:
    """The only unknown tensor of a Concat whose other tensors are nothing but ``outside``."""
    constants = [contents(input_) for input_ in op.inputs]
    places = [place for place, constant in enumerate(constants) if constant is None]
    if len(places) != 1 or any(constant is not None and not (constant == outside).all() for constant in constants):
        return None
    (place,) = places
    image = operand_of(op, place)
    rank = rank_of(image)
    if rank is None:
        return None
    added, axis = np.zeros((2, rank), np.int64), int(str(op.attrs["axis"])) % rank
    sizes = [known_dims(operand_of(op, number).shape)[axis] for number in range(len(constants))]
    added[:, axis] = sum(sizes[:place]), sum(sizes[place + 1 :])
    return Padded(image, added)


def _extended(op: Op, outside: float) -> Padded | None:
    """The tensor that a Pad adds nothing but ``outside`` to."""
    pads = contents(op.inputs[1])
    number = contents(op.inputs[2]) if len(op.inputs) > 2 else np.zeros(1)
    is_constant = op.attrs.get("mode", "constant") == "constant"
    if pads is None or number is None or not is_constant or pads.min() < 0:
        return None
    return Padded(operand_of(op), pads.reshape(2, -1)) if (number == outside).all() else None
