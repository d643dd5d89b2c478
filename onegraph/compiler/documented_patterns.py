"""Lists the fusion patterns that oneDNN documents, by the op that begins them and the ops that may follow.

Source: "Fusion Patterns" of oneDNN's developer guide. A version of the library may take fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._util.records import record
from ..faults.use import BINARY, ELEMENTWISE, PRODUCTS

TYPES = frozenset(["TypeCast", "Quantize"])
SCALED = frozenset(["Divide", "Multiply", "Add", "Select"])


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


def _pattern(name: str, first: Iterable[str], after: Iterable[str]) -> DocumentedPattern:
    return DocumentedPattern(name, frozenset(first), frozenset(after))


NORMS = ("LayerNorm", "GroupNorm")
POOLS = ("AvgPool", "MaxPool")
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
PATTERNS = (
    _pattern("attention: MatMul, scale, mask, SoftMax, MatMul", ["MatMul"], {*SCALED, "SoftMax", "MatMul", "TypeCast"}),
    _pattern("convolution or MatMul with post-ops", PRODUCTS, ELEMENTWISE | BINARY | TYPES | {"BatchNormInference"}),
    _pattern("normalization with a change of type", NORMS, TYPES),
    _pattern("batch normalization with ReLU", ["BatchNormInference", "BatchNormForwardTraining"], ["ReLU"]),
    _pattern("SoftMax with post-ops", ["SoftMax"], ELEMENTWISE | BINARY | TYPES),
    _pattern("pooling with binary ops", POOLS, BINARY | {"Quantize"}),
    _pattern("reduction with post-ops", REDUCTIONS, ELEMENTWISE | BINARY),
    _pattern("interpolation with post-ops", ["Interpolate"], ELEMENTWISE | BINARY),
    _pattern("elementwise op with binary ops", ELEMENTWISE, BINARY),
    _pattern("binary op with post-ops", BINARY - {"BiasAdd"}, ELEMENTWISE | BINARY),
)
STARTS = frozenset(kind for pattern in PATTERNS for kind in pattern.first) - ELEMENTWISE - BINARY


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
