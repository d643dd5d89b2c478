"""Defines a case, which is one valid use of an op, and makes cases from seeded data in several data types."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._util.records import record
from ...ir.op import Array
from ...opset.dtypes import DataType

Attrs = dict[str, object]
Dims = tuple[int, ...]

FLOATS = ("f32", "bf16", "f16")
NP = {dtype.value: dtype.numpy for dtype in DataType}


@record(frozen=True, eq=False)
class Case:
    """One valid use of an op.

    Attributes:
        kind: kind of the op.
        label: text that identifies the case among those of the op.
        inputs: one array for each input.
        attrs: attributes.
        dtype: data type of the output, if the inputs do not determine it.
        outputs: names of the outputs to compute; None for the default.
    """

    kind: str
    label: str
    inputs: tuple[Array, ...]
    attrs: Attrs = field(default_factory=dict)
    dtype: str | None = None
    outputs: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.label}"


class SeededData:
    """Seeded random arrays; the text of a case is the seed, so that cases do not depend on their order."""

    def __init__(self, text: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(text.encode()))

    def normal(self, dtype: str, *shape: int) -> Array:
        """Normally distributed numbers around zero."""
        return self.rng.normal(0, 1.5, shape).astype(NP[dtype])

    def positive(self, dtype: str, *shape: int) -> Array:
        """Numbers well above zero."""
        return self.rng.uniform(0.25, 4, shape).astype(NP[dtype])

    def distinct(self, dtype: str, *shape: int) -> Array:
        """Different integers, also in bf16 if they are few, so that the maximum is unique."""
        count = int(np.prod(shape))
        return (self.rng.permutation(count) - count // 2).reshape(shape).astype(NP[dtype])

    def ints(self, dtype: str, *shape: int) -> Array:
        """Random numbers over the whole range of the integer type."""
        info = ml_dtypes.iinfo(NP[dtype])  # type: ignore[no-untyped-call]
        return self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(NP[dtype])

    def near(self, scales: ArrayLike, zps: ArrayLike, *shape: int) -> NDArray[np.float32]:
        """Floats that quantize without ties; some are out of range."""
        whole = self.rng.integers(-200, 320, shape) - np.asarray(zps, np.int64)
        return ((whole + self.rng.uniform(-0.3, 0.3, shape)) * np.asarray(scales, np.float64)).astype(np.float32)


Use = tuple[tuple[Array, ...], Attrs]
Make = Callable[[SeededData, str], Use]


def typed(kind: str, label: str, make: Make, types: Sequence[str] = FLOATS, alike: bool = False) -> Iterator[Case]:
    """The same use in several data types; ``alike`` sets the output to the data type of the inputs."""
    for dtype in types:
        inputs, attrs = make(SeededData(f"{kind} {label}"), dtype)
        yield Case(kind, f"{label}-{dtype}", inputs, attrs, dtype if alike else None)


def normals(shapes: Sequence[Dims], attrs: Attrs | None = None) -> Make:
    """A maker of uses whose inputs have these shapes and hold numbers around zero."""

    def make(data: SeededData, dtype: str) -> Use:
        return tuple(data.normal(dtype, *shape) for shape in shapes), dict(attrs or {})

    return make


def layout(data_format: str, channels: int, size: Sequence[int]) -> Dims:
    """The shape of two images with this number of channels."""
    return (2, *size, channels) if data_format == "NXC" else (2, channels, *size)


def s32(*numbers: int) -> NDArray[np.int32]:
    """A vector of s32."""
    return np.array(numbers, np.int32)
