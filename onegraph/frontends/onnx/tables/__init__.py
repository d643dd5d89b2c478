"""The table of ONNX nodes: a function for each kind, which lowers it. Importing this package fills the table."""

from . import elementwise, indexing, layers, movement, norms, quantization, reduction

__all__ = ["elementwise", "indexing", "layers", "movement", "norms", "quantization", "reduction"]
