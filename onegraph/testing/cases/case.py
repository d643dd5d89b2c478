"""One valid use of an op, and what makes such uses: seeded data, the same use in several data types."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...ir.op import Array
from ...opset.dtypes import DataType

Attrs = dict[str, object]
Dims = tuple[int, ...]

FLOATS = ("f32", "bf16", "f16")
NP = {dtype.value: dtype.numpy for dtype in DataType}


@dataclass(frozen=True, eq=False)
class Case:
    """One use: the op, its inputs, the data type of its output where that is open, and the optional outputs wanted."""

    kind: str
    label: str
    inputs: tuple[Array, ...]
    attrs: Attrs = field(default_factory=dict)
    dtype: str | None = None
    outputs: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.label}"


class SeededData:
    """Seeded arrays that suit an op; the seed is the text of the case, so that cases do not hang on their order."""

    def __init__(self, text: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(text.encode()))

    def normal(self, dtype: str, *shape: int) -> Array:
        """Numbers about zero."""
        return self.rng.normal(0, 1.5, shape).astype(NP[dtype])

    def positive(self, dtype: str, *shape: int) -> Array:
        """Numbers well above zero."""
        return self.rng.uniform(0.25, 4, shape).astype(NP[dtype])

    def distinct(self, dtype: str, *shape: int) -> Array:
        """Whole numbers that all differ, as far as bf16 can tell them apart: the maximum is never in doubt."""
        count = int(np.prod(shape))
        return (self.rng.permutation(count) - count // 2).reshape(shape).astype(NP[dtype])

    def ints(self, dtype: str, *shape: int) -> Array:
        """Any numbers that the integer type holds."""
        info = ml_dtypes.iinfo(NP[dtype])  # type: ignore[no-untyped-call]
        return self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(NP[dtype])

    def near(self, scales: ArrayLike, zps: ArrayLike, *shape: int) -> NDArray[np.float32]:
        """Floats that quantize well away from a tie, some of them out of range."""
        whole = self.rng.integers(-200, 320, shape) - np.asarray(zps, np.int64)
        return ((whole + self.rng.uniform(-0.3, 0.3, shape)) * np.asarray(scales, np.float64)).astype(np.float32)


Use = tuple[tuple[Array, ...], Attrs]
Make = Callable[[SeededData, str], Use]


def typed(kind: str, label: str, make: Make, types: Sequence[str] = FLOATS, alike: bool = False) -> Iterator[Case]:
    """The same use in several data types; ``alike`` where the type of the result is open."""
    for dtype in types:
        inputs, attrs = make(SeededData(f"{kind} {label}"), dtype)
        yield Case(kind, f"{label}-{dtype}", inputs, attrs, dtype if alike else None)


def normals(shapes: Sequence[Dims], attrs: Attrs | None = None) -> Make:
    """A use whose inputs are numbers about zero, of these shapes."""

    def make(data: SeededData, dtype: str) -> Use:
        return tuple(data.normal(dtype, *shape) for shape in shapes), dict(attrs or {})

    return make


def layout(data_format: str, channels: int, size: Sequence[int]) -> Dims:
    """The shape of two images of that many channels."""
    return (2, *size, channels) if data_format == "NXC" else (2, channels, *size)


def s32(*numbers: int) -> NDArray[np.int32]:
    """A vector of s32."""
    return np.array(numbers, np.int32)
