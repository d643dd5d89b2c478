"""The table of ONNX nodes: a function for each kind, which lowers it. Importing this package fills the table."""

from . import attention, control, elementwise, indexing, layers, movement, norms, quantization, reduction, sequences

__all__ = [
    "attention",
    "control",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "norms",
    "quantization",
    "reduction",
    "sequences",
]
