"""Gradients of the ops that only legacy-1 has."""

from __future__ import annotations

import numpy as np

from ...lowering.elementwise import binary, filled, multiply, negative, select, unary
from ...lowering.emitter import Emitter, Value, rank_of
from ...lowering.movement import transpose
from ..use import Scattered, Use, summed_to
from .arithmetic import DERIVATIVES
from .elementwise import moved, scaled
from .indexing import rows_taken_back
from .table import composed, flat, gradient_of

LEGACY = "legacy-1"

flat("Sign-1", "it is constant between its steps")
flat(
    "Equal-1, NotEqual-1, Greater-1, Less-1, LessEqual-1, LogicalAnd-1, LogicalOr-1, LogicalXor-1, LogicalNot-1",
    "its result is a truth value",
)


@gradient_of("Erf-1", "input")
def erf(emit: Emitter, use: Use, diff: Value) -> Value:
    return multiply(emit, diff, DERIVATIVES["host Erf"](emit, use["input"]))


@gradient_of("Negative-1", "input")
def opposite(emit: Emitter, use: Use, diff: Value) -> Value:
    return negative(emit, diff)


@gradient_of("Rsqrt-1", "input")
def rsqrt(emit: Emitter, use: Use, diff: Value) -> Value:
    """dst / src times -1/2."""
    return scaled(emit, multiply(emit, diff, binary(emit, "Divide", use.result("output"), use["input"])), -0.5)


@gradient_of("Pow-1", "input")
def power(emit: Emitter, use: Use, diff: Value) -> Value:
    return emit.op("PowBackprop", [use["input"], diff, use["exponent"]], edition=LEGACY)


@gradient_of("Pow-1", "exponent")
def exponent(emit: Emitter, use: Use, diff: Value) -> Value:
    inputs = [use["input"], diff, use.result("output"), use["exponent"]]
    return emit.op("PowBackpropExponent", inputs, edition=LEGACY)


@composed("PowBackprop-1")
def power_backprop(emit: Emitter, use: Use) -> Value:
    source, power = use["input_forward"], use["exponent"]
    slope = multiply(emit, power, emit.op("Pow", [source, moved(emit, power, -1)], edition=LEGACY))
    is_flat = binary(emit, "Equal", power, filled(0, power))
    found = multiply(emit, use["output_delta"], select(emit, is_flat, filled(0, slope), slope))
    return summed_to(emit, found, source.shape)


@composed("PowBackpropExponent-1")
def exponent_backprop(emit: Emitter, use: Use) -> Value:
    slope = multiply(emit, use["result_forward"], unary(emit, "Log", use["input_forward"]))
    return summed_to(emit, multiply(emit, use["output_delta"], slope), use["exponent"].shape)


@gradient_of("DynamicTranspose-1", "input")
def transposed(emit: Emitter, use: Use, diff: Value) -> Value:
    order = use.value("order") or (*reversed(range(rank_of(diff) or 0)),)
    return transpose(emit, diff, np.argsort(order).tolist())


@gradient_of("Index-1", "input")
def index(emit: Emitter, use: Use, diff: Value) -> Scattered:
    return rows_taken_back(emit, use["indices"], diff)
