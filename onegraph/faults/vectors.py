"""Products in f32 of a few rows and a large matrix, which oneDNN reads at two thirds of the speed of the memory."""

from __future__ import annotations

from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from .fault import SLOW, Faults

MOST_ROWS = 4  # of the kernel of the package
LEAST_BYTES = 1 << 19  # of a matrix; a smaller one stays in the cache of a core


class VectorMatMul(NamedTuple):
    """A MatMul in f32 by a matrix: the rows of src, and the bytes of the matrix."""

    rows: int
    nbytes: int


VECTORS = Faults[VectorMatMul]()
SLOW_VECTORS = VECTORS.add(
    "slow_vectors",
    ops="MatMul",
    where="weights",
    severity=SLOW,
    when=lambda product: 0 < product.rows <= MOST_ROWS and product.nbytes >= LEAST_BYTES,
    seen={(3, 2): "slow"},
    reason="A MatMul in f32 of up to four rows by a large matrix reads memory at two thirds of its speed",
    instead="a kernel of the package, if all such matrices together are larger than the last cache",
)


@SLOW_VECTORS.example({(3, 2): "right"})
def row_times_large_matrix(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (1, 512)), g.input("w", "f32", (512, 512)))
