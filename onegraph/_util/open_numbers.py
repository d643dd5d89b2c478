"""Arrays of sizes some of which are open, as the contents of tensors that set shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers_of(sizes: Sequence[object], shape: Sequence[int]) -> NDArray[Any]:
    """An array of sizes of this shape, some of which are open."""
    sizes_array = np.empty(len(sizes), object)
    sizes_array[:] = sizes
    return sizes_array.reshape(tuple(shape))


def has_open_numbers(array: NDArray[Any] | None) -> bool:
    """Whether an array is one that ``numbers_of`` made."""
    return array is not None and array.dtype == object


def numbers_at(array: NDArray[Any], at: Callable[[Any], int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers of such an array for known sizes."""
    return np.array([at(size) for size in array.ravel()], dtype).reshape(array.shape)
