"""Arrays in memory between pages that nobody may touch, where guard.c is preloaded."""

import ctypes
import mmap
import os
import subprocess
import weakref
from collections import defaultdict
from pathlib import Path
from typing import ClassVar

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
    """A copy of an array, with its strides, between pages that nobody may touch.

    It ends at such a page, or begins behind one. All bytes around its elements are 0xff, which is NaN in every float
    type. Copies take over the memory of those that are gone.
    """

    _protect = ctypes.CDLL(None).mprotect
    _free: ClassVar = defaultdict(list)  # memory by its size

    def __init__(self, array, *, at_begin=False):
        low, high = np.lib.array_utils.byte_bounds(array)
        room = -(-(high - low) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = self._free[room].pop() if self._free[room] else self._new(room)
        weakref.finalize(self, self._free[room].append, memory)
        self._around = np.frombuffer(memory, np.uint8, room, mmap.PAGESIZE)
        self._around[...] = 0xFF
        start = array.__array_interface__["data"][0] - low + (0 if at_begin else room - (high - low))
        self.array = np.ndarray(array.shape, array.dtype, self._around, start, array.strides)
        self.array[...] = array

    @classmethod
    def _new(cls, room):
        memory = mmap.mmap(-1, room + 2 * mmap.PAGESIZE)
        start = np.frombuffer(memory, np.uint8).ctypes.data
        for page in (start, start + mmap.PAGESIZE + room):
            assert not cls._protect(ctypes.c_void_p(page), mmap.PAGESIZE, 0)
        return memory

    def is_clean(self):
        """Whether all bytes around the elements are as they were."""
        kept, bits = self.array.copy(), f"u{self.array.itemsize}"
        if self.array.size:
            self.array.view(bits)[...] = np.iinfo(bits).max
        is_clean = bool((self._around == 0xFF).all())
        self.array[...] = kept
        return is_clean
