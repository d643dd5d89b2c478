"""Finds the values of an int8 model that are finite whatever its inputs are, from the sizes of codes and weights.

The numbers that 8-bit codes stand for are bounded, and so are sums of their products. Without such codes nothing is
known: an input of floating-point numbers may be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, prod
from types import MappingProxyType

import numpy as np

from ..._util.open_numbers import has_open_numbers
from ..._util.open_sizes import is_open
from ...opset.dtypes import DataType
from ...opset.kinds import PRODUCTS, base_kinds
from ...opset.traits import Trait
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Value

LARGEST = 1e37  # far from the largest f32 and bf16, so that no sum on the way overflows
CODES = 256.0  # of 8 bits
MOST_ELEMENTS = 2.0**48  # of a tensor whose size is open
Bounds = Sequence[float]
Rule = Callable[[Step, Bounds, Sequence[Value]], float]
# A result of f16 overflows long before.
WIDE = frozenset([DataType.f32, DataType.bf16])
NOTHING: Mapping[int, float] = MappingProxyType({})


def _dequantize(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    scales, zeros = (_largest(step.attrs.get(name)) for name in ("scales", "zps"))
    return (CODES + zeros) * scales


def _largest(listed: object) -> float:
    return max([abs(float(number)) for number in listed], default=0.0) if isinstance(listed, tuple) else 0.0


def _product(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    """A sum of products, of as many as the weights have elements at most, and a bias."""
    count = MOST_ELEMENTS if is_open(ends[1].shape) else prod(ends[1].shape)
    return bounds[0] * bounds[1] * count + sum(bounds[2:])


def _same(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    return max(bounds)


def _clamped(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    return _largest((step.attrs.get("min"), step.attrs.get("max")))


def _sum(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    return sum(bounds)


def _at_most_one(step: Step, bounds: Bounds, ends: Sequence[Value]) -> float:
    return 1.0


RULES: Mapping[str, Rule] = {
    "Dequantize": _dequantize,
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(["Add", "Subtract"], _sum),
    "BiasAdd": _sum,
    "SquaredDifference": lambda step, bounds, ends: sum(bounds) ** 2,
    "Multiply": lambda step, bounds, ends: prod(bounds),
    "Clamp": _clamped,
    **dict.fromkeys(base_kinds(Trait.BOUNDED), _same),
    **dict.fromkeys(base_kinds(Trait.UNIT_BOUNDED), _at_most_one),
}


def finite_values(lowered: Lowered, known: Mapping[int, float] = NOTHING) -> frozenset[int]:
    """The values that a graph computes from 8-bit codes, and that are finite for all contents of its inputs.

    Args:
        lowered: the graph.
        known: bounds of the magnitude of some inputs, for contents that keep to them.
    """
    if not known and not any(step.kind == "Dequantize" for step in lowered.steps):
        return frozenset()
    values, bounds = lowered.values, dict(known)
    for step in lowered.steps:
        rule = RULES.get(step.kind)
        if rule is None or step.executor not in ("library", "copy", "view") or len(step.outputs) != 1:
            continue
        ends = [values[number] for number in step.inputs]
        input_bounds = [_bound(value, bounds) for value in ends]
        if values[step.outputs[0]].dtype not in WIDE or not all(map(isfinite, input_bounds)):
            continue
        bound = rule(step, input_bounds, ends)
        if bound < LARGEST:
            bounds[step.outputs[0]] = bound
    return frozenset([*bounds, *[number for number, value in values.items() if _is_small(value)]])


def _bound(value: Value, bounds: Mapping[int, float]) -> float:
    """A number that no element exceeds; infinity or NaN if there is none."""
    if value.dtype in (DataType.s8, DataType.u8):
        return CODES
    bound = bounds.get(value.id)
    if has_open_numbers(value.constant):
        return MOST_ELEMENTS
    if bound is None and value.constant is not None and value.dtype in WIDE:
        bound = float(np.abs(value.constant.astype(np.float32)).max(initial=0))
    return float("inf") if bound is None else bound


def _is_small(value: Value) -> bool:
    """Whether a constant is a number or a few, such as a bias, and finite."""
    constant = value.constant
    return has_open_numbers(constant) or (
        constant is not None and constant.size <= 1 << 16 and bool(np.isfinite(constant.astype(np.float64)).all())
    )
