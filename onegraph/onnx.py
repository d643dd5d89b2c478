"""Reads models in the ONNX format as graphs, and writes graphs; needs ``pip install onegraph[onnx]``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._util.collector_pause import CollectorPause

if find_spec("onnx") is None:
    raise ModuleNotFoundError("onegraph.onnx needs the package onnx; run: pip install onegraph[onnx]", name="onnx")

with CollectorPause():
    from .frontends.onnx import CustomNode, class_labels, load, register

if TYPE_CHECKING:
    from .frontends.onnx.save import save as save

__all__ = ["CustomNode", "class_labels", "load", "register", "save"]


if not TYPE_CHECKING:  # type checkers refuse names that the imports above do not have

    def __getattr__(name):
        if name != "save":
            raise AttributeError(f"module 'onegraph.onnx' has no attribute {name!r}")
        from .frontends.onnx.save import save  # a program that reads a model does not wait for its import

        return save
