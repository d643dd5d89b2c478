"""Rewrites binary ops with operands for which the library has a reference kernel only.

The library is fast if it broadcasts the second operand, and if that varies along at most two groups of neighbouring
axes.
"""

from __future__ import annotations

import math

import numpy as np

from ...faults.operands import steps_to_fast
from ...faults.performance import SLOW_BIAS, SLOW_SLOPE
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.kinds import base_kinds
from ...opset.ops.binary import slope_target
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims
from ...opset.traits import Trait
from ..ir.part import Source
from ..ir.value import Dims
from .form import Form, FormBuilder, result_types, scalar

# Ops whose operands the library exchanges by itself.
EXCHANGED = frozenset(["Add", "Multiply"])
SYMMETRIC = base_kinds(Trait.COMMUTATIVE) - EXCHANGED
# For fewer elements, the reference kernel is as fast as any rewrite.
MIN_ELEMENTS = 256
# For more elements, a constant of ones in the shape of the result takes too much memory.
MAX_ONES = 2**24
MIN_SLOPED = 2048  # elements, likewise, of a PReLU


def binary(call: Call) -> Form | None:
    """Exchange the operands, or negate one, unless the first operand has the shape of the result.

    Where neither has it, a kernel of the package computes the op.
    """
    parts, kind = FormBuilder(call), call.schema.kind
    (result,) = result_types(call)
    shape = known_dims(result.shape)
    first, second = (parts.shape(index) == shape for index in (0, 1))
    alike = parts.type(0).dtype is parts.type(1).dtype is result.dtype
    if not alike or math.prod(shape) < MIN_ELEMENTS or not (first or second):
        return None
    note = "the first operand is broadcast, for which the library has a reference kernel only"
    ends = [_widened(parts, index, shape) for index in (0, 1)]
    if first or kind in EXCHANGED:
        if ends == [0, 1]:
            return None
        widened = "an operand along every other axis has a reference kernel only, unless it is widened"
        return parts.form(parts.add(kind, *(ends if first else reversed(ends))), note=widened)
    if kind in SYMMETRIC:
        form_result = parts.add(kind, 1, ends[0])
    elif kind == "Subtract":
        minus = np.full((1,) * len(shape), -1, _numpy(parts, 1))
        form_result = parts.add("Add", parts.add("Multiply", 1, minus), ends[0])
    else:
        form_result = divide(parts, ends[0], 1)
    return parts.form(form_result, note=note)


def _widened(parts: FormBuilder, operand: int, result: Dims) -> Source:
    """The operand, broadcast in fast steps until it is fast to broadcast it to the result."""
    wide: Source = operand
    shapes = steps_to_fast(result, parts.shape(operand))
    for shape in shapes if shapes and math.prod(shapes[-1]) <= MAX_ONES else ():
        wide = _times(parts, np.ones(shape, _numpy(parts, operand)), wide)
    return wide


def matmul_bias(call: Call) -> Form | None:
    """MatMul and Add in place of a bias that is no vector along the columns."""
    if call.input("bias") is None or not SLOW_BIAS.affects(VERSION) or not SLOW_BIAS.when(call):
        return None
    parts, (result,) = FormBuilder(call), result_types(call)
    attrs = {name: value for name, value in call.given.items() if name != "accumulation_mode"}
    src, weights, bias = parts.wide()
    product = parts.add("MatMul", src, weights, outputs=(TensorType(DataType.f32, result.shape),), **attrs)
    return parts.form(parts.add("Add", product, bias), note=f"MatMul and Add: {SLOW_BIAS.told}")


def divide(parts: FormBuilder, dividend: Source, divisor: Source) -> int:
    """Add a division with the dividend broadcast to the shape of the divisor; returns the number of the result.

    A constant dividend has one element.
    """
    if isinstance(dividend, np.ndarray):
        # A NaN in the divisor gives NaN after the division in any case.
        number = float(dividend.item())
        return parts.add("Divide", parts.add("Clamp", divisor, min=number, max=number), divisor)
    unit = parts.add("Clamp", divisor, min=1.0, max=1.0)
    return parts.add("Divide", _times(parts, unit, dividend), divisor)


def _times(parts: FormBuilder, unit: Source, factor: Source) -> int:
    """Add a multiplication that broadcasts the factor to the shape of the ones."""
    shape, dtype = parts.shape(unit), parts.type(factor).dtype
    return parts.add("Multiply", unit, factor, outputs=(TensorType(dtype, shape),))


def _numpy(parts: FormBuilder, source: Source) -> np.dtype[np.generic]:
    dtype = parts.type(source).dtype
    assert dtype is not None
    return dtype.numpy


def two_sided(call: Call) -> Form | None:
    """PReLU as max(x, 0) + slope * min(x, 0), where the library has a reference kernel."""
    shape = known_dims(call.shape("src"))
    if not (SLOW_SLOPE.affects(VERSION) and SLOW_SLOPE.when(call)) or math.prod(shape) < MIN_SLOPED:
        return None
    parts = FormBuilder(call)
    dtype = parts.type(0).dtype
    assert dtype is not None
    slope = parts.reshape(1, known_dims(slope_target(call, call.shape("slope"), shape)))
    zero = scalar(0, len(shape)).astype(dtype.numpy)
    # Of the two sides one is 0, so that the sum rounds nothing.
    below = parts.add("Multiply", parts.add("Minimum", 0, zero), slope)
    return parts.form(parts.add("Add", below, parts.add("ReLU", 0)), note=SLOW_SLOPE.told)
