"""Finds the documented fusion pattern that ops are nearest to, by the op that begins it and the ops that may follow.

The patterns are those of :mod:`onegraph.opset.fusion_patterns`, and two that its chains of ops do not express. The
pages begin with 3.9, so an older library takes fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._util.records import record
from ..opset import fusion_patterns
from ..opset.kinds import ELEMENTWISE


@record(frozen=True)
class DocumentedPattern:
    """One pattern.

    Attributes:
        name: what it is called in texts.
        first: the kinds of ops that begin it.
        after: the kinds of ops that may follow.
    """

    name: str
    first: frozenset[str]
    after: frozenset[str]


def _of_page(pattern: fusion_patterns.FusionPattern) -> DocumentedPattern:
    after = frozenset(kind for stage in pattern.stages for kind in stage.kinds)
    return DocumentedPattern(pattern.name.replace("_", " "), frozenset(pattern.heads), after)


ATTENTION = DocumentedPattern(
    "attention: MatMul, scale, mask, SoftMax, MatMul",
    frozenset(["MatMul"]),
    frozenset(["Divide", "Multiply", "Add", "Select", "SoftMax", "MatMul", "TypeCast"]),
)
TRAINING = DocumentedPattern(
    "batch normalization of training with ReLU", frozenset(["BatchNormForwardTraining"]), frozenset(["ReLU"])
)
PATTERNS = (ATTENTION, *map(_of_page, fusion_patterns.PATTERNS), TRAINING)
# The ops that carry a partition: a fusion has one of them at most.
STARTS = frozenset(kind for pattern in PATTERNS for kind in pattern.first) - ELEMENTWISE - {*fusion_patterns.BINARY}


def nearest_pattern(kinds: Iterable[str]) -> DocumentedPattern | None:
    """The pattern that begins with the op that carries a partition, and takes the most of the ops behind it."""
    listed = [*kinds]
    start = next((kind for kind in listed if kind in STARTS), listed[0] if listed else "")
    rest = listed[listed.index(start) + 1 :] if listed else []
    fitting = [pattern for pattern in PATTERNS if start in pattern.first]
    return max(fitting, key=lambda pattern: _taken(pattern, rest), default=None)


def _taken(pattern: DocumentedPattern, kinds: list[str]) -> int:
    """How many of the ops, one behind the other, a pattern takes."""
    return next((place for place, kind in enumerate(kinds) if kind not in pattern.after), len(kinds))
