"""Reads and writes graph files: the JSON file, and beside it the ``.npz`` file with the contents of constants."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from .._util.atomic_write import FilePart, TornError, hidden, write_together
from .._util.counted import counted
from .._util.exact_types import has_type
from .._util.mapped_file import MappedFile, NotRegularError, SourceFiles
from .._util.paths import path_of
from ..arrays.ndarrays import aligned_empty
from ..errors import ArgumentError, FormatError, shown
from ..ir.op import Array
from ..opset.dtypes import DataType
from .document import Document, TensorForm
from .json_text import MAX_BYTES
from .names import Names
from .npz import (
    ARCHIVE,
    digest_of_archive,
    mapped_elements,
    open_archive,
    read_elements,
    read_header,
    refuse_twice,
    write_archive,
)

SAVED = "the file that was saved together with the file that names it; save or copy both"
BESIDE = "the file with the constants, beside the JSON file"


def as_path(path: object) -> Path:
    """``path`` as the Path of a graph file; ArgumentError if it has no name or ends in ``.npz``."""
    path_ = path_of("path", path, "the path of a JSON file")
    if not path_.name or path_.suffix == ".npz":
        raise ArgumentError(f"path: {shown(str(path_))}; expected the path of a JSON file")
    return path_


def read_file(path: Path, files: SourceFiles | None = None) -> bytes:
    """The contents of a file of at most ``MAX_BYTES``.

    Args:
        path: of the file.
        files: open it.

    Raises:
        FormatError: the file cannot be read, is not a regular file, or is too large.
    """
    try:
        mapped = (files or SourceFiles()).open(path)
        if mapped is not None and len(mapped) > MAX_BYTES:
            raise FormatError(str(path), counted(len(mapped), "byte"), f"at most {MAX_BYTES}")
        return b"" if mapped is None else mapped[:]
    except NotRegularError:
        raise FormatError(str(path), "not a regular file", "a file") from None
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a file that can be read") from None


def write_files(path: Path, text: Callable[[str], str], data: Path, arrays: Mapping[str, Array]) -> None:
    """Write a file and, if there are arrays, an archive to ``data``; a failed write changes neither.

    Args:
        path: of the file.
        text: makes its contents from the digest of the archive, which is empty if there is none.
        data, arrays: the archive.

    Raises:
        FormatError: a file cannot be written.
    """
    digests = [""]

    def write(stream: IO[bytes]) -> str:
        digests.append(write_archive(stream, arrays)[0])
        return digests[-1]

    parts = [FilePart(data, write)] if arrays else []
    write_together(parts, path, lambda stream: stream.write(text(digests[-1]).encode() + b"\n"))


def open_part(
    files: SourceFiles, place: Path, digest: str | None, digest_of: Callable[[MappedFile], str]
) -> tuple[MappedFile, bool]:
    """The file at a place, or the one that a writer is about to move there, and whether it has the digest.

    Args:
        files: open it.
        place: of the part.
        digest: that the head has; None in heads of older versions.
        digest_of: computes it.

    Raises:
        TornError: the part is missing.
        FormatError: the part is no regular file, or empty.
    """
    places = [place] if digest is None else [place, hidden(Path(os.path.realpath(place)), digest)]
    failed: OSError | None = None
    opened: list[MappedFile] = []
    for path in places:
        try:
            mapped = files.open(path)
        except NotRegularError:
            raise FormatError(str(place), "not a regular file", "a file") from None
        except OSError as error:
            failed = failed or error
            continue
        if mapped is None:
            raise FormatError(str(place), "an empty file", ARCHIVE)
        opened.append(mapped)
        if digest is None or digest_of(mapped) == digest:
            return mapped, True
    if not opened:
        raise TornError(str(place), "missing" if failed is None else failed.strerror, BESIDE)
    return opened[0], False


def read_constants(path: Path, doc: Document, names: Names, files: SourceFiles | None = None) -> dict[int, Array]:
    """The contents of the constants, by tensor id.

    Args:
        path, doc, names: the JSON file and its contents.
        files: open the archive, in which the arrays then lie, mapped into memory; None for copies of the arrays.

    Raises:
        TornError: the archive has other contents than the JSON file says.
        FormatError: the archive is missing or broken, or a constant in it does not fit the JSON file.
    """
    if names.data is None:
        return {}
    place = path.with_name(names.data)
    uses: dict[int, TensorForm] = {use.id: use for use in names.tensors}
    for op in doc.ops:
        uses.update((use.id, use) for use in (*op.inputs, *op.outputs))
    arrays: dict[int, Array] = {}
    with explained_archive(place):
        mapped, is_right = open_part(files or SourceFiles(), place, names.digest, digest_of_archive)
        with torn_unless(is_right, place, SAVED), open_archive(mapped) as archive:
            refuse_twice(archive, place)
            contents = None if files is None else memoryview(mapped)
            for number in (*names.constants, *names.variables):
                if number not in uses:
                    key = "constants" if number in names.constants else "variables"
                    raise FormatError(f"onegraph.{key}", f"tensor {number}", "a tensor of an op")
                arrays[number] = _read_constant(archive, place, uses[number], contents)
    return arrays


@contextmanager
def torn_unless(is_right: bool, place: Path, expected: str) -> Iterator[None]:
    """A block that reads a part and ends in a TornError unless the part has the right digest.

    What is wrong with the part tells more than that it is another one.
    """
    try:
        yield
    except FormatError as error:
        if is_right:
            raise
        raise TornError(error.where, error.given, error.expected) from None
    if not is_right:
        raise TornError(str(place), "other contents", expected)


@contextmanager
def explained_archive(place: Path, expected: str = BESIDE) -> Iterator[None]:
    """A block in which the errors of an archive become a FormatError that names it."""
    try:
        yield
    except OSError as error:
        raise FormatError(str(place), error.strerror or str(error), expected) from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        if has_type(error, FormatError):
            raise
        raise FormatError(str(place), shown(str(error)), ARCHIVE) from None


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
        if shape != use.shape or stored != plain or fortran:
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
