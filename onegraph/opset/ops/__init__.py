"""Defines the ops of the base vocabulary, one module for each category; each module lists its schemas in ``OPS``."""

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
