"""Arrays in memory between pages that nobody may touch, where guard.c is preloaded."""

import ctypes
import mmap
import os
import subprocess
import weakref
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("guard.c")
IS_LOADED = "guard" in os.path.basename(os.environ.get("LD_PRELOAD", ""))
BUILD = Path(__file__).parents[2] / "build" / "guard"


def compiled(folder=BUILD):
    """The path of the library to preload, compiled anew if its source has changed."""
    target = Path(folder) / "guard.so"
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        options = ["-O1", "-Wall", "-Wno-nonnull-compare", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", target, SOURCE, "-ldl"], check=True)
    return target


def placed(array):
    """A copy of an array that ends, or begins, at such a page; the array itself where guard.c is not preloaded."""
    if not IS_LOADED or not array.nbytes:
        return array
    library = ctypes.CDLL(None)
    library.guard_allocate.restype = ctypes.c_void_p
    library.guard_allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    library.guard_deallocate.argtypes = [ctypes.c_void_p]
    address = library.guard_allocate(array.nbytes, array.itemsize)
    buffer = (ctypes.c_char * array.nbytes).from_address(address)
    weakref.finalize(buffer, library.guard_deallocate, address)
    copy = np.frombuffer(buffer, np.uint8).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Guarded:
    """A copy of an array, with its strides, that ends at a page which nobody may touch, and begins behind zeros."""

    _protect = ctypes.CDLL(None).mprotect

    def __init__(self, array):
        low, high = np.lib.array_utils.byte_bounds(array)
        room = -(-(high - low) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, room + mmap.PAGESIZE)
        whole = np.frombuffer(memory, np.uint8)
        assert not self._protect(ctypes.c_void_p(whole.ctypes.data + room), mmap.PAGESIZE, 0)
        self._before = whole[: room - (high - low)]
        start = len(self._before) + array.__array_interface__["data"][0] - low
        self.array = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
        self.array[...] = array

    def is_clean_before(self):
        """Whether nothing was written before the copy."""
        return not self._before.any()
