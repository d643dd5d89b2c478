"""Arrays for kernels as no model has them: sizes beside those of vectors, special numbers, strides, offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.guard.memory import placed

Array = NDArray[Any]
SIZES = (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1e-45, 3e38, -3e38, 88.8, -104.0)
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
LEAST = 2.0**-148  # an error of denormal numbers
LARGEST = 1e37  # a sum of more may be infinite on the way


def drawn_array(rng: np.random.Generator, shape: Sequence[int], dtype: str = "f32") -> Array:
    """Numbers, some of them special, in memory of other strides and behind an offset."""
    array = placed_array(rng, shape, dtype)
    fill(rng, array)
    return array


def dense_array(rng: np.random.Generator, shape: Sequence[int], dtype: str = "f32") -> Array:
    """Numbers, some of them special, in dense memory."""
    array = placed(np.zeros(shape, TYPES[dtype]))
    fill(rng, array)
    return array


def placed_array(rng: np.random.Generator, shape: Sequence[int], dtype: str = "f32") -> Array:
    """Memory of other strides, behind an offset; its end is the end of a block."""
    order, step = rng.permutation(len(shape)), int(rng.integers(1, 3))
    count = step * int(np.prod(shape))
    block = placed(np.zeros(int(rng.integers(0, 4)) + count, TYPES[dtype]))
    memory = block[len(block) - count :: step].reshape([shape[axis] for axis in order])
    return memory.transpose(np.argsort(order))


def fill(rng: np.random.Generator, array: Array) -> None:
    """Write numbers, some of them special."""
    numbers = rng.normal(0, float(rng.choice([0.1, 1, 8])), array.shape)
    special = rng.random(array.shape) < rng.choice([0, 0.05, 0.5])
    with np.errstate(all="ignore"):
        array[...] = np.where(special, rng.choice(SPECIAL, array.shape), numbers).astype(array.dtype)


def near_size(rng: np.random.Generator, most: int = 257) -> int:
    """A size beside one of vectors."""
    return int(rng.choice([size for size in SIZES if size <= most]))


class Wanted(NamedTuple):
    """A result in float64, how far a right one may be from it, and the largest number on the way to it."""

    result: Array
    error: Array
    largest: Array

    def check(self, found: Array, said: str) -> None:
        """Compare what a kernel found; elements are left out that f32 may hold as infinite on the way."""
        found = found.astype(np.float64)
        with np.errstate(all="ignore"):
            near = (found == self.result) | (np.isnan(found) & np.isnan(self.result))
            near |= np.abs(found - self.result) <= self.error + LEAST
            near |= self.largest > LARGEST
        assert near.all(), f"{said}: {found[~near][:5]}, not {self.result[~near][:5]} at {np.argwhere(~near)[:3]}"


def sized(array: Array) -> Array:
    """The sizes of finite numbers, and 0 for others."""
    return np.where(np.isfinite(array), np.abs(array), 0)
