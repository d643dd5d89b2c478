"""Places arrays in memory that ends at a page which nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from ...ir.op import Array


def at_page_end(array: Array) -> Array:
    """A copy of a dense array whose last byte lies before a page that can be neither read nor written."""
    pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(ctypes.c_void_p(start + pages), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    copy = np.frombuffer(memory, np.uint8, array.nbytes, pages - array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
