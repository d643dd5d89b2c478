"""Lists valid uses of every op of the base vocabulary: every row of every type table, and the relevant variants.

There is one module for each category of the specification. The tests compare every case with the numpy reference, and
``onegraph conformance`` makes its probes from the cases. The arrays are the same in every process.
"""

from __future__ import annotations

from . import (
    binary,
    convolution,
    elementwise,
    interpolation,
    matmul,
    misc,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
)
from .case import Case

__all__ = ["CASES", "Case"]

_FAMILIES = (
    elementwise.cases,
    binary.cases,
    matmul.cases,
    reduction.cases,
    convolution.cases,
    pooling.cases,
    normalization.cases,
    quantization.cases,
    movement.cases,
    interpolation.cases,
    misc.cases,
)
CASES: list[Case] = [case for family in _FAMILIES for case in family()]
