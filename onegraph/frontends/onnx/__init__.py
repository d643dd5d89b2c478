"""Reads and writes models in the ONNX format with the package onnx."""

from .class_labels import class_labels
from .load import load
from .registered import CustomNode, register

__all__ = ["CustomNode", "class_labels", "load", "register"]
