"""Rows times a constant matrix of packed weights, which is read as it is and unpacked in registers.

src is f32, f16 or bf16. The weights are codes of 4 or 8 bits with scales, or f16 or bf16: ``packed_weights`` brings
them into the form of the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import Conditions, Kernel
from .native import Numbers

NOTE = "by onegraph, which reads packed weights and unpacks them in registers"
OF_CHOSEN = "by onegraph: the rows that name a matrix are multiplied together, and no matrix is copied"
IN_CODES = f"{NOTE}; src becomes 8-bit codes, as the model allows"
FEW_ROWS = 4  # of src, beside weights of 16 bits or codes on both sides: the library is faster for more
LEAST_BYTES = 1 << 18  # of such weights: smaller ones stay in a cache near the core


class PackedProduct(NamedTuple):
    """A product that the library computes from such weights too: the rows of src, and the bytes of the weights."""

    rows: int
    nbytes: int


# The conditions under which weights of 16 bits, or codes on both sides, are worth a kernel.
WORTH: Conditions[PackedProduct] = (
    (lambda one: one.rows <= FEW_ROWS, f"the library is faster for more than {FEW_ROWS} rows"),
    (
        lambda one: one.nbytes >= LEAST_BYTES,
        f"weights of less than {LEAST_BYTES:,} bytes stay in a cache near the core",
    ),
)


def _numbers(step: Step) -> Numbers:
    return step.attrs


PACKED_PRODUCT = Kernel("packed_product", executor="packed", numbers=_numbers, fails=OutOfMemoryError)
# Rows times the matrices that they have chosen of several; how many choose one is known to a run alone.
PACKED_EXPERTS = Kernel(
    "packed_experts", executor="packed experts", numbers=_numbers, varies=True, fails=OutOfMemoryError
)
KERNELS = PACKED_PRODUCT, PACKED_EXPERTS
