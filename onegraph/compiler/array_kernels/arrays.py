"""Calls kernels on dense arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from ...ir.op import Array
from ...native.library import address, array_run, lib, status_error

TYPES = {
    np.dtype(name): int(getattr(lib, f"onegraph_type_{code}"))
    for name, code in {
        "float32": "f32",
        "float64": "f64",
        "int8": "s8",
        "uint8": "u8",
        "int16": "s16",
        "uint16": "u16",
        "int32": "s32",
        "uint32": "u32",
        "int64": "s64",
        "uint64": "u64",
    }.items()
}
MOVED = {
    1: int(lib.onegraph_type_byte),
    2: int(lib.onegraph_type_half),
    4: TYPES[np.dtype("u4")],
    8: TYPES[np.dtype("u8")],
}
NARROW = frozenset(["float16", "bfloat16"])
MOST_ELEMENTS = 2**31 - 1  # of a plane or an axis, whose places are 32-bit integers
OUT_OF_MEMORY = int(lib.dnnl_out_of_memory)


class Limit(threading.local):
    """The largest number of threads of the run in this thread; 0 leaves it to OpenMP's setting."""

    threads = 0


LIMIT = Limit()


@cache
def _kernel(name: str) -> int:
    kernel = lib.onegraph_array_kernel_named(name.encode())
    assert kernel, name
    return address(kernel)


def is_number(array: Array) -> bool:
    """Whether kernels compute with the elements of an array."""
    return array.dtype in TYPES


def is_narrow(array: Array) -> bool:
    """Whether an array has floats of 16 bits, which kernels compute with in f32."""
    return array.dtype.name in NARROW


def dense(array: Array, dtype: np.dtype[np.generic] | None = None) -> Array:
    """An array whose elements lie one behind another at aligned addresses: the array itself, or a copy."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and (dtype is None or array.dtype == dtype) and type(array) is np.ndarray:
        return array
    return np.require(array, dtype, ["C", "A"])


def wide(array: Array) -> Array:
    """A dense array of f32 for one of 16-bit floats, else the dense array."""
    return dense(array, np.dtype(np.float32)) if is_narrow(array) else dense(array)


def place_for(results: Sequence[Array], index: int, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """Memory for a result: the array that the caller wants it in, if it is dense and of this type, else a new one."""
    if index < len(results):
        result = results[index]
        if (
            result.shape == tuple(shape)
            and result.dtype == dtype
            and result.flags.c_contiguous
            and result.flags.aligned
        ):
            return result
    return np.empty(shape, dtype)


def run(
    name: str,
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
    numbers: Sequence[float] = (),
    *,
    ports: Sequence[str] = (),
    moves: bool = False,
) -> int:
    """Run a kernel; returns the number that it answers, if it does.

    Args:
        name: of the kernel in C.
        inputs: dense arrays; None for one that is absent.
        outputs: dense arrays that are written.
        numbers: what else the kernel takes.
        ports: the names of the inputs, for errors.
        moves: whether the kernel moves the elements of the arrays other than indices, whatever their data type is.

    Raises:
        IndexError: an index is out of range; the text names the input, the place and the index.
        ValueError: the contents do not fit the kernel.
        MemoryError: there is not enough memory.
    """
    arrays = [*inputs, *outputs]
    return run_typed(name, arrays, [0 if one is None else _type(one, moves) for one in arrays], [*numbers], ports)


def run_typed(
    name: str, arrays: list[Array | None], types: list[int], numbers: list[float], ports: Sequence[str] = ()
) -> int:
    """As :func:`run`, with the data types as C numbers them, which takes less time."""
    status, *answer = array_run(_kernel(name), arrays, types, numbers, LIMIT.threads)
    if not status:
        return int(answer[0])
    if status == lib.onegraph_bad_index:
        number, place, index = answer
        read = arrays[number]
        assert read is not None
        where = [int(coordinate) for coordinate in np.unravel_index(place, read.shape)]
        raise IndexError(f"index {index} at {where} of {ports[number]} is out of range")
    if status == OUT_OF_MEMORY:
        raise MemoryError(f"{name} needs more memory than there is")
    raise ValueError(str(status_error(f"kernel {name}", status)))


def _type(array: Array, moves: bool) -> int:
    return MOVED[array.dtype.itemsize] if moves and array.dtype.kind != "i" else TYPES[array.dtype]
