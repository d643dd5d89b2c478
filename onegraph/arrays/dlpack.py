"""Exchanges memory with other libraries through DLPack, in both directions.

The structures and the rules of ownership follow ``dlpack.h`` 1.1 and the Python specification of DLPack. This module
reads capsules itself because ``numpy.from_dlpack`` supports neither bfloat16 nor the 8-bit floats.
"""

from __future__ import annotations

import ctypes
import math
import operator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..errors import class_of
from ..ir.op import Array
from ..ir.tensor_type import MAX_SIZE
from ..opset.dtypes import DataType

MAX_VERSION = (1, 1)
MAX_DLPACK_RANK = 32  # limit of numpy 1
READ_ONLY = 1
PADDED = 4  # flag: each element of fewer than 8 bits takes a whole byte
HOST = (1, 3, 11)  # device types: CPU, and host memory pinned by CUDA and by ROCm
DEVICES = {2: "CUDA", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}
DTYPES: dict[tuple[int, int], np.dtype[Any]] = {
    # (type code, bits): signed, unsigned, floating-point and complex numbers
    **{(code, 8 * size): np.dtype(f"{kind}{size}") for code, kind in ((0, "i"), (1, "u")) for size in (1, 2, 4, 8)},
    **{(2, 8 * size): np.dtype(f"f{size}") for size in (2, 4, 8)},
    **{(5, 8 * size): np.dtype(f"c{size}") for size in (8, 16)},
    (4, 16): DataType.bf16.numpy,
    (6, 8): DataType.boolean.numpy,
    (10, 8): DataType.f8_e4m3.numpy,
    (12, 8): DataType.f8_e5m2.numpy,
    (14, 8): DataType.e8m0.numpy,
    (0, 4): DataType.s4.numpy,
    (1, 4): DataType.u4.numpy,
    (17, 4): DataType.f4_e2m1.numpy,
}

# The data types that numpy does not export, with whole bytes.
CODES = {dtype: key for key, dtype in DTYPES.items() if dtype.isbuiltin != 1 and key[1] >= 8}


class _Tensor(ctypes.Structure):
    """``DLTensor``, with the fields of its device and data type inlined."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """``DLManagedTensor``, used before DLPack 1.0."""

    _fields_ = (("tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))
    major, flags = 1, 0


class _ManagedVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``. Another major version may change the fields after the deleter."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API. ``ctypes.pythonapi`` shares its function objects, argument types included."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_keep = _python("Py_IncRef", None, ctypes.py_object)
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # called with the GIL held, as numpy does

_KINDS: tuple[tuple[bytes, bytes, type[_Managed | _ManagedVersioned]], ...] = (
    (b"dltensor_versioned", b"used_dltensor_versioned", _ManagedVersioned),
    (b"dltensor", b"used_dltensor", _Managed),
)
for _names in _KINDS:
    _keep(_names[1])  # a capsule stores a pointer to its name and may outlive this module


class _Owner:
    """The owner of a producer's memory. It calls the deleter once, when no array views the memory any more."""

    __slots__ = ("__array_interface__", "_delete", "_managed")
    __array_interface__: dict[str, object]

    def __init__(self, managed: int, deleter: int | None) -> None:
        self._managed = managed
        self._delete = _Deleter(deleter) if deleter else None

    def release(self) -> None:
        delete, self._delete = self._delete, None
        if delete is not None:
            delete(self._managed)

    __del__ = release


def from_dlpack(value: Any) -> Array:
    """View the memory of an object with ``__dlpack__`` as an array, without a copy.

    The array keeps the memory alive. It is read-only if the producer marks the memory so, which needs DLPack 1.0.

    Raises:
        BufferError: the memory is not CPU memory, or numpy cannot represent the tensor.
        Exception: any exception of the producer.
    """
    device = int(value.__dlpack_device__()[0])
    if device not in HOST:
        where = DEVICES.get(device, "another device")
        raise BufferError(f"it is in memory of {where} (DLPack device type {device}); copy it to the CPU first")
    negated = getattr(value, "is_neg", None)  # torch delays a negation and would export the memory without it
    if negated is not None and negated():
        raise BufferError("its negative bit is set; pass tensor.resolve_neg()")
    try:
        capsule = value.__dlpack__(max_version=MAX_VERSION)
    except TypeError:  # a producer older than DLPack 1.0 does not accept max_version
        capsule = value.__dlpack__()
    managed, owner = _take(capsule)
    try:
        return _view(managed, owner)
    except BaseException:
        owner.release()
        raise


def _take(capsule: object) -> tuple[_Managed | _ManagedVersioned, _Owner]:
    """Take ownership of the tensor in a capsule; the caller must release it."""
    for name, used, kind in _KINDS:
        if _is_valid(capsule, name):
            steps = partial(_pointer, capsule, name), partial(_set_name, capsule, used)
            with suppress(ValueError):  # another consumer has renamed the capsule
                # Read and rename in one interpreter step, so that only one of several consumers gets the tensor.
                address, _ = map(partial.__call__, steps)
                managed = kind.from_address(address)
                return managed, _Owner(address, managed.deleter)
    if any(_is_valid(capsule, name) for *names, _ in _KINDS for name in names):
        raise BufferError("its DLPack capsule was consumed before")
    raise BufferError(f"__dlpack__ returned {class_of(capsule)}; expected a DLPack capsule")


def _view(managed: _Managed | _ManagedVersioned, owner: _Owner) -> Array:
    if managed.major != MAX_VERSION[0]:
        raise BufferError(f"DLPack {managed.major}; expected {MAX_VERSION[0]}")
    tensor, flags = managed.tensor, managed.flags
    if tensor.device_type not in HOST:
        raise BufferError(f"DLPack device type {tensor.device_type}; expected memory of the CPU")
    dtype = DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        type_text = f"code {tensor.code} of {tensor.bits} bits in {tensor.lanes} lanes"
        raise BufferError(f"DLPack data type {type_text}; expected {', '.join(map(str, DataType))}")
    if tensor.bits < 8 and not flags & PADDED:
        raise BufferError(f"{dtype} packed into bytes; expected a byte for each element")
    shape, strides, size = _layout(tensor, dtype.itemsize)
    if 0 in shape:
        owner.release()
        return np.empty(shape, dtype)
    if not tensor.data:
        raise BufferError("it has no memory, as a tensor that is not computed yet")
    address = tensor.data + tensor.byte_offset
    if address + size >= 2**63:
        raise BufferError(f"shape {shape} and strides {strides} bytes lead out of memory")
    owner.__array_interface__ = {
        "version": 3,
        "data": (address, flags & READ_ONLY != 0),
        "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
        "shape": shape,
        "strides": strides,
    }
    array = np.asarray(owner)
    return array if array.dtype == dtype else array.view(dtype)


def _layout(tensor: _Tensor, itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...] | None, int]:
    """Shape, strides in bytes (None for dense row-major), and number of bytes from the first to the last element."""
    rank = tensor.ndim
    if rank == 0:
        return (), None, itemsize
    if not 0 < rank <= MAX_DLPACK_RANK or not tensor.shape:
        raise BufferError(f"rank {rank}; expected a shape of at most {MAX_DLPACK_RANK} dims")
    integers = ctypes.c_int64 * rank
    shape = tuple(integers.from_address(tensor.shape)[:])
    if min(shape) < 0 or math.prod(filter(None, shape)) >= MAX_SIZE:
        raise BufferError(f"shape {shape}; expected dims of 0 or more, and fewer than 2**60 elements")
    if not tensor.strides:
        return shape, None, math.prod(shape) * itemsize
    # The stride of an axis of size 1 is never used and may have any value.
    declared = integers.from_address(tensor.strides)[:]
    strides = [stride if dim > 1 else 0 for dim, stride in zip(shape, declared, strict=True)]
    if min(strides) < 0:
        raise BufferError(f"strides {strides}; expected none below 0: make a contiguous copy first")
    size = sum(map(operator.mul, shape, strides)) - sum(strides) + 1
    return shape, tuple([stride * itemsize for stride in strides]), size * itemsize


class DLPackArray:
    """A numpy array with DLPack for every data type that has whole bytes; numpy exports its own types only."""

    __slots__ = ("_array", "_bytes")

    def __init__(self, array: Array) -> None:
        self._array = array
        own = array.dtype not in CODES
        # numpy exports the same memory as integers; ``__dlpack__`` then writes the real type into the structure.
        self._bytes: Any = array if own else array.view(f"u{array.dtype.itemsize}")

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return HOST[0], 0

    def __dlpack__(self, **options: Any) -> object:
        """A capsule with the memory of the array, which the consumer keeps alive."""
        capsule = self._bytes.__dlpack__(**options)
        if self._bytes is not self._array:
            for name, _, kind in _KINDS:
                if _is_valid(capsule, name):
                    tensor = kind.from_address(_pointer(capsule, name)).tensor
                    tensor.code, tensor.bits = CODES[self._array.dtype]
        return capsule
