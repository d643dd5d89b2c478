"""The operation set as data: one category in one file, each ending in ``OPS``."""

from . import binary, convolution, elementwise, matmul, reduction

CATEGORIES = (elementwise.OPS, binary.OPS, matmul.OPS, convolution.OPS, reduction.OPS)
