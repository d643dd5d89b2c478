"""Computes special functions that numpy lacks, for whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969): numerators and
# denominators, the highest power first. The first pair gives erf(x) / x in x ** 2, the second exp(x ** 2) * erfc(x).
NEAR = (
    [1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3],
    [1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3],
)
FAR = (
    [
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ],
    [
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ],
)
BOUND = 0.46875
ONE = 6.0  # from here on, erf is 1 in double precision


def erf(src: Array) -> Array:
    """The error function, computed in double precision."""
    wide = src.astype(np.float64, copy=False)
    size = np.minimum(np.abs(wide), ONE)
    near, far = np.minimum(size, BOUND) ** 2, np.maximum(size, BOUND)
    small = size * np.polyval(NEAR[0], near) / np.polyval(NEAR[1], near)
    large = 1 - np.exp(-(far**2)) * np.polyval(FAR[0], far) / np.polyval(FAR[1], far)
    values: Array = np.copysign(np.where(size <= BOUND, small, large), wide)
    return np.where(np.isnan(wide), wide, values).astype(src.dtype)
