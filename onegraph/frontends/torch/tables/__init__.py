"""The table of ATen ops: a function for each overload, which lowers it. Importing this package fills the table."""

from . import (
    attention,
    backward,
    control,
    creation,
    elementwise,
    indexing,
    layers,
    logic,
    movement,
    norms,
    quotients,
    recurrent,
    reduction,
    resizing,
    scattering,
    windows,
)

__all__ = [
    "attention",
    "backward",
    "control",
    "creation",
    "elementwise",
    "indexing",
    "layers",
    "logic",
    "movement",
    "norms",
    "quotients",
    "recurrent",
    "reduction",
    "resizing",
    "scattering",
    "windows",
]
