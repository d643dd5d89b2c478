"""Gradients by central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def finite_differences(function: Any, at: Floats, weight: Floats, step: float = 1e-5) -> Floats:
    """The gradient of sum(function(at) * weight), by central differences."""
    result = np.zeros_like(at)
    for place in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        result[place] = ((function(up) - function(down)) * weight).sum() / (2 * step)
    return result
