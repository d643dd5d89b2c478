"""Reads weights of GGUF files as they are packed; needs ``pip install onegraph[gguf]``."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("gguf") is None:
    raise ModuleNotFoundError("onegraph.gguf needs the package gguf; run: pip install onegraph[gguf]", name="gguf")

from .frontends.gguf import PackedWeights, Weights, load_weights

__all__ = ["PackedWeights", "Weights", "load_weights"]
