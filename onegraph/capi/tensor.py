"""Tensors: logical tensors with the arrays that hold them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import numpy as np

from ..errors import ArgumentError, StateError, shown
from ..forks import new_lock
from ..native import Handle, address, call, create, ffi, lib, read
from ..op import Array
from .engine import Engine, engine_at, engine_or_default
from .logical_tensor import LogicalTensor
from .validate import expect, once

_lock = new_lock()  # of what every tensor is used for


class Execution:
    """One execution, and what it uses: these arrays stay where they are until it is done, or forgotten.

    An interrupt may come at any moment, so that nothing here relies on counting down.
    """

    __slots__ = ("__weakref__", "done")

    def __init__(self) -> None:
        self.done = False

    def use(self, tensors: Iterable[Tensor]) -> None:
        """Check the tensors and keep their arrays."""
        with _lock:
            for tensor in tensors:
                tensor.check()
                tensor._executions.add(self)


class Tensor(Handle):
    """``dnnl_graph_tensor_t``: a logical tensor with data.

    Args:
        logical_tensor: strided or opaque, with every dim known.
        data: an array that holds it: C-contiguous, or with the very strides of the logical tensor.
        engine: where the data lives; the default engine.

    Raises:
        ArgumentError: the array is too small, of another data type, or laid out in another way.
    """

    __slots__ = ("_array", "_data", "_executions", "_logical_tensor", "_nbytes", "_place", "_watch")

    def __init__(self, logical_tensor: LogicalTensor, data: Array, engine: Engine | None = None) -> None:
        once(self)
        expect("logical_tensor", logical_tensor, LogicalTensor)
        owner = engine_or_default(engine)
        size = logical_tensor.mem_size
        if size is None:
            raise ArgumentError(f"{logical_tensor} has no size yet; query it from the compiled partition")
        self._logical_tensor, self._nbytes = logical_tensor, size
        self._executions: weakref.WeakSet[Execution] = weakref.WeakSet()
        self._hold(data)
        place = ffi.cast("void *", self._place)
        make = lib.dnnl_graph_tensor_create
        pointer = create(make, "dnnl_graph_tensor_t", logical_tensor._struct, owner._ptr, place)
        super().__init__(pointer, lib.dnnl_graph_tensor_destroy, owner)

    def _hold(self, data: Array) -> None:
        array = _plain(data)
        _check_data(self._logical_tensor, self._nbytes, array)
        self._data, self._array = data, array
        # numpy resizes no array that has a weak reference, not even with refcheck=False.
        self._watch = weakref.ref(data)
        self._place = _place(array)

    @property
    def logical_tensor(self) -> LogicalTensor:
        """What the library was told of the data."""
        return self._logical_tensor

    @property
    def data(self) -> Array:
        """The array that holds it."""
        return self._data

    @property
    def nbytes(self) -> int:
        """Bytes that the logical tensor takes."""
        return self._nbytes

    @property
    def address(self) -> int:
        """Address of the first element."""
        return self._place

    @property
    def writable(self) -> bool:
        """Whether the array may be written."""
        return bool(self._array.flags.writeable)

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to, as the library has it."""
        return engine_at(read(lib.dnnl_graph_tensor_get_engine, "dnnl_engine_t", self._ptr))

    @property
    def data_handle(self) -> int:
        """Address of the data, as the library has it."""
        return address(read(lib.dnnl_graph_tensor_get_data_handle, "void *", self._ptr))

    def set_data_handle(self, data: Array) -> None:
        """Put another array in the place of the data.

        Raises:
            ArgumentError: the array does not hold the logical tensor; the tensor is unchanged.
            StateError: another thread is in an execution with this tensor, which may still use the old array.
        """
        with _lock:
            if not all(execution.done for execution in self._executions):
                raise StateError(f"tensor {self._logical_tensor.id}: in use by an execution in another thread")
            self._hold(data)
            call(lib.dnnl_graph_tensor_set_data_handle, self._ptr, ffi.cast("void *", self._place))

    def _contents(self) -> bytes:
        """A copy of the elements, row-major."""
        count = self._nbytes // self._array.itemsize
        array = self._array if self._array.shape == self._logical_tensor.shape else self._array.reshape(-1)[:count]
        return array.tobytes()

    def check(self) -> None:
        """Raise ArgumentError where the array no longer holds what the tensor was made for."""
        array = _plain(self._data)
        if _place(array) != self._place:
            raise ArgumentError(f"tensor {self._logical_tensor.id}: its array has moved; use set_data_handle")
        _check_data(self._logical_tensor, self._nbytes, array)

    def __repr__(self) -> str:
        return f"Tensor({self._logical_tensor!r})"


def _place(data: Array) -> int:
    return int(data.__array_interface__["data"][0])


def _plain(data: object) -> Array:
    """The array without its class, which may say other things of itself than are so.

    Raises:
        ArgumentError: it is no array.
    """
    if not issubclass(type(data), np.ndarray):
        raise ArgumentError(f"data: {shown(data)}; expected a numpy array")
    return np.asarray(data)  # itself, or a view where its class is another one


def _check_data(logical_tensor: LogicalTensor, size: int, data: Array) -> None:
    """Refuse an array that does not hold the logical tensor."""
    if logical_tensor.layout == "strided" and data.dtype != logical_tensor.dtype.numpy:
        wanted = logical_tensor.dtype
        raise ArgumentError(f"data: an array of {data.dtype}; expected {wanted}; convert it with .astype")
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
