"""Computes nodes of the domain ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import Array
from ..node import Node, NotLowered, computes
from ..proven import ML


@computes("Scaler", domain=ML)
def scaler(node: Node) -> Array:
    """(src - offset) * scale."""
    offset, scale = (np.array(node.attr(name, default)) for name, default in (("offset", [0.0]), ("scale", [1.0])))
    found: Array = ((node.wide(0) - offset) * scale).astype(np.float32)
    return found


@computes("LinearRegressor", domain=ML)
def linear_regressor(node: Node) -> Array:
    """Sums of the features with coefficients for each target."""
    if node.attr("post_transform", "NONE") != "NONE":
        raise NotLowered(f"post_transform={node.attr('post_transform')}")
    targets = node.attr("targets", 1)
    weights = np.array(node.attr("coefficients")).reshape(targets, -1)
    found: Array = node.wide(0) @ weights.T + np.array(node.attr("intercepts", [0.0]))
    return found.astype(np.float32)
