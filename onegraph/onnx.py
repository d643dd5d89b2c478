"""Reads models in the ONNX format as graphs; needs ``pip install onegraph[onnx]``."""

from __future__ import annotations

from .frontends.onnx import load

__all__ = ["load"]
