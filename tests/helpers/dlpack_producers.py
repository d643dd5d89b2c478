"""Producers of DLPack capsules, independent of the reader: bytes at the offsets of dlpack.h on 64-bit machines."""

import ctypes

import numpy as np

DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
IS_VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
NAME = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
LENT = {}  # the producers by the address of their lent tensor, until it is deleted


@DESTRUCTOR
def delete(managed):
    LENT.pop(managed).deleted += 1


@DESTRUCTOR
def destroy(capsule):
    """Delete the tensor of a capsule that no consumer took."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if IS_VALID(capsule, name):
            LENT.pop(POINTER(capsule, name)).deleted += 1


CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Producer:
    """A tensor over the memory of an array; ``deleted`` counts the calls of its deleter."""

    def __init__(self, memory, *, versioned=True, code=None, bits=None, lanes=1, device=1, **fields):
        self.memory, self.versioned, self.device = memory, versioned, device
        self.code = CODES[memory.dtype.kind] if code is None else code
        self.bits = 8 * memory.itemsize if bits is None else bits
        self.lanes, self.fields = lanes, fields
        self.deleted = 0
        self.asked = []

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.capsule()

    def capsule(self):
        get = self.fields.get
        dims = get("shape", self.memory.shape)
        steps = get("strides", tuple(step // self.memory.itemsize for step in self.memory.strides))
        shape = (ctypes.c_int64 * len(dims))(*dims)
        strides = (ctypes.c_int64 * len(dims))(*steps or [0] * len(dims))
        tensor = b"".join(
            [
                get("data", self.memory.__array_interface__["data"][0]).to_bytes(8, "little"),
                get("tensor_device", self.device).to_bytes(4, "little"),
                bytes(4),
                get("ndim", len(dims)).to_bytes(4, "little", signed=True),
                bytes([self.code, self.bits]) + self.lanes.to_bytes(2, "little"),
                ctypes.addressof(shape).to_bytes(8, "little"),
                (0 if steps is None else ctypes.addressof(strides)).to_bytes(8, "little"),
                get("byte_offset", 0).to_bytes(8, "little"),
            ]
        )
        deleter = ctypes.cast(delete, ctypes.c_void_p).value if get("deleter", True) else 0
        end = bytes(8) + deleter.to_bytes(8, "little")
        if self.versioned:
            head = get("major", 1).to_bytes(4, "little") + bytes(4)
            name, whole = b"dltensor_versioned", head + end + get("flags", 0).to_bytes(8, "little") + tensor
        else:
            name, whole = b"dltensor", tensor + end
        managed = ctypes.create_string_buffer(whole, len(whole))
        self._lent = managed, shape, strides
        LENT[ctypes.addressof(managed)] = self
        return NEW(ctypes.addressof(managed), name, ctypes.cast(destroy, ctypes.c_void_p))


class OldProducer(Producer):
    def __dlpack__(self, stream=None):
        return self.capsule()


class Fixed(Producer):
    """Gives the same capsule on each request, against the protocol."""

    def __dlpack__(self, **options):
        if not hasattr(self, "kept"):
            self.kept = self.capsule()
        return self.kept


class Wrapped:
    """The DLPack side of a numpy array."""

    def __init__(self, data):
        self.__dlpack__, self.__dlpack_device__ = data.__dlpack__, data.__dlpack_device__


def numbers(dtype=np.float32, shape=(2, 3)):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
