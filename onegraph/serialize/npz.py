"""Reads and writes ``.npz`` files of named arrays; it unpickles nothing and reads no more bytes than expected."""

from __future__ import annotations

import math
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._util.atomic_write import write_atomically
from .._util.counted import counted
from .._util.interpreter_tricks import blake2b
from .._util.mapped_file import MappedFile
from ..arrays.ndarrays import ALIGNMENT, aligned_empty
from ..builder.graph import DataGraph
from ..errors import ArgumentError, FormatError, shown
from ..ir.op import Array, LogicalTensor
from ..opset.shapes import compatible, show

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAX_NAME = 2**16 - 1 - len(".npy")  # bytes; archives store the length in 16 bits
ARCHIVE = "an archive as numpy.savez writes it"
LOCAL_HEADER, ZIP64_FIELD = 30, 20  # bytes in front of a member: without its name, and of the field with its size
PADDING = 0xD935  # the key of a field of zeros, as Android's zipalign writes it


def read_inputs(path: str | os.PathLike[str], graph: DataGraph) -> dict[str, Array]:
    """Read the inputs of a graph from an ``.npz`` file, by name; see :func:`read_tensors`."""
    return read_tensors(path, graph.inputs, "input")


def read_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, LogicalTensor], noun: str, *, whole: bool = True
) -> dict[str, Array]:
    """Read an array for each tensor from an ``.npz`` file, by name; ``noun`` names the tensors in messages.

    ``whole`` is as for :func:`names_to_read`.

    An array of a type that numpy lacks, such as bf16, may be stored as plain bytes, as numpy writes it, or as unsigned
    integers of the same size.

    Raises:
        FormatError: the file cannot be read, or an array is missing, unknown, or does not fit its tensor.
    """
    place = Path(path)
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise FormatError(str(place), "not a regular file", ARCHIVE)
        with zipfile.ZipFile(place) as archive:
            refuse_twice(archive, place)
            members = {item.filename.removesuffix(".npy"): item for item in archive.infolist()}
            names = names_to_read(members, tensors, place, noun, whole=whole)
            return {name: _read(archive, members[name], place, name, tensors[name]) for name in names}
    except OSError as error:
        raise FormatError(str(place), error.strerror or str(error), "a file that can be read") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(str(place), shown(str(error)), ARCHIVE) from None


def names_to_read(
    members: Collection[str], tensors: Mapping[str, LogicalTensor], place: Path, noun: str, *, whole: bool = True
) -> list[str]:
    """The names of the tensors that a file has.

    Args:
        members: names in the file.
        tensors: by name.
        place: the file.
        noun: names the tensors in messages.
        whole: whether the file must have all of them and no others; else it must have one of them.

    Raises:
        FormatError: a name is missing or unknown.
    """
    for name in members if whole else ():
        if name not in tensors:
            choices = (
                "; strict=False leaves other arrays out"
                if noun == "variable" and not tensors.keys().isdisjoint(members)
                else ""
            )
            raise FormatError(f"{place}: {name}", f"unknown {noun}", f"one of {', '.join(tensors) or 'none'}{choices}")
    for name in tensors if whole else ():
        if name not in members:
            raise FormatError(f"{place}: {name}", "missing", f"an array for each {noun} of the graph")
    names = [name for name in tensors if name in members]
    if not names and (tensors or members):
        expected = (
            f"one of {', '.join(tensors)} at least" if tensors else f"a graph that has {noun}s, and not constants alone"
        )
        raise FormatError(str(place), f"no {noun} of the graph", expected)
    return names


def refuse_twice(archive: zipfile.ZipFile, place: Path) -> None:
    """Raise FormatError if an archive has two members of one name, of which readers take different ones."""
    names = Counter([name.removesuffix(".npy") for name in archive.namelist()])
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise FormatError(f"{place}: {twice}", "stored twice", "one array of each name")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path, name: str, tensor: LogicalTensor) -> Array:
    """Read one array; its header is checked against the input before memory is allocated."""
    where, wanted = f"{place}: {name}", tensor.dtype.numpy
    if member.compress_type not in METHODS:
        raise FormatError(where, "compressed in another way", ARCHIVE)
    with archive.open(member) as stream:
        shape, fortran, stored = read_header(stream, where)
        size = wanted.itemsize
        # numpy writes an array of a type it does not know as untyped bytes
        plain = wanted.isbuiltin != 1 and stored in (np.dtype(f"V{size}"), np.dtype(f"u{size}"))
        if not plain and stored.newbyteorder("=") != wanted:
            raise FormatError(where, f"data type {stored}", f"{tensor.dtype}, numpy's {wanted}")
        if not compatible(shape, tensor.shape):
            raise FormatError(where, f"shape {show(shape)}", show(tensor.shape))
        values = read_elements(stream, shape, stored, where).reshape(shape, order="F" if fortran else "C")
    made = aligned_empty(shape, wanted)
    made[...] = values.view(wanted) if plain else values
    return made


def read_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read the header of a ``.npy`` array: shape, whether the order is Fortran's, and data type.

    Raises:
        FormatError: the header is invalid, or the array does not hold numbers.
    """
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, stored = read(stream)
        if stored.hasobject or stored.names is not None:
            raise ValueError(f"data type {stored}")
        if not all(type(dim) is int and dim >= 0 for dim in shape):  # numpy accepts a bool as a dim
            raise ValueError(f"shape {shape}")
    except Exception as error:  # numpy evaluates the header as a literal, which may raise anything
        raise FormatError(where, shown(str(error)), "an array of numbers as numpy.save writes it") from None
    return shape, fortran, stored


def read_elements(stream: IO[bytes], shape: tuple[int, ...], stored: np.dtype[Any], where: str) -> Array:
    """Read the elements after the header as a flat array; memory is only used for bytes that the stream has.

    Raises:
        FormatError: the stream has too few bytes.
    """
    length = math.prod(shape) * stored.itemsize
    contents = stream.read(length)
    if len(contents) != length:
        raise FormatError(where, counted(len(contents), "byte"), f"{length}")
    return np.frombuffer(contents, stored)


def mapped_elements(
    contents: memoryview,
    member: zipfile.ZipInfo,
    start: int,
    shape: tuple[int, ...],
    stored: np.dtype[Any],
    where: str,
) -> Array:
    """The elements of an array in an archive that is mapped into memory, as a flat read-only array.

    Args:
        contents: of the archive.
        member: the array, not compressed.
        start: bytes of its header.
        shape, stored: what the header says.
        where: the array, for messages.

    Raises:
        FormatError: the archive has too few bytes for the array, or others than it was written with.
    """
    first = member.header_offset + LOCAL_HEADER
    first += sum(struct.unpack("<HH", contents[first - 4 : first]))  # the name, and further fields
    whole, length = contents[first : first + member.file_size], math.prod(shape) * stored.itemsize
    if len(whole) < start + length:
        raise FormatError(where, f"{max(0, len(whole) - start)} bytes", f"{length}")
    if zlib.crc32(whole) != member.CRC:
        raise FormatError(where, "other bytes than were written", "the contents that the checksum belongs to")
    return np.frombuffer(whole, stored, math.prod(shape), start)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write named arrays atomically to an ``.npz`` file that ``numpy.load`` reads.

    An array of a type that numpy lacks, such as bf16, is written as unsigned integers with the same bytes.

    Raises:
        ArgumentError: the path has no file name, or an archive cannot store the name of an array.
        FormatError: the file cannot be written.
    """
    place = Path(path)
    if not place.name:
        raise ArgumentError(f"{shown(str(path))} is not the name of a file")
    write_atomically(place, lambda stream: write_archive(stream, arrays))


def write_archive(stream: IO[bytes], arrays: Mapping[str, Array]) -> tuple[str, int]:
    """Write named arrays as an ``.npz`` archive to a stream; see :func:`write_arrays`.

    The elements of each array start at a multiple of 64 bytes, so that they can be used where they lie in the file.

    Returns:
        the digest, as of :func:`digest_of_archive`, and the checksum, as of :func:`contents_of`.
    """
    archive = zipfile.ZipFile(stream, "w", allowZip64=True)
    try:
        for name, values in arrays.items():
            # 2 is a type of another package. numpy's own types have 1, or 0 after they were pickled.
            plain = values if values.dtype.isbuiltin != 2 else values.view(f"u{values.dtype.itemsize}")
            with archive.open(_aligned(_member(name), stream.tell()), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)
        archive.close()
        return _digest(archive), contents_of(archive)
    finally:
        archive.fp = None  # after a failure, closing the archive again would raise a second error


def open_archive(mapped: MappedFile) -> zipfile.ZipFile:
    """The archive in a mapped file.

    Raises:
        BadZipFile: it is no archive.
    """
    return zipfile.ZipFile(open(mapped.descriptor, "rb", closefd=False))


def digest_of_archive(mapped: MappedFile) -> str:
    """A digest of the names, sizes and checksums of all members; it takes no reading of the contents.

    Raises:
        BadZipFile: it is no archive.
    """
    with open_archive(mapped) as archive:
        return _digest(archive)


def _digest(archive: zipfile.ZipFile) -> str:
    members = sorted((one.filename, one.file_size, one.CRC) for one in archive.infolist())
    return blake2b(repr(members).encode(), digest_size=16).hexdigest()


def contents_of(archive: zipfile.ZipFile) -> int:
    """A checksum of the names and contents of all members, as older versions write it."""
    return zlib.crc32(repr(sorted((one.filename, one.CRC) for one in archive.infolist())).encode())


def _aligned(name: str, place: int) -> zipfile.ZipInfo:
    """A member of an archive whose contents start at a multiple of 64 bytes, if its header is at ``place``."""
    member = zipfile.ZipInfo(name)
    start = place + LOCAL_HEADER + len(name.encode()) + ZIP64_FIELD + 4
    member.extra = struct.pack("<HH", PADDING, -start % ALIGNMENT) + bytes(-start % ALIGNMENT)
    return member


def _member(name: str) -> str:
    """The file name in the archive of the array ``name``."""
    try:
        fits = "\0" not in name and len(name.encode()) <= MAX_NAME
    except UnicodeEncodeError:  # a lone surrogate
        fits = False
    if not fits:
        raise ArgumentError(f"array {shown(name)}: expected a name of at most {MAX_NAME} bytes of UTF-8 without NUL")
    return f"{name}.npy"
