"""The table of ATen ops: a function for each overload, which lowers it. Importing this package fills the table."""

from . import (
    attention,
    backward,
    creation,
    elementwise,
    indexing,
    layers,
    logic,
    movement,
    norms,
    recurrent,
    reduction,
    resizing,
    windows,
)

__all__ = [
    "attention",
    "backward",
    "creation",
    "elementwise",
    "indexing",
    "layers",
    "logic",
    "movement",
    "norms",
    "recurrent",
    "reduction",
    "resizing",
    "windows",
]
