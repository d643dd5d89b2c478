"""Binds tensors, which are logical tensors with the arrays that hold their data."""

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
from ..native.library import Handle, address, address_of, call, create, ffi, lib, newer_function, read
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from .engine import Engine, engine_at, engine_or_default
from .logical_tensor import HOST_SCALAR, LogicalTensor

PACKED = frozenset([DataType.s4, DataType.u4, DataType.f4_e2m1])  # two elements in a byte
_lock = new_rlock()  # guards the arrays and executions of all tensors
_executions: weakref.WeakSet[Execution] = weakref.WeakSet()


class Execution:
    """One execution; the arrays of its tensors cannot be replaced until it is done or garbage-collected.

    Executions are tracked as objects, not counted, because an interrupt could skip the decrement of a counter.
    """

    __slots__ = ("__weakref__", "done", "thread")

    def __init__(self) -> None:
        self.done, self.thread = False, threading.get_ident()
        _executions.add(self)

    def use(self, tensors: Iterable[Tensor]) -> None:
        """Check the tensors and keep their arrays in place."""
        with _lock:
            for tensor in tensors:
                tensor._used_by(self)
                tensor.check()
                tensor._set_library_address()


def _end_executions() -> None:
    """In a forked child, end the executions of other threads, which do not exist there."""
    for execution in list(_executions):
        if execution.thread != threading.get_ident():
            execution.done = True


os.register_at_fork(after_in_child=_end_executions)


class Tensor(Handle):
    """``dnnl_graph_tensor_t``: a logical tensor with data.

    Args:
        logical_tensor: strided or opaque, with every dim known.
        data: array that holds the data: C-contiguous, or with exactly the strides of the logical tensor. For s4, u4
            and f4_e2m1 each byte holds two elements, the first in the low bits. The array is not copied.
        engine: engine of the data; the default engine if None.

    Raises:
        ArgumentError: the logical tensor has no size yet; or the array is too small, misaligned, or has another data
            type or layout.
    """

    __slots__ = ("_engine", "_executions", "_held", "_library_address", "_logical_tensor", "_nbytes")

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
        self._library_address: int | None = self._held.place  # as the library has it; None while it changes
        place = ffi.cast("void *", self._library_address)
        self._engine = owner
        if logical_tensor.property == HOST_SCALAR:
            made = ffi.new("dnnl_graph_tensor_t *")
            call(newer_function("dnnl_graph_tensor_create_scalar", "3.9"), made, logical_tensor._struct, place)
            pointer = made[0]
        else:
            make = lib.dnnl_graph_tensor_create
            pointer = create(make, "dnnl_graph_tensor_t", logical_tensor._struct, owner._ptr, place)
        super().__init__(pointer, lib.dnnl_graph_tensor_destroy, owner)

    def _checked(self, data: Array) -> _Held:
        array = _plain(data)
        _check_data(self._logical_tensor, self._nbytes, array)
        # The weak references stop numpy from resizing the array, even with refcheck=False.
        return _Held(data, array, address_of(array), tuple([weakref.ref(owner) for owner in owners(array)]))

    def _used_by(self, execution: Execution) -> None:
        going_on = [ref for ref in self._executions if (running := ref()) is not None and not running.done]
        self._executions = (*going_on, weakref.ref(execution))

    def _set_library_address(self) -> None:
        """Give the library the address of the current array, unless the library has it already."""
        place = self._held.place
        if self._library_address != place:
            self._library_address = None
            call(lib.dnnl_graph_tensor_set_data_handle, self._ptr, ffi.cast("void *", place))
            self._library_address = place

    @property
    def logical_tensor(self) -> LogicalTensor:
        """Metadata of the data."""
        return self._logical_tensor

    def query_logical_tensor(self) -> LogicalTensor:
        """The metadata of the data as the library has it.

        Raises:
            UnsupportedError: the library is older than 3.6.
        """
        return LogicalTensor._filled(newer_function("dnnl_graph_tensor_get_logical_tensor", "3.6"), self._ptr)

    @property
    def data(self) -> Array:
        """The array that holds the data."""
        return self._held.data

    @property
    def nbytes(self) -> int:
        """Size of the logical tensor in bytes."""
        return self._nbytes

    @property
    def _span(self) -> int:
        """Bytes from the first element to the end of the last one; for a C-contiguous array, ``nbytes``."""
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
        """Whether the array is writable."""
        return bool(self._held.array.flags.writeable)

    @property
    def engine(self) -> Engine:
        """The engine of the tensor, as the library has it; of a host scalar, the engine that was given."""
        if self._logical_tensor.property == HOST_SCALAR:
            return self._engine
        return engine_at(read(lib.dnnl_graph_tensor_get_engine, "dnnl_engine_t", self._ptr))

    @property
    def data_handle(self) -> int:
        """Address of the data, as the library has it."""
        with _lock:
            self._set_library_address()
            return address(read(lib.dnnl_graph_tensor_get_data_handle, "void *", self._ptr))

    def set_data_handle(self, data: Array) -> None:
        """Replace the array that holds the data. A call that raises leaves the tensor unchanged.

        Raises:
            ArgumentError: the array does not fit the logical tensor.
            StateError: an execution uses this tensor; or a signal handler or a destructor calls this during such a
                change.
        """
        held = self._checked(data)
        refuse_inner(_lock, f"tensor {self._logical_tensor.id}")
        with _lock:
            if any((execution := ref()) is not None and not execution.done for ref in self._executions):
                raise StateError(f"tensor {self._logical_tensor.id}: in use by an execution")
            # An interrupt leaves the old or the new array; each use calls ``_set_library_address`` again.
            self._held = held
            self._set_library_address()

    def _contents(self) -> bytes:
        """A copy of the elements in row-major order; packed and opaque data is copied as it is in memory."""
        array, tensor = self._held.array, self._logical_tensor
        if array.flags.c_contiguous:
            array = array.reshape(-1)[: self._nbytes // array.itemsize]
            if tensor.strides is not None and tensor.dtype not in PACKED:
                array = strided(array, known_dims(tensor.shape), tensor.strides)
        return array.tobytes()

    def check(self) -> None:
        """Raise ArgumentError if the array has moved or no longer fits the logical tensor."""
        held = self._held
        array = _plain(held.data)
        if address_of(array) != held.place:
            raise ArgumentError(f"tensor {self._logical_tensor.id}: its array has moved; use set_data_handle")
        _check_data(self._logical_tensor, self._nbytes, array)

    def __repr__(self) -> str:
        return f"Tensor({self._logical_tensor!r})"


class _Held(NamedTuple):
    """The array that holds the data.

    Attributes:
        data: the array as given.
        array: the same memory as a plain ``np.ndarray``.
        place: its address.
        watch: weak references that stop numpy from resizing it.
    """

    data: Array
    array: Array
    place: int
    watch: tuple[weakref.ref[Array], ...]


def _plain(data: object) -> Array:
    """The array as a plain ``np.ndarray``, because a subclass may report wrong attributes.

    Raises:
        ArgumentError: ``data`` is not a numpy array.
    """
    expect("data", data, np.ndarray, "a numpy array")
    return np.asarray(data)  # the same object, or a view of a subclass


def _check_data(logical_tensor: LogicalTensor, size: int, data: Array) -> None:
    """Raise ArgumentError if an array does not fit the logical tensor."""
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
        pairs = zip(data.shape, data.strides, logical_tensor.strides or (), strict=True)
        fits = data.shape == logical_tensor.shape and logical_tensor.strides is not None
        fits = fits and all(dim == 1 or ours == theirs * data.itemsize for dim, ours, theirs in pairs)
    if not fits:
        raise ArgumentError(
            f"data: shape {data.shape}, strides {data.strides} bytes; expected a C-contiguous array of {size} bytes, "
            f"or shape {logical_tensor.shape} with strides of {logical_tensor.strides} elements"
        )
