"""Knows the arrays that lie in mapped files, and gives their pages back to the system.

Pages that are given back cost nothing but time: the system reads them from the file again when they are needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._util.counted import counted
from .._util.mapped_file import MappedFile
from ..errors import FormatError
from ..ir.op import Array

# Arrays of fewer bytes share pages with others, or are about as small as the pages of their ends.
LEAST_BYTES = 1 << 16


class Pages(NamedTuple):
    """Whole pages of a mapped file: the address of the first one, and their size in bytes."""

    address: int
    size: int


def file_of(array: Array) -> MappedFile | None:
    """The mapped file that an array lies in; None if it lies elsewhere."""
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, MappedFile) else None


def pages_of(array: Array) -> Pages | None:
    """The pages that a dense array in a mapped file takes; None if it lies elsewhere, or is small."""
    file = file_of(array) if array.nbytes >= LEAST_BYTES else None
    if file is None:
        return None
    begin = _address(array)
    end = min(begin + array.nbytes, file.address + len(file))  # a view may repeat its elements
    first = begin - begin % mmap.PAGESIZE
    return Pages(first, -(-(end - first) // mmap.PAGESIZE) * mmap.PAGESIZE)


def give_back(arrays: Iterable[Array]) -> None:
    """Give the pages of those arrays back that lie in mapped files. Their contents stay the same."""
    for array in arrays:
        pages, file = pages_of(array), file_of(array)
        if pages is not None:
            assert file is not None
            file.give_back_part(pages.address - file.address, pages.size)


def refuse_shortened(arrays: Iterable[Array]) -> None:
    """Raise FormatError if a mapped file has become shorter, because reading it would end the process."""
    for file in {id(file): file for array in arrays if (file := file_of(array)) is not None}.values():
        expected = f"the {counted(len(file), 'byte')} that it had when the model was loaded; load the model again"
        try:
            size = file.size()
        except OSError as error:
            raise FormatError(file.path, error.strerror or str(error), expected) from None
        if size < len(file):
            raise FormatError(file.path, f"a file that became shorter: {size} bytes", expected)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
