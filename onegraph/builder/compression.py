"""The records of weights that were compressed, and of ops that were quantized."""

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


@record(frozen=True)
class QuantizedOp:
    """What :func:`onegraph.quantize` has made of a convolution or a product.

    Attributes:
        name: of the op.
        dtype: of the codes of its source, ``u8`` or ``s8``.
        scale, zero_point: of the codes of its source: a number is ``scale * (code - zero_point)``.
        error: the relative errors of source and weights together: roots of the mean squares of the errors, divided by
            those of the numbers.
        reason: why the op stays in floating point; empty if it was quantized.
    """

    name: str
    dtype: str
    scale: float
    zero_point: int
    error: float
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: not quantized: {self.reason}"
        return (
            f"{self.name}: {self.dtype}, scale {self.scale:.3g}, zero point {self.zero_point}, error {self.error:.2%}"
        )
