"""Writes the file of a model, and the file with its large constants.

Every reader, of whatever package, finds the constants by the name that the model has. So a new file of constants gets a
name that no file has, and the model that names it replaces the old one in one step. Then the old constants are removed.
A name without a number is given once, as a reader of an older model may look for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import onnx
from onnx import TensorProto, numpy_helper

from ...._util.atomic_write import FilePart, TakenError, Write, explained, write_together
from ....ir.op import Array

ALIGNMENT = 4096  # of a constant in the file of its own, so that readers can map it into memory


def write_model(target: Path, model: onnx.ModelProto, large: Mapping[str, Array], small: Sequence[TensorProto]) -> None:
    """Write a model.

    Args:
        target: the file of the model.
        model: without its constants, which are added to it.
        large: constants for a file of their own; none for no such file.
        small: constants for the model.

    Raises:
        FormatError: a file cannot be written.
    """
    named = re.compile(re.escape(target.name) + r"(\.[0-9a-f]{16})?\.data")
    with explained(target):
        plain, numbered = f"{target.name}.data", f"{target.name}.{os.urandom(8).hex()}.data"
    for name in (numbered,) if os.path.exists(target) else (plain, numbered):
        whole = onnx.ModelProto()
        whole.CopyFrom(model)
        parts = [FilePart(target.with_name(name), _externally(whole, large, name))] if large else []
        whole.graph.initializer.extend(small)
        try:
            write_together(parts, target, partial(_write, whole), named)
        except TakenError:
            continue
        return


def _write(model: onnx.ModelProto, stream: IO[bytes]) -> None:
    stream.write(model.SerializeToString(deterministic=True))


def _externally(model: onnx.ModelProto, arrays: Mapping[str, Array], file: str) -> Write:
    """Declare constants in a file of their own; returns the function that writes that file."""
    offset, pieces = 0, list[tuple[int, Array]]()
    for name, array in arrays.items():
        made = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        packed = numpy_helper.from_array(array.reshape(-1)[:0])
        made.data_type = packed.data_type
        length = _length(array, made.data_type)
        for key, value in (("location", file), ("offset", str(offset)), ("length", str(length))):
            entry = made.external_data.add()
            entry.key, entry.value = key, value
        model.graph.initializer.append(made)
        pieces.append((offset, array))
        offset += -(-length // ALIGNMENT) * ALIGNMENT

    def write(stream: IO[bytes]) -> None:
        for start, array in pieces:
            stream.write(b"\0" * (start - stream.tell()))
            stream.write(numpy_helper.from_array(array).raw_data)

    return write


def _length(array: Array, number: int) -> int:
    """Number of bytes of the contents; elements of fewer than eight bits share one."""
    name = TensorProto.DataType.Name(number)
    bits = next((int(end) for end in ("4", "2") if name.endswith(f"INT{end}")), 4 if name == "FLOAT4E2M1" else 0)
    return -(-array.size * bits // 8) if bits else array.nbytes
