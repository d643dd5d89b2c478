"""Weights of GGUF files as arrays, and as packed codes that products read."""

from .load import Weights, load_weights
from .weights import PackedWeights

__all__ = ["PackedWeights", "Weights", "load_weights"]
