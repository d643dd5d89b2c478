"""The product of at most four rows and a matrix of f32, and a tensor that is added, which reads the matrix as it lies.

Such a product takes as long as reading the matrix. The library reads memory at two thirds of the speed that two loops
reach, and copies a matrix that is no constant in every run.
"""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ...faults.vectors import SLOW_VECTORS
from ..ir.step import Step
from .kernel import Kernel
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    return {"turned": bool(step.attrs["transpose_b"])}


VECTOR_PRODUCT = Kernel("vector_product", SLOW_VECTORS.reason, "vectors", numbers=_numbers, fails=OutOfMemoryError)
KERNELS = (VECTOR_PRODUCT,)
