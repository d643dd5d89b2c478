"""Reads GGUF files, by the package gguf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from os import PathLike
from typing import Any

import ml_dtypes
import numpy as np

from ..._util.paths import path_of
from ...arrays.packed_codes import Array
from ...errors import FormatError, UnsupportedError
from .blocks import FORMATS, PLAIN
from .weights import PackedWeights, taken_apart


def load_weights(path: str | PathLike[str]) -> Weights:
    """The tensors of a GGUF file by name: arrays of F32, F16 and BF16, and packed weights of the other formats.

    Matrices of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS become :class:`PackedWeights`, whose
    products read codes and scales. The codes and the scales are those of the file; the zero point of a group with a
    minimum is the minimum divided by the scale. Nothing else of the file becomes part of a graph: a file has no ops,
    and its metadata names an architecture.

    Args:
        path: of the file, whose tensors are read when they are asked for.

    Raises:
        FormatError: the file is no GGUF file, or cannot be read.
    """
    import gguf

    place = path_of("path", path, "the path of a GGUF file")
    try:
        with open(place, "rb"):
            pass
    except OSError as error:
        raise FormatError(str(place), error.strerror or str(error), "a file that can be read") from None
    try:
        reader: Any = _careful(gguf.GGUFReader)(place)
    except Exception as error:  # the package raises what numpy and Python raise for bytes that do not fit
        raise FormatError(str(place), f"{type(error).__name__}: {error}", "a GGUF file") from None
    return Weights(reader)


@cache
def _careful(reader: Any) -> Any:
    """A reader that raises ValueError where bytes are missing, of which the package makes empty arrays.

    An array of metadata that claims 2^60 elements would be read element by element behind the end of the file.
    """

    class Careful(reader):  # type: ignore[misc]
        def _get(self, offset: int, dtype: Any, count: int = 1, *rest: Any, **named: Any) -> Any:
            end = int(offset) + int(count) * np.dtype(dtype).itemsize
            if not 0 <= int(offset) <= end <= self.data.size:
                raise ValueError(f"bytes {int(offset)} to {end} of a file of {self.data.size}")
            return super()._get(offset, dtype, count, *rest, **named)

    return Careful


class Weights(Mapping[str, "Array | PackedWeights"]):
    """The tensors of a GGUF file, by name.

    Asking for a tensor in another format raises UnsupportedError, which names the format.
    """

    def __init__(self, reader: Any) -> None:
        self._tensors = {str(tensor.name): tensor for tensor in reader.tensors}

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def formats(self) -> dict[str, str]:
        """The format of each tensor, such as ``Q4_K``."""
        return {name: tensor.tensor_type.name for name, tensor in self._tensors.items()}

    def __getitem__(self, name: str) -> Array | PackedWeights:
        tensor = self._tensors[name]
        kind, shape = tensor.tensor_type.name, tuple(int(dim) for dim in reversed(tensor.shape))
        if kind in PLAIN:
            return _plain(tensor.data, kind, shape)
        form = FORMATS.get(kind)
        if form is None:
            raise UnsupportedError(f"tensor {name!r}: format {kind}; expected one of {', '.join([*PLAIN, *FORMATS])}")
        if len(shape) != 2 or 0 in shape:
            raise UnsupportedError(f"tensor {name!r}: {kind} of shape {[*shape]}; expected a matrix of packed weights")
        numbers = taken_apart(name, kind, form, np.asarray(tensor.data).reshape(shape[0], -1))
        if numbers.shape != shape:
            raise FormatError(f"tensor {name!r}", f"numbers of shape {[*numbers.shape]}", f"shape {[*shape]}")
        return numbers


def _plain(data: Array, kind: str, shape: tuple[int, ...]) -> Array:
    dtype = ml_dtypes.bfloat16 if kind == "BF16" else np.dtype(PLAIN[kind])
    result: Array = np.ascontiguousarray(data).view(dtype).reshape(shape)
    return result.copy()  # the file may change
