"""Adds the ops of ``left // right``, as numpy computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST
from .operators import EXACT

HALVES = (DataType.bf16, DataType.f16)


def add_floor_of_quotient(op: Callable[..., Any], left: LogicalTensor, right: LogicalTensor) -> LogicalTensor:
    """Add the ops of a quotient that is rounded down.

    It is computed from the exact remainder, because a quotient may be rounded up to the next integer: in f32,
    ``1 / 0.1`` is 10, and ``1 // 0.1`` is 9. That of integers by 0 is 0.

    Args:
        op: the method of the graph that adds an op.
        left, right: tensors of that graph.
    """

    def add(kind: str, *inputs: Any, **attrs: object) -> Any:
        return op(kind, list(inputs), attrs, edition=HOST)

    if left.dtype in HALVES and right.dtype is left.dtype:
        wide = [op("Cast", [one], dtype=DataType.f32, edition=HOST) for one in (left, right)]
        whole = op("Cast", [add_floor_of_quotient(op, *wide)], dtype=left.dtype, edition=HOST)
        return cast("LogicalTensor", whole)
    cut, is_exact = add("Mod", left, right, truncate=True), left.dtype in EXACT  # Divide cuts the fraction of those off
    whole = quotient = add("Divide", left, right)
    if not is_exact:
        whole = add("Round", add("Divide", add("Subtract", left, cut), right))
    if left.dtype.numpy.kind != "u":
        whole = add("Where", add("Equal", add("Mod", left, right), cut), whole, add("Subtract", whole, 1))
    if not is_exact:  # a zero has the sign of the quotient
        whole = add("Where", add("Equal", whole, 0), add("Multiply", quotient, 0), whole)
    if right.value is None or not right.value.all():
        whole = add("Where", add("Equal", right, 0), 0 if is_exact else quotient, whole)
    return cast("LogicalTensor", whole)
