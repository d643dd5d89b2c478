"""Reads and writes models in the ONNX format with the package onnx."""

from .load import load

__all__ = ["load"]
