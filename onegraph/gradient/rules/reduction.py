"""Gradients of the reductions, of the base vocabulary and of the host ops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...errors import UnsupportedError
from ...lowering.elementwise import binary, filled, multiply, select
from ...lowering.emitter import Emitter, Value, dtype_of, numbers
from ...lowering.movement import cast, dims_of, expand, unsqueeze
from ...lowering.reduction import reduce
from ...opset.dtypes import DataType
from ...opset.ops.reduction import reduced_axes
from ...opset.shapes import known
from ..use import GradientUse
from .elementwise import with_sign_of
from .table import gradient_of


def axes_of(use: GradientUse) -> tuple[int, ...]:
    """The axes that the op reduces, counted from 0."""
    axes = reduced_axes(use.call)
    if axes is None:
        raise UnsupportedError(f"gradient: {use.op.kind} {use.op.name!r}: its axes are unknown; expected known axes")
    return axes


def as_kept(emit: Emitter, use: GradientUse, value: Value) -> Value:
    """A value of the shape of dst with size 1 along the axes that the op reduced."""
    return value if use.call.flag("keep_dims") else unsqueeze(emit, value, axes_of(use)) if axes_of(use) else value


def widened(emit: Emitter, use: GradientUse, value: Value) -> Value:
    """A value of the shape of dst in the shape of src."""
    return expand(emit, as_kept(emit, use, value), dims_of(emit, use["src"]))


def divided(emit: Emitter, value: Value, count: int) -> Value:
    """A value divided by a count, in f32 if the data type of the value does not hold the count."""
    number = filled(count, value)
    if float(np.asarray(number)) == count:
        return binary(emit, "Divide", value, number)
    wide = cast(emit, value, DataType.f32)
    return cast(emit, binary(emit, "Divide", wide, filled(count, wide)), dtype_of(value))


def averaged(emit: Emitter, value: Value, src: Value, axes: Sequence[int]) -> Value:
    """A value divided by the number of elements of src along axes."""
    dims = tuple([None if src.shape is None else src.shape[axis] for axis in axes])
    if known(dims):
        return divided(emit, value, max(prod(dims), 1))
    sizes = emit.op("Gather", [dims_of(emit, src), numbers(*axes)], {"axis": 0})
    count = cast(emit, reduce(emit, "ReduceProd", sizes, [0], keep=False), dtype_of(value))
    return binary(emit, "Divide", value, count)


@gradient_of("ReduceSum", "src")
def reduce_sum(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return widened(emit, use, diff)


@gradient_of("ReduceMean", "src")
def reduce_mean(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return widened(emit, use, averaged(emit, diff, use["src"], axes_of(use)))


@gradient_of("ReduceL1", "src")
def reduce_l1(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return with_sign_of(emit, use["src"], widened(emit, use, diff))


@gradient_of("ReduceL2", "src")
def reduce_l2(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    norm = use.result("dst")
    zero = filled(0, norm)
    share = select(emit, binary(emit, "Equal", norm, zero), zero, binary(emit, "Divide", diff, norm))
    return multiply(emit, use["src"], as_kept(emit, use, share))


@gradient_of("ReduceMax, ReduceMin", "src")
def reduce_extreme(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """Equal extremes get equal shares, as in PyTorch's amax."""
    src = use["src"]
    best = binary(emit, "Equal", src, as_kept(emit, use, use.result("dst")))
    indicators = select(emit, best, expand(emit, filled(1, src), dims_of(emit, src)), filled(0, src))
    count = reduce(emit, "ReduceSum", indicators, axes_of(use), keep=True)
    return multiply(emit, indicators, binary(emit, "Divide", as_kept(emit, use, diff), count))


@gradient_of("ReduceProd", "src")
def reduce_prod(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The product of the other elements, which is not a quotient where an element is 0."""
    src, axes = use["src"], axes_of(use)
    zero, unit = filled(0, src), expand(emit, filled(1, src), dims_of(emit, src))
    is_zero = binary(emit, "Equal", src, zero)
    safe = select(emit, is_zero, unit, src)
    product = reduce(emit, "ReduceProd", safe, axes, keep=True)
    zeros = reduce(emit, "ReduceSum", select(emit, is_zero, unit, zero), axes, keep=True)
    no_zero, single = (binary(emit, "Equal", zeros, filled(number, src)) for number in (0, 1))
    cofactors = select(emit, no_zero, binary(emit, "Divide", product, safe), zero)
    lone = multiply(emit, select(emit, is_zero, unit, zero), select(emit, single, product, filled(0, product)))
    return multiply(emit, as_kept(emit, use, diff), binary(emit, "Add", cofactors, lone))
