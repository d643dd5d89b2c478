"""Computes the ops of the movement category in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.movement import reshape_shape, transposition
from ..opset.schema import Call

Floats = NDArray[np.float64]


def concat(call: Call, *sources: Floats) -> Floats:
    """The sources concatenated along axis."""
    return np.concatenate(sources, axis=call.s64("axis"))


def reorder(call: Call, src: Floats) -> Floats:
    """src unchanged, because arrays here have no memory layout."""
    return src


def static_reshape(call: Call, src: Floats) -> Floats:
    """src in another shape."""
    shape = reshape_shape(call)[0]
    assert shape is not None
    return src.reshape([-1 if dim is None else dim for dim in shape])


def static_transpose(call: Call, src: Floats) -> Floats:
    """src with its axes in another order."""
    return src.transpose(transposition(call))
