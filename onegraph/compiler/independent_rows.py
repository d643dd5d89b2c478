"""Finds how a partition can be divided along the first axis into parts that are computed independently.

The rows of an op, at the indices of its first axis, are independent if it computes each from the same row of some
inputs, and from inputs that all rows share, such as weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import gcd
from typing import NamedTuple

from ..opset import kinds
from ..opset.traits import Trait
from .ir.step import Step
from .ir.value import Value

Values = Mapping[int, Value]
# The ports of a step that have rows; None if its rows are not independent.
Ports = Sequence[int] | None


class RowParts(NamedTuple):
    """How a partition is divided.

    Attributes:
        values: the values that are divided along their first axis; all parts share the others.
        number: of parts.
    """

    values: Set[int]
    number: int


def _source(step: Step, values: Values) -> Ports:
    return (0,)


def _every(step: Step, values: Values) -> Ports:
    """The inputs with the rank and the number of rows of the result; the others are broadcast."""
    shape = values[step.outputs[0]].shape
    ends = [values[number] for number in step.inputs]
    return [p for p, value in enumerate(ends) if len(value.shape) == len(shape) and value.shape[:1] == shape[:1]]


def _off_axis(name: str, default: int) -> Callable[[Step, Values], Ports]:
    """For ops along the axis in an attribute."""

    def ports(step: Step, values: Values) -> Ports:
        axis = step.attrs.get(name, default)
        assert isinstance(axis, int)
        return (0,) if axis % len(values[step.inputs[0]].shape) else None

    return ports


def _unreduced(step: Step, values: Values) -> Ports:
    axes, rank = step.attrs.get("axes"), len(values[step.inputs[0]].shape)
    return (0,) if isinstance(axes, tuple) and all(int(axis) % rank for axis in axes) else None


def _matmul(step: Step, values: Values) -> Ports:
    """Matrices in front of the last two axes, or the rows of one matrix."""
    left, right, result = (values[number].shape for number in (*step.inputs[:2], step.outputs[0]))
    if len(result) > 2:
        return [port for port, shape in ((0, left), (1, right)) if len(shape) == len(result) and shape[0] == result[0]]
    return (0,) if len(left) == len(right) == 2 and not step.attrs.get("transpose_a") else None


def _quantized(step: Step, values: Values) -> Ports:
    if step.attrs.get("qtype", "per_tensor") == "per_tensor":
        return (0,)
    return _off_axis("axis", 1)(step, values)


def _transposed(step: Step, values: Values) -> Ports:
    order = step.attrs.get("order")
    assert isinstance(order, tuple)
    return None if any(int(axis) % len(order) for axis in order[:1]) else (0,)


BY_KIND: dict[str, Callable[[Step, Values], Ports]] = {
    **dict.fromkeys(kinds.base_kinds(Trait.POINTWISE) | {"PReLU"}, _every),
    **dict.fromkeys(kinds.base_kinds(Trait.BY_ROW), _source),
    **dict.fromkeys(kinds.REDUCTIONS, _unreduced),
    **dict.fromkeys(["SoftMax", "LogSoftmax"], _off_axis("axis", 1)),
    **dict.fromkeys(["Quantize", "Dequantize"], _quantized),
    "LayerNorm": _off_axis("begin_norm_axis", -1),
    "MatMul": _matmul,
    "StaticReshape": _source,  # a dense tensor in other shape, with a number of rows that is a multiple of the parts
    "StaticTranspose": _transposed,
}


def independent_parts(steps: Sequence[Step], values: Values) -> RowParts | None:
    """The largest number of independent parts of a partition; None if its rows depend on each other.

    Args:
        steps: of the partition.
        values: the values of the program.
    """
    by_row, shared = set[int](), set[int]()
    for step in steps:
        if all(values[number].constant is not None or number in shared for number in step.inputs):
            shared.update(step.outputs)
            continue
        rule = BY_KIND.get(step.kind)
        ports = None if rule is None else rule(step, values)
        if ports is None:
            return None
        rows = {step.inputs[port] for port in ports}
        operands = set(step.inputs) - rows
        if operands & by_row or any(values[number].constant is not None or number in shared for number in rows):
            return None
        shared |= operands
        by_row |= rows | {*step.outputs}
    counts = [values[number].shape[:1] for number in by_row]
    return RowParts(by_row, gcd(*[count[0] for count in counts]) or 1) if all(counts) else None
