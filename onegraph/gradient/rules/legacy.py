"""Gradients of the ops that only legacy-1 has."""

from __future__ import annotations

import numpy as np

from ...lowering.elementwise import binary, multiply, negative
from ...lowering.emitter import Emitter, Value, known_rank
from ...lowering.movement import transpose
from ..use import GradientUse, Scattered
from .arithmetic import DERIVATIVES
from .elementwise import scaled
from .indexing import rows_taken_back
from .table import flat, gradient_of

LEGACY = "legacy-1"

flat("Sign-1", "it is constant between its steps")
flat(
    "Equal-1, NotEqual-1, Greater-1, Less-1, LessEqual-1, LogicalAnd-1, LogicalOr-1, LogicalXor-1, LogicalNot-1",
    "its result is a truth value",
)


@gradient_of("Erf-1", "input")
def erf(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, DERIVATIVES["host Erf"](emit, use["input"]))


@gradient_of("Negative-1", "input")
def opposite(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return negative(emit, diff)


@gradient_of("Rsqrt-1", "input")
def rsqrt(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """dst / src times -1/2."""
    return scaled(emit, multiply(emit, diff, binary(emit, "Divide", use.result("output"), use["input"])), -0.5)


@gradient_of("Pow-1", "input")
def power(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("PowBackprop", [use["input"], diff, use["exponent"]], edition=LEGACY)


@gradient_of("Pow-1", "exponent")
def exponent(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    inputs = [use["input"], diff, use.result("output"), use["exponent"]]
    return emit.op("PowBackpropExponent", inputs, edition=LEGACY)


@gradient_of("DynamicTranspose-1", "input")
def transposed(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    order = use.value("order") or (*reversed(range(known_rank(diff))),)
    return transpose(emit, diff, np.argsort(order).tolist())


@gradient_of("Index-1", "input")
def index(emit: Emitter, use: GradientUse, diff: Value) -> Scattered:
    return rows_taken_back(emit, use["indices"], diff)
