"""The table of ONNX nodes: a function for each kind, which lowers it. Importing this package fills the table."""

from . import (
    attention,
    contrib,
    control,
    elementwise,
    indexing,
    layers,
    movement,
    norms,
    quantization,
    recurrent,
    reduction,
    resize,
    sequences,
)

__all__ = [
    "attention",
    "contrib",
    "control",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "norms",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
    "sequences",
]
