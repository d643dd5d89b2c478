"""Compares results with the reference, and decides how large an error rounding can explain.

The reference computes in float64 and rounds to the data type of every tensor. The library computes in f32, rounds where
it stores, and fuses ops without rounding between them. The effect of such rounding is measured: a second, disturbed run
of the reference changes every value by about one rounding. A result may have its own rounding error, plus four times
the error of the disturbed run, in the maximum and in the mean. So steep ops, cancellation, long chains and int8 need no
special rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..ir.op import Array
from ..opset.dtypes import DataType

# Twice half a unit in the last place of each data type; more for f32, because sums in another order differ by more.
EPSILONS: Mapping[DataType, float] = MappingProxyType(
    {
        DataType.f32: 2.0**-21,
        DataType.bf16: 2.0**-8,
        DataType.f16: 2.0**-11,
        DataType.f8_e4m3: 2.0**-4,
        DataType.f8_e5m2: 2.0**-3,
        DataType.f4_e2m1: 2.0**-2,
    }
)
# Errors up to this fraction of the largest number in a tensor are always allowed, for one rounding and for f32 sums.
FLOORS: Mapping[DataType, float] = MappingProxyType(
    {
        DataType.f32: 2e-5,
        DataType.bf16: 2.0**-7,
        DataType.f16: 2.0**-10,
        DataType.f8_e4m3: 2.0**-3,
        DataType.f8_e5m2: 2.0**-2,
        DataType.f4_e2m1: 2.0**-1,
    }
)
FPMATH = MappingProxyType(
    {
        "bf16": DataType.bf16,
        "f16": DataType.f16,
        "tf32": DataType.f16,  # as many bits of precision
        "any": DataType.bf16,
    }
)
# Ops with an absolute error of some millionths in the library, also for results near 0: docs/safety.md.
INEXACT = frozenset(
    ["Elu", "GELU", "GELUBackward", "Log", "LogSoftmax", "Mish", "SigmoidBackward", "SoftPlus", "TanhBackward"]
)
INEXACTNESS = 2.0**-19
MARGIN = 4.0
# Sums in f32 of up to this many numbers are within EPSILONS.
SUMMED = 256
# Processors may treat smaller numbers as 0.
TINY = float(np.finfo(np.float32).tiny)
Floats = NDArray[np.floating]
FLIPS = 1 / 32  # fraction of the integers that a disturbance changes by one


@dataclass(frozen=True)
class Comparison:
    """A tensor compared with its reference.

    Attributes:
        name: name of the tensor.
        dtype, shape: data type and shape of the tensor.
        agrees: whether rounding explains the difference.
        max_error, mean_error: largest and mean absolute error of the finite elements.
        limit: the largest allowed ``max_error``.
        where: index of the largest error.
        got, expected: the elements at that index.
        wrong: number of elements with a larger error than ``limit``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    agrees: bool
    max_error: float
    mean_error: float
    limit: float
    where: tuple[int, ...]
    got: float
    expected: float
    wrong: int


def lowered(dtype: DataType, fpmath_mode: str) -> DataType:
    """The data type whose precision a tensor of ``dtype`` has with this fpmath mode."""
    return FPMATH.get(fpmath_mode, dtype) if dtype is DataType.f32 else dtype


def disturbed(values: Array, dtype: DataType, rng: np.random.Generator, *, rounded: bool, terms: float = 1) -> Array:
    """The values, each changed by about one rounding.

    Args:
        values: of any data type.
        dtype: the data type whose precision the values have.
        rng: source of the errors.
        rounded: whether integers are results of rounding, so that some of them may be off by one.
        terms: number of terms of the sum that each value is; the errors of long f32 sums grow with its square root.
    """
    if values.dtype.kind == "b" or not values.size:
        return values
    epsilon = EPSILONS.get(dtype)
    if epsilon is None:
        return _flipped(values, rng) if rounded else values
    if dtype is DataType.f32:
        epsilon *= max(1.0, sqrt(terms / SUMMED))
    wide = values.astype(np.float32)
    finite = wide[np.isfinite(wide)]
    spread = float(np.sqrt(np.mean(np.square(finite, dtype=np.float64)))) if finite.size else 0.0
    return _moved(values, wide, epsilon * (np.abs(wide) + np.float32(spread)), rng)


def inexact(values: Array, unit: float, rng: np.random.Generator) -> Array:
    """The values, changed by some millionths of ``unit``, as an op of :data:`INEXACT` computes them."""
    return _moved(values, values.astype(np.float32), np.float32(INEXACTNESS * unit), rng)


def _moved(values: Array, wide: Floats, most: Floats | np.float32, rng: np.random.Generator) -> Array:
    """The values with errors of up to ``most``; ``wide`` are the values in f32."""
    with np.errstate(all="ignore"):
        error = 2 * rng.random(wide.shape, np.float32) - 1
        # No error is near 0, because otherwise a tensor of few elements could have no disturbance at all.
        error = np.copysign((1 + 2 * np.abs(error)) / 3, error) * most
        moved: Array = (wide + error).astype(values.dtype)
        return moved


def _flipped(values: Array, rng: np.random.Generator) -> Array:
    wide = values.astype(np.int64)
    moved = rng.random(wide.shape) < FLIPS
    moved.flat[rng.integers(wide.size)] = True
    low, high = int(wide.min()), int(wide.max())  # so that no number leaves its type
    flipped: Array = np.clip(wide + np.where(moved, rng.choice([-1, 1], wide.shape), 0), low, high).astype(values.dtype)
    return flipped


def compare(name: str, got: Array, expected: Array, near: Array, dtype: DataType, *, rounded: bool) -> Comparison:
    """Compare a result with the reference, allowing for the error of the disturbed run.

    Args:
        name: name of the tensor.
        got: the result.
        expected, near: results of the reference: exact, and with all earlier tensors disturbed.
        dtype: the data type whose precision the tensor has.
        rounded: whether integers are results of rounding, so that they may be off by one.
    """
    floats = dtype in FLOORS
    wide: np.dtype[np.floating] = np.dtype("f4" if floats else "f8")  # differences of close floats are exact
    ours, theirs, moved = _wide(got, wide), _wide(expected, wide), _wide(near, wide)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        error = np.abs(ours - theirs)
        noise = np.zeros(1, wide) if near is expected else np.abs(moved - theirs)
    if not np.isfinite(error).all() or not np.isfinite(noise).all():
        error, noise = _split_nonfinite(ours, theirs, moved, error, noise)
    finite = theirs if np.isfinite(theirs).all() else theirs[np.isfinite(theirs)]
    scale = float(np.abs(finite).max(initial=0))
    floor = FLOORS[dtype] * scale + TINY if floats else float(rounded and dtype is not DataType.boolean)
    margin = MARGIN if floats else 1.0
    limit = floor + margin * float(noise.max(initial=0))
    worst = int(error.argmax()) if error.size else 0
    most, mean = float(error.max(initial=0)), _mean(error)
    agrees = most <= floor or (most <= limit and mean <= floor + margin * _mean(noise))
    where = tuple(map(int, np.unravel_index(worst, got.shape))) if error.size else ()
    return Comparison(
        name,
        str(DataType.of(got.dtype) if got.dtype != np.int64 else DataType.s64),
        got.shape,
        agrees,
        most,
        mean,
        limit,
        where,
        float(ours[worst]) if error.size else 0.0,
        float(theirs[worst]) if error.size else 0.0,
        int((error > limit).sum()),
    )


def _wide(values: Array, dtype: np.dtype[np.floating]) -> Floats:
    return values.astype(dtype, copy=False).ravel()


def _split_nonfinite(
    ours: Floats, theirs: Floats, moved: Floats, error: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Errors and noise of tensors with infinities or NaN, which must be equal in both results.

    An element whose finiteness depends on rounding is not compared.
    """
    same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    comparable = (theirs == moved) | (np.isnan(theirs) & np.isnan(moved)) | (np.isfinite(theirs) & np.isfinite(moved))
    error = np.where(same | ~comparable, 0, np.where(np.isfinite(error), error, np.inf)).astype(error.dtype)
    return error, np.where(np.isfinite(noise), noise, 0).astype(noise.dtype)


def _mean(values: Floats) -> float:
    return float(values.mean(dtype=np.float64)) if values.size else 0.0
