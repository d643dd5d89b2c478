"""Reads models in the ONNX format as graphs, and writes graphs; needs ``pip install onegraph[onnx]``."""

from __future__ import annotations

from .frontends.onnx import load, save

__all__ = ["load", "save"]
