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
from .table import again, ends_of, known_inputs, made, operand_of, rewrites

F32 = DataType.f32
PLAIN = ("data_format", "weights_format", "groups", "strides")


class Branch(NamedTuple):
    """A linear function of an image: a Convolution, a BatchNormInference, or the second behind the first.

    Attributes:
        src: the image.
        op: the Convolution; None if there is none.
        norm: what the normalization multiplies each channel by, and what it then adds; None without one.
    """

    src: LogicalTensor
    op: Op | None
    norm: tuple[Array, Array] | None


@rewrites("Add")
def one_convolution(emit: Emitter, op: Op) -> Value | None:
    """The sum of two branches of one image as one Convolution, if the larger window covers the other one."""
    ends = ends_of(op)
    if op.outputs[0].dtype is not F32 or len({end.shape for end in (*ends, *op.outputs)}) > 1:
        return None
    branches = [branch_ for end in ends if (branch_ := _branch(emit, end)) is not None]
    if len(branches) < 2 or _image(emit, branches[0]) != _image(emit, branches[1]):
        return None
    small, large = sorted(branches, key=lambda branch: 0 if branch.op is None else _weights(branch.op).size)
    if large.op is None or (place := _place(small, large.op)) is None:
        return None
    with np.errstate(all="ignore"):
        weights, bias = _arrays(large)
        weights = np.array(weights)
        extra, shift = _identity(small, large.op) if small.op is None else _arrays(small)
        weights[place] += extra
        shifts = [shift_ for shift_ in (bias, shift) if shift_ is not None]
        total = [np.asarray(np.sum(shifts, axis=0), np.float32)] if shifts else []
    give_back([_weights(branch.op) for branch in branches if branch.op is not None])
    if not all(np.isfinite(array).all() for array in (weights, *total)):
        return None
    return again(emit, large.op, [large.src, weights, *total])


def _branch(emit: Emitter, value: LogicalTensor) -> Branch | None:
    norm = made(emit, value, "BatchNormInference")
    inner = value if norm is None else operand_of(norm)
    op = made(emit, inner, "Convolution")
    if op is not None and (known_inputs(op) is None or op.attrs.get("auto_pad", "none") != "none"):
        op = None
    src = inner if op is None else operand_of(op)
    if norm is None:
        return None if op is None else Branch(src, op, None)
    factors = folded_norm(norm)
    # Channels of images of a known rank are last.
    return None if factors is None or src.shape is None else Branch(src, op, factors)


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
        if set(integers(op, "strides")) != {1}:
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
    if branch.norm is None:
        return weights, bias
    factor, shift = branch.norm
    shift = shift if bias is None else shift + bias * factor
    by_output = factor.reshape(factor.size, *[1] * (weights.ndim - 1)) if _is_oix(branch.op) else factor
    return (weights * by_output).astype(np.float32), shift


def _identity(branch: Branch, op: Op) -> tuple[Array, Array]:
    """Weights of a window of one element that multiply each channel by its factor, and what is added."""
    assert branch.norm is not None
    norm = branch.norm
    weights = _weights(op)
    outputs, inputs = weights.shape[:2] if _is_oix(op) else weights.shape[:-3:-1]
    identity = np.zeros((outputs, inputs), np.float32)
    channels = np.arange(outputs)
    identity[channels, channels % inputs] = norm[0]
    around = (1,) * (weights.ndim - 2)
    shape = (*identity.shape, *around) if _is_oix(op) else (*around, *identity.T.shape)
    return (identity if _is_oix(op) else identity.T).reshape(shape), norm[1]
