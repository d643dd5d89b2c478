"""The table of ATen ops: a function for each overload, which lowers it. Importing this package fills the table."""

from . import attention, backward, elementwise, indexing, layers, movement, norms, reduction, windows

__all__ = [
    "attention",
    "backward",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "norms",
    "reduction",
    "windows",
]
