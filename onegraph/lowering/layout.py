"""Knows the order of axes: what a transpose does to it, and what undoes that."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.op import LogicalTensor
from .emitter import Emitter, Value, integers

Order = tuple[int, ...]


def moved(emit: Emitter, value: Value | None) -> tuple[LogicalTensor, Order] | None:
    """The tensor behind a transpose, and the order of its axes; None if no transpose makes the value."""
    op = emit.maker(value)
    if op is None or op.kind not in ("StaticTranspose", "Transpose") or op.inputs[0] is None:
        return None
    return op.inputs[0], integers(op, "order")


def inverse(order: Sequence[int]) -> Order:
    """The order that undoes a transpose."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
