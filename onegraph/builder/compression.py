"""The record of weights that were compressed."""

from __future__ import annotations

from .._util.records import record


@record(frozen=True)
class CompressedWeights:
    """Weights of a product that :func:`onegraph.compress_weights` has compressed.

    Attributes:
        name: of the product.
        shape: of the weights.
        bytes_before, bytes: their size, and that of codes and scales.
        error: the root of the mean square of the errors, divided by that of the weights.
    """

    name: str
    shape: tuple[int, ...]
    bytes_before: int
    bytes: int
    error: float

    def __str__(self) -> str:
        size = f"{self.bytes_before:,} to {self.bytes:,} bytes"
        return f"{self.name}: {[*self.shape]}, {size}, relative error {self.error:.2%}"
