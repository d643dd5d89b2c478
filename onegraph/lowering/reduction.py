"""Lowers reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes

from .elementwise import binary, clamp, filled, multiply, unary
from .emitter import Emitter, Value, dtype_of, known_rank
from .movement import NATIVE


def reduce(emit: Emitter, kind: str, src: Value, axes: Sequence[int] | None, keep: bool) -> Value:
    """A reduction over axes; None stands for all."""
    along = [*range(known_rank(src))] if axes is None else [*axes]
    if not along:
        return src if kind not in ("ReduceL1", "ReduceL2") else unary(emit, "Abs", src)
    if kind in ("ReduceL1", "ReduceL2") and dtype_of(src) not in NATIVE:
        powers = unary(emit, "Abs", src) if kind == "ReduceL1" else multiply(emit, src, src)
        total = reduce(emit, "ReduceSum", powers, along, keep)
        return total if kind == "ReduceL1" else unary(emit, "Sqrt", total)
    return emit.op(kind, [src], {"axes": along, "keep_dims": keep})


def log_sum_exp(emit: Emitter, src: Value, axes: Sequence[int] | None, keep: bool) -> Value:
    """log(sum(exp(src))), computed so that no exponential overflows. It is infinite where the largest element is."""
    limits: Any = ml_dtypes.finfo(dtype_of(src).numpy)  # type: ignore[no-untyped-call]
    largest = float(limits.max)  # the difference of two infinities would be NaN

    def most_of(keep: bool) -> Value:
        most = reduce(emit, "ReduceMax", src, axes, keep)
        return clamp(emit, most, filled(-largest, most), filled(largest, most))

    most = most_of(keep=True)
    total = reduce(emit, "ReduceSum", unary(emit, "Exp", binary(emit, "Subtract", src, most)), axes, keep=keep)
    most = most if keep else most_of(keep=False)
    return binary(emit, "Add", unary(emit, "Log", total), most)
