"""Has the gradient of every op, in one module for each category of ops, as in :mod:`onegraph.opset`."""

from . import (
    arithmetic,
    binary,
    convolution,
    elementwise,
    indexing,
    interpolation,
    legacy,
    matmul,
    misc,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
)
from .table import COMPOSED, FLAT, REFUSED, RULES, Rule, described, refusal, rules_of

__all__ = [
    "COMPOSED",
    "FLAT",
    "REFUSED",
    "RULES",
    "Rule",
    "arithmetic",
    "binary",
    "convolution",
    "described",
    "elementwise",
    "indexing",
    "interpolation",
    "legacy",
    "matmul",
    "misc",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "refusal",
    "rules_of",
]
