"""How far results may be from the reference: what rounding alone does to them, and a little more.

The reference computes in float64 and rounds to the data type of every tensor; the library computes in f32, rounds
where it stores, and fuses ops without rounding between them. What such rounding does to a result is found by doing it:
a second run of the reference in which every value is off by about one rounding. Beside its own rounding a result may be
off by four times as much as that run is, in the maximum and in the mean, so that steep ops, cancellation, long chains
and int8 need no rules of their own.
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

# Half a unit in the last place for each data type, doubled; of f32 more, as sums in another order are off by more.
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
# Errors of this part of the largest number in a tensor are always allowed: one rounding of the result, and sums in f32.
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
# Ops whose results the library is off by some millionths of 1, next to 0 as anywhere: docs/safety.md.
INEXACT = frozenset(
    ["Elu", "GELU", "GELUBackward", "Log", "LogSoftmax", "Mish", "SigmoidBackward", "SoftPlus", "TanhBackward"]
)
INEXACTNESS = 2.0**-19
MARGIN = 4.0
# Sums in f32 of so many numbers are within EPSILONS.
SUMMED = 256
# Processors may take smaller numbers for 0.
TINY = float(np.finfo(np.float32).tiny)
Floats = NDArray[np.floating]
FLIPS = 1 / 32  # part of the integers that a rounding moves to the next one


@dataclass(frozen=True)
class Comparison:
    """A tensor beside its reference.

    Attributes:
        name: of the tensor.
        dtype, shape: of the tensor.
        agrees: whether the difference is what rounding does.
        max_error, mean_error: of the finite elements.
        limit: what ``max_error`` may be.
        where: index of the largest error.
        got, expected: the element there.
        wrong: number of elements that are further off than ``limit``.
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
    """The data type whose precision a tensor of ``dtype`` has where f32 arithmetic may be lowered."""
    return FPMATH.get(fpmath_mode, dtype) if dtype is DataType.f32 else dtype


def disturbed(values: Array, dtype: DataType, rng: np.random.Generator, *, rounded: bool, terms: float = 1) -> Array:
    """The values, off by about one rounding each.

    Args:
        values: of any data type.
        dtype: that whose precision they have.
        rng: where the errors come from.
        rounded: whether integers came of rounding, so that some of them may be the next one.
        terms: how many numbers each of them is the sum of; the errors of long sums in f32 grow with the root of that.
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
    """What an op of :data:`INEXACT` computes where 1 is ``unit``: the values, off by some millionths of that."""
    return _moved(values, values.astype(np.float32), np.float32(INEXACTNESS * unit), rng)


def _moved(values: Array, wide: Floats, most: Floats | np.float32, rng: np.random.Generator) -> Array:
    """The values, ``wide`` in f32, off by up to ``most``."""
    with np.errstate(all="ignore"):
        error = 2 * rng.random(wide.shape, np.float32) - 1
        # None is next to nothing: a tensor of few elements would say that rounding does nothing to it.
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
    """Hold a result against the reference and against its disturbed run.

    Args:
        name: of the tensor.
        got: what was computed.
        expected, near: of the reference, exact and with everything before disturbed.
        dtype: data type whose precision the tensor has.
        rounded: whether integers came of rounding, so that they may be off by one.
    """
    floats = dtype in FLOORS
    wide: np.dtype[np.floating] = np.dtype("f4" if floats else "f8")  # neighbours among floats are subtracted exactly
    ours, theirs, moved = _wide(got, wide), _wide(expected, wide), _wide(near, wide)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        error = np.abs(ours - theirs)
        noise = np.zeros(1, wide) if near is expected else np.abs(moved - theirs)
    if not np.isfinite(error).all() or not np.isfinite(noise).all():
        error, noise = _told_apart(ours, theirs, moved, error, noise)
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


def _told_apart(ours: Floats, theirs: Floats, moved: Floats, error: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Errors and noise where not every number is finite: what is none must be the same in both.

    Where rounding alone decides whether it is one, nothing can be said.
    """
    same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    sure = (theirs == moved) | (np.isnan(theirs) & np.isnan(moved)) | (np.isfinite(theirs) & np.isfinite(moved))
    error = np.where(same | ~sure, 0, np.where(np.isfinite(error), error, np.inf)).astype(error.dtype)
    return error, np.where(np.isfinite(noise), noise, 0).astype(noise.dtype)


def _mean(values: Floats) -> float:
    return float(values.mean(dtype=np.float64)) if values.size else 0.0
