"""Computes a formula for each element by itself, in blocks that fit the processor's caches.

Large tensors then need no memory for intermediate results, which are in float64. Fresh memory costs more time than the
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .._util.records import record

Array = NDArray[np.generic]
BLOCK = 1 << 13  # elements


@record(frozen=True, eq=False)
class ByElement:
    """A result that is not computed yet.

    Attributes:
        formula: takes a block of each operand, in the wide data types of :func:`widened`.
        operands: arrays that broadcast against each other.
    """

    formula: Callable[..., Array]
    operands: tuple[Array, ...]

    def compute(self, dtype: np.dtype[np.generic], rounded: Callable[[Array], Array]) -> Array:
        """The result in a data type; ``rounded`` converts a block of the formula's results to it."""
        result = np.empty(np.broadcast_shapes(*[operand.shape for operand in self.operands]), dtype)
        flat, start = result.reshape(-1), 0
        blocks = np.nditer(
            self.operands,
            ["external_loop", "buffered", "zerosize_ok"],
            [["readonly"]] * len(self.operands),
            [widened(operand.dtype) for operand in self.operands],
            order="C",
            casting="unsafe",
            buffersize=BLOCK,
        )
        with np.errstate(all="ignore"), blocks:
            for operands in blocks:
                block = rounded(self.formula(*operands) if len(self.operands) > 1 else self.formula(operands))
                flat[start : start + block.size] = block
                start += block.size
        return result


def widened(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The data type in which numpy computes on a data type: 64 bits wide, or bool."""
    if dtype == np.bool_:
        return dtype
    is_integer = dtype.kind in "iu" or dtype in (ml_dtypes.int4, ml_dtypes.uint4)
    return np.dtype(np.int64 if is_integer else np.float64)
