"""Defines the data types of logical tensors and their numpy equivalents."""

from __future__ import annotations

import enum

import ml_dtypes
import numpy as np

from .._util.exact_types import has_type, text
from ..errors import ArgumentError, class_of, shown


class DataType(enum.Enum):
    """A data type, named as in the specification.

    Every function that takes a DataType also takes its name as a string, its numpy dtype or scalar type, or its
    ``ml_dtypes`` type. The last members are not in the specification; only the member itself stands for one of them,
    because an array of such a type is a mistake everywhere but at a host op.
    """

    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"
    s8 = "s8"
    u8 = "u8"
    s32 = "s32"
    boolean = "boolean"
    s64 = "s64"
    f8_e4m3 = "f8_e4m3"
    f8_e5m2 = "f8_e5m2"
    s4 = "s4"
    u4 = "u4"
    e8m0 = "e8m0"
    f4_e2m1 = "f4_e2m1"
    # The specification has no tensors of these; only host ops take them. They have numpy's names.
    float64 = "float64"
    int16 = "int16"
    uint16 = "uint16"
    uint32 = "uint32"
    uint64 = "uint64"
    int2 = "int2"
    uint2 = "uint2"
    float8_e4m3fnuz = "float8_e4m3fnuz"
    float8_e5m2fnuz = "float8_e5m2fnuz"

    # Members are compared by identity. The hash of Enum is slower, because it is written in Python.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.value

    def __str__(self) -> str:
        return self.value

    @classmethod
    def _missing_(cls, value: object) -> DataType:
        """Make ``DataType(value)`` accept the same values as :meth:`of`."""
        return cls.of(value)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype of an array of this type; numpy stores a sub-byte element in one byte."""
        return _NUMPY[self]

    @property
    def is_host(self) -> bool:
        """Whether only host ops take the type, because the specification lacks it."""
        return self in _HOST

    @property
    def since(self) -> tuple[int, int]:
        """The first oneDNN version whose graph API has this data type."""
        return NEVER if self in _HOST else _SINCE.get(self, (3, 0))

    @classmethod
    def of(cls, value: object) -> DataType:
        """Convert ``value`` to a data type.

        Args:
            value: a DataType, its name, a numpy dtype or scalar type, an ml_dtypes type, or a dtype of PyTorch.

        Raises:
            ArgumentError: no logical tensor has that type; the message suggests a cast where one helps.
        """
        if has_type(value, cls):
            return value
        word = text(value)
        if word is not None and word in SPECIFIED:
            return cls[word]
        try:
            # numpy reads None as float64; here None is an error.
            dtype = None if value is None else np.dtype(value)  # type: ignore[call-overload]
        except (TypeError, ValueError, SyntaxError):
            dtype = None
        except Exception:  # numpy reads attributes of the object, which may raise anything
            if has_type(value, (str, type, np.dtype)):
                raise  # a signal handler raised it
            dtype = None
        if dtype is None and class_of(value) == "dtype" and (name := shown(value)).startswith("torch."):
            return cls.of(name.removeprefix("torch."))
        dtype_ = None if dtype is None else _FROM_NUMPY.get(dtype)
        if dtype_ is None:
            choices = f"expected one of {', '.join(SPECIFIED)}"
            if dtype is None:
                import difflib  # for this message alone

                close = difflib.get_close_matches((word or "")[:20], SPECIFIED, n=1)
                meant = _MEANT.get(word or "") or (f"did you mean {close[0]!r}? " if close else "")
                raise ArgumentError(f"{shown(value)} is not a data type; {meant}{choices}")
            cast = _CASTS.get(dtype.kind)
            if cast is None:
                fix = choices
            elif has_type(value, np.dtype):
                fix = f"convert the array with .astype({cast})"
            else:
                fix = f"expected {_FROM_NUMPY[np.dtype(cast[3:])]}, which arrays become with .astype({cast})"
                fix += "; or og.s64, where the specification wants that" if dtype in _WIDE else ""
            raise ArgumentError(f"no logical tensor has the data type {dtype}; {fix}")
        return dtype_


_NUMPY: dict[DataType, np.dtype[np.generic]] = {
    DataType.f32: np.dtype(np.float32),
    DataType.f16: np.dtype(np.float16),
    DataType.bf16: np.dtype(ml_dtypes.bfloat16),
    DataType.s8: np.dtype(np.int8),
    DataType.u8: np.dtype(np.uint8),
    DataType.s32: np.dtype(np.int32),
    DataType.boolean: np.dtype(np.bool_),
    DataType.s64: np.dtype(np.int64),
    DataType.f8_e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
    DataType.f8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.s4: np.dtype(ml_dtypes.int4),
    DataType.u4: np.dtype(ml_dtypes.uint4),
    DataType.e8m0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DataType.f4_e2m1: np.dtype(ml_dtypes.float4_e2m1fn),
    DataType.float64: np.dtype(np.float64),
    DataType.int16: np.dtype(np.int16),
    DataType.uint16: np.dtype(np.uint16),
    DataType.uint32: np.dtype(np.uint32),
    DataType.uint64: np.dtype(np.uint64),
    DataType.int2: np.dtype(ml_dtypes.int2),
    DataType.uint2: np.dtype(ml_dtypes.uint2),
    DataType.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DataType.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_HOST = frozenset([*DataType][[*DataType].index(DataType.float64) :])
# The names of the data types that the specification has.
SPECIFIED = tuple(dtype.value for dtype in DataType if dtype not in _HOST)
NEVER = (99, 0)  # a version of oneDNN that does not exist
_SINCE = {
    DataType.f8_e4m3: (3, 4),
    DataType.f8_e5m2: (3, 4),
    DataType.s4: (3, 7),
    DataType.u4: (3, 7),
    DataType.e8m0: (3, 7),
    DataType.f4_e2m1: (3, 8),
    DataType.s64: (3, 12),
}
# Only Dropout takes s64 tensors (seed and offset, since 3.12), so an int64 array is nearly always a mistake. An op that
# takes s64 names it in its type table.
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items() if name not in (DataType.s64, *_HOST)}
# Every data type by its numpy dtype.
OF_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
_WIDE = (np.dtype(np.int64), np.dtype(np.uint64))
# What a page prints for a data type that the C API lacks.
_MEANT = {"u64": "use 's64': pages print u64 for the seed and the offset of Dropout, which the library takes as s64; "}
# The cast to suggest for each dtype kind. A complex array has no suitable cast, and 8-bit integers are too narrow.
_CASTS = {"f": "np.float32", "i": "np.int32", "u": "np.int32"}
