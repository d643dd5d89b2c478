"""Reads and writes the values of variables: ``.npz`` files, or files of the package safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._util.atomic_write import write_atomically
from ..errors import ArgumentError, FormatError, shown
from ..ir.op import Array, LogicalTensor
from ..opset.shapes import known_dims, show
from .npz import names_to_read, read_tensors, write_arrays

SAFETENSORS = ".safetensors"
# Data types as safetensors writes and reads them, by those of numpy.
_NAMES = {
    "float32": "F32", "float64": "F64", "bfloat16": "BF16", "float16": "F16", "int8": "I8", "uint8": "U8",
    "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64", "bool": "BOOL",
}  # fmt: skip


def write_variables(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name. A file is replaced when the new one is complete.

    Raises:
        FormatError: the file cannot be written.
        ArgumentError: the path has no file name; or it ends in ``.safetensors``, and the package is not installed or
            has no such data type.
    """
    if path.suffix != SAFETENSORS:
        write_arrays(path, arrays)
        return
    package = _safetensors()
    for name, array in arrays.items():
        if array.dtype.name not in _NAMES:
            raise ArgumentError(f"variable {name!r}: {array.dtype}; safetensors has no such type, .npz files have it")
    contents = package.numpy.save(dict(arrays))
    write_atomically(path, lambda stream: stream.write(contents))


def read_variables(path: Path, tensors: Mapping[str, LogicalTensor], *, whole: bool = True) -> dict[str, Array]:
    """Read the array of every tensor, by name; if not ``whole``, of those that the file has.

    Raises:
        FormatError: the file cannot be read, or an array is missing, unknown, or does not fit.
        ArgumentError: the path ends in ``.safetensors``, and the package is not installed.
    """
    if path.suffix != SAFETENSORS:
        return read_tensors(path, tensors, "variable", whole=whole)
    package = _safetensors()
    try:
        tensors_read = dict(package.deserialize(path.read_bytes()))
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None
    except package.SafetensorError as error:
        raise FormatError(str(path), shown(str(error)), "a file of safetensors") from None
    arrays = {}
    for name in names_to_read(tensors_read, tensors, path, "variable", whole=whole):
        tensor = tensors[name]
        stored_tensor, wanted = tensors_read[name], (_NAMES[tensor.dtype.numpy.name], [*known_dims(tensor.shape)])
        if (stored_tensor["dtype"], [*stored_tensor["shape"]]) != wanted:
            given_type = f"{stored_tensor['dtype']} {show(tuple(stored_tensor['shape']))}"
            raise FormatError(f"{path}: {name}", given_type, f"{wanted[0]} {show(tensor.shape)}")
        arrays[name] = np.frombuffer(stored_tensor["data"], tensor.dtype.numpy).reshape(wanted[1])
    return arrays


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ArgumentError(f"{SAFETENSORS} files need the package safetensors: pip install safetensors") from None
    return safetensors
