"""The table of ONNX nodes: a function for each kind, which lowers it. Importing this package fills the table."""

from . import attention, elementwise, indexing, layers, movement, norms, quantization, reduction

__all__ = ["attention", "elementwise", "indexing", "layers", "movement", "norms", "quantization", "reduction"]
