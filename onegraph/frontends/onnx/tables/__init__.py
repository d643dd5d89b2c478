"""The table of ONNX nodes: a function for each kind, which lowers it. Importing this package fills the table."""

from . import (
    attention,
    contrib,
    elementwise,
    indexing,
    layers,
    movement,
    norms,
    quantization,
    recurrent,
    reduction,
    resize,
)

__all__ = [
    "attention",
    "contrib",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "norms",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
]
