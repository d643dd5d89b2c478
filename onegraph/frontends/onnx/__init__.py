"""Reads and writes models in the ONNX format with the package onnx."""

from .load import load
from .save import save

__all__ = ["load", "save"]
