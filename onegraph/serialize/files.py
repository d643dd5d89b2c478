"""Reads and writes graph files: the JSON file, and beside it the ``.npz`` file with the contents of constants."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .._util.atomic_write import Write, write_together
from .._util.exact_types import has_type
from .._util.mapped_file import MappedFile
from .._util.paths import path_of
from ..arrays.ndarrays import aligned_empty
from ..errors import ArgumentError, FormatError, shown
from ..ir.op import Array
from ..opset.dtypes import DataType
from .document import Document, TensorForm
from .json_text import MAX_BYTES
from .names import Names
from .npz import ARCHIVE, mapped_elements, read_elements, read_header, refuse_twice, write_archive


def as_path(path: object) -> Path:
    """``path`` as the Path of a graph file; ArgumentError if it has no name or ends in ``.npz``."""
    found = path_of("path", path, "the path of a JSON file")
    if not found.name or found.suffix == ".npz":
        raise ArgumentError(f"path: {shown(str(found))}; expected the path of a JSON file")
    return found


def read_file(path: Path) -> bytes:
    """The contents of a file of at most ``MAX_BYTES``.

    Raises:
        FormatError: the file cannot be read, is not a regular file, or is too large.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(str(path), "not a regular file", "a file")
        if status.st_size > MAX_BYTES:
            raise FormatError(str(path), f"{status.st_size} bytes", f"at most {MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None


def write_files(path: Path, text: str, data: Path, arrays: Mapping[str, Array]) -> None:
    """Write ``text`` to ``path`` and, if there are arrays, an archive to ``data``; a failed write changes neither.

    Raises:
        FormatError: a file cannot be written.
    """
    files: list[tuple[Path, Write]] = [(path, lambda stream: stream.write(text.encode() + b"\n"))]
    if arrays:
        files.insert(0, (data, lambda stream: write_archive(stream, arrays)))
    write_together(files)


def read_constants(path: Path, found: Document, names: Names, *, mapped: bool = False) -> dict[int, Array]:
    """The contents of the constants, by tensor id.

    Args:
        path, found, names: the JSON file and its contents.
        mapped: whether the arrays lie in the file, mapped into memory, instead of in copies.

    Raises:
        FormatError: the archive is missing or broken, or a constant in it does not fit the JSON file.
    """
    if names.data is None:
        return {}
    place = path.with_name(names.data)
    uses: dict[int, TensorForm] = {use.id: use for use in names.tensors}
    for op in found.ops:
        uses.update((use.id, use) for use in (*op.inputs, *op.outputs))
    arrays: dict[int, Array] = {}
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise FormatError(str(place), "not a regular file", "a file")
        with place.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            refuse_twice(archive, place)
            contents = memoryview(MappedFile.of(stream.fileno(), place)) if mapped else None
            for number in (*names.constants, *names.variables):
                if number not in uses:
                    key = "constants" if number in names.constants else "variables"
                    raise FormatError(f"onegraph.{key}", f"tensor {number}", "a tensor of an op")
                arrays[number] = _read_constant(archive, place, uses[number], contents)
    except OSError as error:
        given = error.strerror or str(error)
        raise FormatError(str(place), given, "the file with the constants, beside the JSON file") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        if has_type(error, FormatError):
            raise
        raise FormatError(str(place), shown(str(error)), ARCHIVE) from None
    return arrays


def _read_constant(archive: zipfile.ZipFile, place: Path, use: TensorForm, contents: memoryview | None) -> Array:
    """Read one constant, or take it from the contents of the file.

    Its header is checked against the JSON before memory is allocated.
    """
    key = f"t{use.id}.npy"
    where = f"{place}: t{use.id}"
    try:
        member = archive.getinfo(key)
    except KeyError:
        raise FormatError(where, "missing", "the contents of a constant") from None
    if member.compress_type != zipfile.ZIP_STORED:
        raise FormatError(where, "compressed", ARCHIVE)
    dtype = use.dtype or DataType.f32
    plain = dtype.numpy if dtype.numpy.isbuiltin == 1 else np.dtype(f"u{dtype.numpy.itemsize}")
    with archive.open(member) as stream:
        shape, fortran, stored = read_header(stream, where)
        if use.shape is None or shape != use.shape or stored != plain or fortran:
            expected = f"{plain} of shape {use.shape} in C order, as {use.where} has it"
            raise FormatError(where, f"{stored} of shape {shape}", expected)
        if contents is not None and 0 not in shape:
            elements = mapped_elements(contents, member, stream.tell(), shape, plain, where)
            return elements.reshape(shape).view(dtype.numpy)
        elements = read_elements(stream, shape, plain, where)
    array = aligned_empty(shape, plain)
    array[...] = elements.reshape(shape)
    kept = array.view(dtype.numpy)
    kept.flags.writeable = False
    return kept
