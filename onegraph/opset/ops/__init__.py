"""The operation set as data: one category in one file, each ending in ``OPS``."""

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

CATEGORIES = (
    elementwise.OPS,
    binary.OPS,
    matmul.OPS,
    convolution.OPS,
    reduction.OPS,
    pooling.OPS,
    normalization.OPS,
    quantization.OPS,
    movement.OPS,
    interpolation.OPS,
    misc.OPS,
)
