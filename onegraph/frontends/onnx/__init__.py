"""Reads and writes models in the ONNX format with the package onnx."""

from .load import load
from .registered import CustomNode, register

__all__ = ["CustomNode", "load", "register"]
