"""The table of rules that an emitter asks before it adds an op.

A rule sees the op that would be added and returns a result that costs less, or None. The ops that its result makes
needless are dropped when the graph is complete, because nothing reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ...ir.op import LogicalTensor, Op
from .emitter import Array, Emitter, Value

Attrs = Mapping[str, object]
Rule = Callable[[Emitter, str, Sequence[Value | None], Attrs], Value | None]
RULES: dict[str, list[Rule]] = {}
Kept = TypeVar("Kept", bound=Rule)


def before(*kinds: str) -> Callable[[Kept], Kept]:
    """Enter a rule into the table for ops of these kinds; the rules of a kind are asked in the order of entry."""

    def enter(rule: Kept) -> Kept:
        for kind in kinds:
            RULES.setdefault(kind, []).append(rule)
        return rule

    return enter


def known(value: Value | None) -> Array | None:
    """The contents of a value that is known, else None."""
    return value.value if isinstance(value, LogicalTensor) else value


def number(value: Value | None) -> float | None:
    """A value that is known and has one element as a number, else None."""
    array = known(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def made_by(emit: Emitter, value: Value | None, *kinds: str) -> Op | None:
    """The op that makes a value, if it is of one of these kinds."""
    op = emit.maker(value) if isinstance(value, LogicalTensor) else None
    return op if op is not None and op.kind in kinds else None


def near(found: float | None, expected: float) -> bool:
    """Whether a number is a constant of a formula, which a model may keep in bf16."""
    return found is not None and bool(np.isclose(found, expected, rtol=4e-3, atol=0))
