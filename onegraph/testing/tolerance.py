"""Compares results with the reference, and decides how large an error rounding can explain.

The reference computes in float64. The library computes in f32, rounds where it stores, and fuses ops without rounding
between them. A result is compared with the reference before its last rounding: the nearest number of the data type has
no error, and the error of another number is what it is farther away. The effect of all earlier rounding is measured: a
second, disturbed run of the reference changes every value by about one rounding. A result may have the error of an f32
sum, plus four times the error of the disturbed run, in the maximum, in the mean and in the median. So steep ops,
cancellation, long chains, 8-bit floats and int8 need no special rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod, sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .._util.records import record
from ..ir.op import Array
from ..opset.dtypes import OF_NUMPY, DataType
from ..opset.schema import Schema
from ..reference.run import integer_limits, narrow

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
# Errors up to this fraction of the largest number in a tensor, for a calculation in the precision of the data type.
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
COARSEST = MappingProxyType({"Log": 2.0**-18})  # the ops of a larger error: of a million logarithms, up to 3.7e-6
# Ops whose intermediate results the library stores in the data type of the result, so that they are rounded twice.
ROUNDED_TWICE = frozenset(["LogSoftmax", "LogSoftmaxBackward", "SoftMax", "SoftMaxBackward"])
MARGIN = 4.0
# Errors of sums in f32, as a fraction of the largest number; 8-bit floats are rounded to f16 on the way.
SUMS = 2e-5
ON_THE_WAY = 2.0**-10
HALF = 0.5  # of the elements must be comparable
# The median error is compared with a larger quantile of the disturbed run's. The mean tells little where a few elements
# are uncertain and others are not, such as the weights after a step, whose gradients are zero or of unknown sign.
TYPICAL, LARGER = 0.5, 0.75
# Sums in f32 of up to this many numbers are within EPSILONS.
SUMMED = 256
# Processors may treat smaller numbers as 0.
TINY = float(np.finfo(np.float32).tiny)
Floats = NDArray[np.floating]
FLIPS = 1 / 32  # fraction of the integers that a disturbance changes by one
SEVERAL = 3  # integers may be off by one, however few there are


@record(frozen=True)
class Comparison:
    """A tensor compared with its reference.

    Attributes:
        name: name of the tensor.
        dtype, shape: data type and shape of the tensor.
        agrees: whether rounding explains the difference.
        max_error, mean_error: largest and mean absolute error of the compared elements, beyond that of the nearest
            number of the data type.
        limit: the largest allowed ``max_error``.
        where: index of the largest error.
        got, expected: the elements at that index.
        wrong: number of elements with a larger error than ``limit``.
        compared: number of elements that tell something: finite ones, and infinities without overflow, unless their
            finiteness depends on rounding.
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
    compared: int

    @property
    def is_proof(self) -> bool:
        """Whether at least half of the elements were compared."""
        return self.compared >= HALF * prod(self.shape)


def lowered(dtype: DataType, fpmath_mode: str) -> DataType:
    """The data type whose precision a tensor of ``dtype`` has with this fpmath mode."""
    return FPMATH.get(fpmath_mode, dtype) if dtype is DataType.f32 else dtype


def summed(schema: Schema, inputs: Sequence[Array], result: Array) -> float:
    """Approximate number of terms that an op sums for each element of its result."""
    if schema.category in ("matmul", "convolution") and result.size:
        return sqrt(inputs[0].size * inputs[1].size / result.size)
    return inputs[0].size / result.size if schema.category == "reduction" and result.size else 1


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
    # A sum has errors as large as its terms, which are about as large as other elements; rounding has relative errors.
    alike = epsilon if dtype is DataType.f32 else EPSILONS[DataType.f32]
    return _moved(values, wide, epsilon * np.abs(wide) + np.float32(alike * spread), rng)


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


def compare(name: str, got: Array, exact: Array, near: Array, dtype: DataType, *, rounded: bool) -> Comparison:
    """Compare a result with the reference, allowing for the error of the disturbed run.

    Args:
        name: name of the tensor.
        got: the result.
        exact, near: results of the reference before their rounding to the data type: exact, and with all earlier
            tensors disturbed.
        dtype: the data type whose precision the tensor has.
        rounded: whether integers among the inputs were results of rounding, so that they may be off by one.

    A result of another shape does not agree.
    """
    stored = OF_NUMPY[got.dtype]
    if got.shape != exact.shape:  # of an op whose contents decide the shape
        return Comparison(name, str(stored), got.shape, False, inf, inf, 0.0, (), 0.0, 0.0, got.size, 0)
    ours, theirs = _wide(got), _wide(narrow(exact, stored))
    moved = theirs if near is exact else _wide(narrow(near, stored))
    whole = exact.dtype.kind != "f" and stored not in EPSILONS
    sure, doubtful = (
        (theirs, moved) if whole or stored is DataType.s64 else (_inside(exact, stored), _inside(near, stored))
    )
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        own = np.abs(theirs - sure)
        error = np.maximum(np.abs(ours - sure) - own, 0)
        noise = np.zeros_like(error) if near is exact else np.abs(doubtful - sure)
    compared = np.ones(theirs.shape, np.bool_)
    if not np.isfinite(error).all() or not np.isfinite(noise).all():
        error, noise, compared = _split_nonfinite(ours, theirs, moved, sure, error, noise)
    scale = float(np.abs(theirs[compared & np.isfinite(theirs)]).max(initial=0))
    if dtype is not stored:  # arithmetic in a lower precision
        floor = FLOORS[dtype] * scale + TINY
    elif stored in EPSILONS:
        floor = (ON_THE_WAY if stored.value.startswith("f8") else SUMS) * scale + TINY
    else:
        floor = 0.0 if whole else SUMS * scale
    off_by_one = rounded and whole and stored is not DataType.boolean
    margin = 1.0 if whole else MARGIN
    limit = max(floor + margin * float(noise.max(initial=0)), float(off_by_one))
    worst = int(error.argmax()) if error.size else None
    most, mean = float(error.max(initial=0)), _mean(error)
    usual = floor + margin * _mean(noise) + (2 * FLIPS + SEVERAL / max(error.size, 1) if off_by_one else 0)
    typical = whole or _quantile(error, TYPICAL) <= floor + margin * _quantile(noise, LARGER)
    where = tuple(map(int, np.unravel_index(worst, got.shape))) if worst is not None else ()
    return Comparison(
        name,
        str(stored),
        got.shape,
        most <= limit and mean <= usual and typical,
        most,
        mean,
        limit,
        where,
        0.0 if worst is None else float(ours[worst]),
        0.0 if worst is None else float(theirs[worst]),
        int((error > limit).sum()),
        int(compared.sum()),
    )


def _wide(values: Array) -> Floats:
    return np.asarray(values, np.float64).ravel()


def _inside(values: Array, stored: DataType) -> Floats:
    """The values in float64, within the range of an integer data type, at which results saturate."""
    wide = _wide(values)
    if stored.value[0] not in "su":
        return wide
    low, high = integer_limits(stored)
    return np.clip(wide, low, high)


def _split_nonfinite(
    ours: Floats, theirs: Floats, moved: Floats, sure: Floats, error: Floats, noise: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Errors and noise of tensors with infinities or NaN, which must be equal in both results; the compared elements.

    An element whose finiteness depends on rounding is not compared. NaN and numbers that overflow the data type prove
    nothing, even if they are equal.
    """
    same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    stable = (theirs == moved) | (np.isnan(theirs) & np.isnan(moved)) | (np.isfinite(theirs) & np.isfinite(moved))
    finite, unknown = np.isfinite(theirs), np.isnan(sure)  # both for integers that were made of NaN
    error = np.where(finite & np.isfinite(ours), error, np.where(same, 0, np.inf))
    error = np.where(stable & ~(finite & unknown), error, 0)
    return error, np.where(np.isfinite(noise), noise, 0), stable & np.where(finite, ~unknown, np.isinf(sure))


def _quantile(values: Floats, share: float) -> float:
    """The element that this share of the elements does not exceed."""
    if not values.size:
        return 0.0
    place = int(share * values.size)
    return float(np.partition(values, place)[place])


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
