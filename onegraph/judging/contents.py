"""Makes the contents of inputs that a model is judged with: ordinary numbers, and those at which kernels go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...], bool], Floats]

GIVEN = "given"
SCATTERED = 8  # one element in so many is replaced, and at least one
SCALES = (0.0, None, 1e-6, 1e-5, 1e-3)  # of the rows near zero; None is a row of equal numbers
HALF_SCALES = (0.0, None, 1e-4, 1e-3, 1e-2)
LARGE, LARGE_HALF = 1e6, 2e3  # exponentials overflow, and in f16 sums of squares
TINY, TINY_HALF = 1e-20, 1e-6


def rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Number and length of the rows of a tensor: along the last axis, and whole images of four axes and more."""
    size = int(np.prod(shape, dtype=np.int64))
    if not shape or not size:
        return 1, size
    leading = int(np.prod(shape[:2])) if len(shape) > 3 else size // shape[-1]
    return leading, size // leading


def _ordinary(rng: np.random.Generator, shape: tuple[int, ...], half: bool) -> Floats:
    return rng.standard_normal(shape)


def _scattered(value: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...], half: bool) -> Floats:
        drawn = np.array(rng.standard_normal(shape))
        count = max(1, drawn.size // SCATTERED) if drawn.size else 0
        drawn.flat[rng.choice(drawn.size, count, replace=False)] = value
        return drawn

    return draw


def _rows_of_minus_infinity(rng: np.random.Generator, shape: tuple[int, ...], half: bool) -> Floats:
    """The first half of the rows along the last axis, and at least one element."""
    drawn = np.array(rng.standard_normal(shape))
    table = drawn.reshape(-1, shape[-1] if shape and shape[-1] else 1)
    table[: len(table) // 2] = -np.inf
    drawn.flat[:1] = -np.inf
    return drawn


def _equal_rows(rng: np.random.Generator, shape: tuple[int, ...], half: bool) -> Floats:
    count, length = rows_of(shape)
    return np.repeat(rng.standard_normal(count), length).reshape(shape)


def _near_zero(rng: np.random.Generator, shape: tuple[int, ...], half: bool) -> Floats:
    count, length = rows_of(shape)
    table, scales = rng.standard_normal((count, length)), HALF_SCALES if half else SCALES
    for place in range(count):
        scale = scales[place % len(scales)]
        table[place] = 1.0 if scale is None else table[place] * scale
    return table.reshape(shape)


# The contents of floating-point inputs, by the name that a finding gives. Integers keep the numbers that are given.
KINDS: Mapping[str, Draw] = MappingProxyType(
    {
        "ordinary numbers": _ordinary,
        "large numbers": lambda rng, shape, half: rng.standard_normal(shape) * (LARGE_HALF if half else LARGE),
        "tiny numbers": lambda rng, shape, half: rng.standard_normal(shape) * (TINY_HALF if half else TINY),
        "zeros": lambda rng, shape, half: np.zeros(shape),
        "some NaN": _scattered(np.nan),
        "some infinities": _scattered(np.inf),
        "rows of -inf": _rows_of_minus_infinity,
        "rows of equal numbers": _equal_rows,
        "rows near zero": _near_zero,
    }
)


def floats(kind: str, shape: tuple[int, ...], seed: int, *, half: bool) -> Floats:
    """Floating-point numbers of a kind of :data:`KINDS`, the same for the same seed.

    Args:
        kind: the name of the kind.
        shape: known dims.
        seed: seed of the random numbers.
        half: whether they must fit f16.
    """
    drawn: Any = KINDS[kind](np.random.default_rng(seed), shape, half)
    return np.asarray(drawn, np.float64)
