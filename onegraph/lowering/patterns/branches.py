"""Adds the weights of parallel convolutions instead of their results, as in RepVGG and MobileOne after training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays.mapped_files import give_back
from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from ..emitter import Array, Emitter, Value, integers
from ..layout import Order, moved
from .norms import folded_norm
from .table import again, known_inputs, made, rewrites

F32 = DataType.f32
PLAIN = ("data_format", "weights_format", "groups", "strides")


class Branch(NamedTuple):
    """A linear function of an image: a Convolution, a BatchNormInference, or the second behind the first.

    Attributes:
        src: the image.
        op: the Convolution; None if there is none.
        factor, shift: what the normalization multiplies each channel by and then adds; None without one.
    """

    src: LogicalTensor
    op: Op | None
    factor: Array | None
    shift: Array | None


@rewrites("Add")
def one_convolution(emit: Emitter, op: Op) -> Value | None:
    """The sum of two branches of one image as one Convolution, if the larger window covers the other one."""
    if (
        op.outputs[0].dtype is not F32
        or len({input_.shape for input_ in (*op.inputs, *op.outputs) if input_ is not None}) > 1
    ):
        return None
    branches = [branch_ for input_ in op.inputs if (branch_ := _branch(emit, input_)) is not None]
    if len(branches) < 2 or _image(emit, branches[0]) != _image(emit, branches[1]):
        return None
    small, large = sorted(branches, key=lambda branch: 0 if branch.op is None else _weights(branch.op).size)
    if large.op is None or (place := _place(small, large.op)) is None:
        return None
    with np.errstate(all="ignore"):
        weights, bias = _arrays(large)
        weights = np.array(weights)
        extra, shift = (_identity(small, large.op), small.shift) if small.op is None else _arrays(small)
        weights[place] += extra
        shifts = [shift_ for shift_ in (bias, shift) if shift_ is not None]
        total = [np.asarray(np.sum(shifts, axis=0), np.float32)] if shifts else []
    give_back([_weights(branch.op) for branch in branches if branch.op is not None])
    if not all(np.isfinite(array).all() for array in (weights, *total)):
        return None
    return again(emit, large.op, [large.src, weights, *total])


def _branch(emit: Emitter, value: LogicalTensor | None) -> Branch | None:
    norm = made(emit, value, "BatchNormInference")
    inner = value if norm is None else norm.inputs[0]
    op = made(emit, inner, "Convolution")
    if op is not None and (known_inputs(op) is None or op.attrs.get("auto_pad", "none") != "none"):
        op = None
    src = inner if op is None else op.inputs[0]
    if src is None or (norm is None and op is None):
        return None
    if norm is None:
        return Branch(src, op, None, None)
    factors = folded_norm(norm)
    if factors is None or (op is None and norm.attrs.get("data_format", "NXC") != "NXC"):
        return None
    return Branch(src, op, *factors)


def _image(emit: Emitter, branch: Branch) -> tuple[int, Order]:
    """What a branch reads: a tensor by id, in an order of its axes; each branch of an input has its own transpose."""
    inner = moved(emit, branch.src)
    return (branch.src.id, ()) if inner is None else (inner[0].id, inner[1])


def _weights(op: Op) -> Array:
    constants = known_inputs(op)
    assert constants is not None
    return constants[0]


def _is_oix(op: Op) -> bool:
    return op.attrs.get("weights_format", "XIO") == "OIX"


def _window(op: Op) -> tuple[int, ...]:
    shape = _weights(op).shape
    return shape[2:] if _is_oix(op) else shape[:-2]


def _place(small: Branch, op: Op) -> tuple[slice, ...] | None:
    """Where the weights of a branch lie within those of ``op``; None if they see other elements of the image."""
    window, steps = _window(op), integers(op, "dilations")
    inner, starts, dilations = (1,) * len(window), (0,) * len(window), steps
    if small.op is None:
        if set(integers(op, "strides")) != {1} or op.attrs.get("data_format", "NXC") != "NXC":
            return None
    else:
        if any(small.op.attrs.get(name) != op.attrs.get(name) for name in PLAIN):
            return None
        inner, starts = _window(small.op), integers(small.op, "pads_begin")
        dilations = integers(small.op, "dilations")
    slices = []
    for size, most, start, end, step, own in zip(
        inner, window, starts, integers(op, "pads_begin"), steps, dilations, strict=True
    ):
        first, remainder = divmod(end - start, step)
        if remainder or first < 0 or first + size > most or (size > 1 and own != step):
            return None
        slices.append(slice(first, first + size))
    all_channels = (slice(None), slice(None))
    return (*all_channels, *slices) if _is_oix(op) else (*slices, *all_channels)


def _arrays(branch: Branch) -> tuple[Array, Array | None]:
    """The weights and the bias of a Convolution that takes in the normalization behind it."""
    assert branch.op is not None
    constants = known_inputs(branch.op)
    assert constants is not None
    weights, bias = constants[0], constants[1] if len(constants) > 1 else None
    if branch.factor is None or branch.shift is None:
        return weights, bias
    channels = (-1, *(1,) * (weights.ndim - 1)) if _is_oix(branch.op) else (-1,)
    shift = branch.shift if bias is None else branch.shift + bias * branch.factor
    return (weights * branch.factor.reshape(channels)).astype(np.float32), shift


def _identity(branch: Branch, op: Op) -> Array:
    """Weights of a window of one element that multiply each channel by its factor."""
    assert branch.factor is not None
    weights = _weights(op)
    outputs, inputs = weights.shape[:2] if _is_oix(op) else weights.shape[:-3:-1]
    identity = np.zeros((outputs, inputs), np.float32)
    channels = np.arange(outputs)
    identity[channels, channels % inputs] = branch.factor
    around = (1,) * (weights.ndim - 2)
    return identity.reshape(*identity.shape, *around) if _is_oix(op) else identity.T.reshape(*around, *identity.T.shape)
