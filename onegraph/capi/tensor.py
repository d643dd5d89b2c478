"""Tensors: logical tensors with the arrays that hold them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .._util.fork_safety import new_rlock, refuse_inner
from .._util.init_once import once
from .._util.validation import expect
from ..arrays.ndarrays import owners, strided
from ..errors import ArgumentError, StateError
from ..ir.op import Array
from ..native.library import Handle, address, address_of, call, create, ffi, lib, read
from ..opset.dtypes import DataType
from .engine import Engine, engine_at, engine_or_default
from .logical_tensor import LogicalTensor

PACKED = frozenset([DataType.s4, DataType.u4, DataType.f4_e2m1])  # two elements in a byte
_lock = new_rlock()  # of what every tensor is used for
_executions: weakref.WeakSet[Execution] = weakref.WeakSet()


class Execution:
    """One execution, and what it uses: these arrays stay where they are until it is done, or forgotten.

    An interrupt may come at any moment, so that nothing here relies on counting down.
    """

    __slots__ = ("__weakref__", "done", "thread")

    def __init__(self) -> None:
        self.done, self.thread = False, threading.get_ident()
        _executions.add(self)

    def use(self, tensors: Iterable[Tensor]) -> None:
        """Check the tensors and keep their arrays."""
        with _lock:
            for tensor in tensors:
                tensor._used_by(self)
                tensor.check()
                tensor._tell()


def _end_executions() -> None:
    """Of a forked child: the threads that were in them are gone."""
    for execution in list(_executions):
        if execution.thread != threading.get_ident():
            execution.done = True


os.register_at_fork(after_in_child=_end_executions)


class Tensor(Handle):
    """``dnnl_graph_tensor_t``: a logical tensor with data.

    Args:
        logical_tensor: strided or opaque, with every dim known.
        data: an array that holds it: C-contiguous, or with the very strides of the logical tensor. Of s4, u4 and
            f4_e2m1 it has two elements in each byte, the first in the low bits.
        engine: where the data lives; the default engine.

    Raises:
        ArgumentError: the array is too small, of another data type, or laid out in another way.
    """

    __slots__ = ("_executions", "_held", "_logical_tensor", "_nbytes", "_told")

    @once("_ptr")
    def __init__(self, logical_tensor: LogicalTensor, data: Array, engine: Engine | None = None) -> None:
        expect("logical_tensor", logical_tensor, LogicalTensor)
        owner = engine_or_default(engine)
        size = logical_tensor.mem_size
        if size is None:
            raise ArgumentError(f"{logical_tensor} has no size yet; query it from the compiled partition")
        self._logical_tensor, self._nbytes = logical_tensor, size
        self._executions: tuple[weakref.ref[Execution], ...] = ()
        self._held = self._checked(data)
        self._told: int | None = self._held.place  # the address that the library has; None while that changes
        place = ffi.cast("void *", self._told)
        make = lib.dnnl_graph_tensor_create
        pointer = create(make, "dnnl_graph_tensor_t", logical_tensor._struct, owner._ptr, place)
        super().__init__(pointer, lib.dnnl_graph_tensor_destroy, owner)

    def _checked(self, data: Array) -> _Held:
        array = _plain(data)
        _check_data(self._logical_tensor, self._nbytes, array)
        # numpy resizes no array that has a weak reference, not even with refcheck=False.
        return _Held(data, array, address_of(array), tuple([weakref.ref(owner) for owner in owners(array)]))

    def _used_by(self, execution: Execution) -> None:
        going_on = [ref for ref in self._executions if (other := ref()) is not None and not other.done]
        self._executions = (*going_on, weakref.ref(execution))

    def _tell(self) -> None:
        """Let the library have the address of the array that is held, also where an interrupt came before that."""
        place = self._held.place
        if self._told != place:
            self._told = None
            call(lib.dnnl_graph_tensor_set_data_handle, self._ptr, ffi.cast("void *", place))
            self._told = place

    @property
    def logical_tensor(self) -> LogicalTensor:
        """What the library was told of the data."""
        return self._logical_tensor

    @property
    def data(self) -> Array:
        """The array that holds it."""
        return self._held.data

    @property
    def nbytes(self) -> int:
        """Bytes that the logical tensor takes."""
        return self._nbytes

    @property
    def _span(self) -> int:
        """Bytes from the first element to the end of the last; of a flat array, all that the logical tensor takes."""
        array = self._held.array
        if array.flags.c_contiguous:
            return self._nbytes
        reach: int = sum((dim - 1) * step for dim, step in zip(array.shape, array.strides, strict=True))
        return reach + array.itemsize

    @property
    def address(self) -> int:
        """Address of the first element."""
        return self._held.place

    @property
    def writable(self) -> bool:
        """Whether the array may be written."""
        return bool(self._held.array.flags.writeable)

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to, as the library has it."""
        return engine_at(read(lib.dnnl_graph_tensor_get_engine, "dnnl_engine_t", self._ptr))

    @property
    def data_handle(self) -> int:
        """Address of the data, as the library has it."""
        with _lock:
            self._tell()
            return address(read(lib.dnnl_graph_tensor_get_data_handle, "void *", self._ptr))

    def set_data_handle(self, data: Array) -> None:
        """Put another array in the place of the data.

        Raises:
            ArgumentError: the array does not hold the logical tensor; the tensor is unchanged.
            StateError: an execution uses this tensor, and so the old array; or a signal handler, or a destructor, calls
                this in the midst of such a change.
        """
        held = self._checked(data)
        refuse_inner(_lock, f"tensor {self._logical_tensor.id}")
        with _lock:
            if any((execution := ref()) is not None and not execution.done for ref in self._executions):
                raise StateError(f"tensor {self._logical_tensor.id}: in use by an execution")
            # In one step: an interrupt leaves one array or the other, and ``_tell`` is repeated before it is used.
            self._held = held
            self._tell()

    def _contents(self) -> bytes:
        """A copy of the elements, row-major however they lie; as they lie of those that are packed or opaque."""
        array, tensor = self._held.array, self._logical_tensor
        if array.flags.c_contiguous:
            array = array.reshape(-1)[: self._nbytes // array.itemsize]
            if tensor.strides is not None and tensor.dtype not in PACKED:
                array = strided(array, [dim or 0 for dim in tensor.shape or ()], tensor.strides)
        return array.tobytes()

    def check(self) -> None:
        """Raise ArgumentError where the array no longer holds what the tensor was made for."""
        held = self._held
        array = _plain(held.data)
        if address_of(array) != held.place:
            raise ArgumentError(f"tensor {self._logical_tensor.id}: its array has moved; use set_data_handle")
        _check_data(self._logical_tensor, self._nbytes, array)

    def __repr__(self) -> str:
        return f"Tensor({self._logical_tensor!r})"


class _Held(NamedTuple):
    """The array that holds the data, as it was given and without its class, where it lies, and what keeps it there."""

    data: Array
    array: Array
    place: int
    watch: tuple[weakref.ref[Array], ...]


def _plain(data: object) -> Array:
    """The array without its class, which may say other things of itself than are so.

    Raises:
        ArgumentError: it is no array.
    """
    expect("data", data, np.ndarray, "a numpy array")
    return np.asarray(data)  # itself, or a view where its class is another one


def _check_data(logical_tensor: LogicalTensor, size: int, data: Array) -> None:
    """Refuse an array that does not hold the logical tensor."""
    if logical_tensor.layout == "strided" and data.dtype != logical_tensor.dtype.numpy:
        wanted = logical_tensor.dtype
        raise ArgumentError(f"data: an array of {data.dtype}; expected {wanted}; convert it with .astype")
    if logical_tensor.dtype in PACKED and data.nbytes != size:
        raise ArgumentError(
            f"data: {data.nbytes} bytes; expected {size}, with two {logical_tensor.dtype} in each, the first in the "
            f"low bits; arrays of {logical_tensor.dtype.numpy} that are not packed have one in a byte"
        )
    if data.dtype.hasobject:
        raise ArgumentError("data: an array of Python objects; expected one of numbers")
    if not data.flags.aligned:
        raise ArgumentError(f"data: not aligned to {data.itemsize} bytes; pass a copy of the array")
    if data.flags.c_contiguous:
        fits = data.nbytes >= size
    else:
        pairs = zip(data.shape, data.strides, logical_tensor.strides or (), strict=False)
        fits = data.shape == logical_tensor.shape and logical_tensor.strides is not None
        fits = fits and all(dim == 1 or ours == theirs * data.itemsize for dim, ours, theirs in pairs)
    if not fits:
        raise ArgumentError(
            f"data: shape {data.shape}, strides {data.strides} bytes; expected a C-contiguous array of {size} bytes, "
            f"or shape {logical_tensor.shape} with strides of {logical_tensor.strides} elements"
        )
