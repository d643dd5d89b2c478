"""Engines, streams, allocators, logical tensors and tensors: the C API's objects that hold or describe data."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .check import as_shape
from .errors import ArgumentError, UnsupportedError, shown
from .native import DTYPE_NAMES, Handle, call, create, dtype_value, enum_names, enum_value, ffi, lib, read
from .op import Array
from .spec.dtypes import DataType
from .spec.schema import Shape

LAYOUTS = ("undef", "any", "strided", "opaque")
PROPERTIES = ("undef", "variable", "constant")
ENGINE_KINDS = ("cpu", "gpu")
_LAYOUT_NAMES = enum_names("graph_layout_type_", LAYOUTS)
_PROPERTY_NAMES = enum_names("graph_tensor_property_", PROPERTIES)
_ENGINE_KIND_NAMES = {enum_value("", kind): kind for kind in ENGINE_KINDS}
UNKNOWN_DIM = -(2**63)
UNKNOWN_NDIMS: int = lib.DNNL_GRAPH_UNKNOWN_NDIMS


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """``value``, which must be one of ``allowed``.

    Raises:
        ArgumentError: it is not.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(f"{name}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")
    return value


def expect(name: str, value: object, kind: type) -> None:
    """Raise ArgumentError unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ArgumentError(f"{name}: {shown(value)}; expected {article} {kind.__name__}")


def as_list(name: str, value: object, kind: type) -> list[Any]:
    """``value`` as a list of ``kind``.

    Raises:
        ArgumentError: it is no list or tuple, or holds something else.
    """
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{name}: {shown(value)}; expected a list of {kind.__name__} objects")
    for index, element in enumerate(value):
        expect(f"{name}[{index}]", element, kind)
    return [*value]


def identifier(name: str, value: object) -> int:
    """``value`` as an id: an integer of 64 bits without sign.

    Raises:
        ArgumentError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64 - 1:
        raise ArgumentError(f"{name}: {shown(value)}; expected an integer, 0 to 2**64 - 2")
    return operator.index(value)


class LogicalTensor:
    """``dnnl_graph_logical_tensor_t``: what the library is told of a tensor.

    Args:
        id: number of the tensor in its graph.
        dtype: data type.
        shape: dims; None for an unknown dim, or as a whole for an unknown rank.
        strides: elements between neighbours along each axis; dense row-major by default.
        layout: ``strided``; ``any`` leaves it to the library; ``opaque`` comes only from a compiled partition.
        property: ``undef``, ``variable`` or ``constant``.

    Raises:
        ArgumentError: the shape, strides, layout or property make no sense, or the tensor is larger than 2**63 bytes.
        UnsupportedError: the loaded library is older than the data type.
    """

    __slots__ = ("_struct",)

    def __init__(
        self,
        id: int,
        dtype: object,
        shape: object = None,
        *,
        strides: Sequence[int] | None = None,
        layout: str = "strided",
        property: str = "undef",
    ) -> None:
        number, dims = identifier("id", id), as_shape(shape)
        data_type = DataType.of(dtype)
        code = dtype_value(data_type)
        choice("layout", layout, ("undef", "any", "strided"))
        choice("property", property, PROPERTIES)
        layout_code = enum_value("graph_layout_type_", layout)
        property_code = enum_value("graph_tensor_property_", property)
        self._struct = ffi.new("dnnl_graph_logical_tensor_t *")
        if strides is not None:
            steps = _strides(strides, dims, layout)
            _check_size(dims, steps, data_type)
            call(
                lib.dnnl_graph_logical_tensor_init_with_strides,
                self._struct,
                number,
                code,
                len(steps),
                ffi.new("dnnl_dims_t", list(dims or ())),
                ffi.new("dnnl_dims_t", list(steps)),
                property_code,
            )
        elif dims is None:
            call(
                lib.dnnl_graph_logical_tensor_init,
                self._struct,
                number,
                code,
                UNKNOWN_NDIMS,
                layout_code,
                property_code,
            )
        else:
            _check_size(dims, None, data_type)
            call(
                lib.dnnl_graph_logical_tensor_init_with_dims,
                self._struct,
                number,
                code,
                len(dims),
                ffi.new("dnnl_dims_t", [UNKNOWN_DIM if dim is None else dim for dim in dims]),
                layout_code,
                property_code,
            )

    @classmethod
    def _of(cls, struct: Any) -> LogicalTensor:
        """A copy of a C structure."""
        tensor = cls.__new__(cls)
        tensor._struct = ffi.new("dnnl_graph_logical_tensor_t *", struct)
        return tensor

    @property
    def id(self) -> int:
        """Number of the tensor in its graph."""
        return int(self._struct.id)

    @property
    def dtype(self) -> DataType:
        """Data type."""
        return DTYPE_NAMES[self._struct.data_type]

    @property
    def ndims(self) -> int | None:
        """Rank, None where unknown."""
        return None if self._struct.ndims == UNKNOWN_NDIMS else int(self._struct.ndims)

    @property
    def shape(self) -> Shape:
        """Dims, None for an unknown one; None as a whole where the rank is unknown."""
        if self.ndims is None:
            return None
        return tuple(None if dim == UNKNOWN_DIM else int(dim) for dim in self._struct.dims[0 : self.ndims])

    @property
    def layout(self) -> str:
        """Layout type: undef, any, strided or opaque."""
        return _LAYOUT_NAMES[self._struct.layout_type]

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Elements between neighbours along each axis; None unless strided with every dim known."""
        shape = self.shape
        if self.layout != "strided" or shape is None or None in shape:
            return None
        return tuple(int(step) for step in self._struct.layout.strides[0 : len(shape)])

    @property
    def layout_id(self) -> int | None:
        """Number of an opaque layout, None for every other layout."""
        return int(self._struct.layout.layout_id) if self.layout == "opaque" else None

    @property
    def mem_size(self) -> int | None:
        """Bytes that the tensor takes; None while its layout or a dim is not known."""
        if self.layout == "opaque":
            return int(read(lib.dnnl_graph_logical_tensor_get_mem_size, "size_t", self._struct))
        if self.strides is None:
            return None
        if 0 in (self.shape or ()):
            return 0  # the library says otherwise: it takes an empty axis for one of size 1
        return int(read(lib.dnnl_graph_logical_tensor_get_mem_size, "size_t", self._struct))

    # Last of the properties: its name hides the decorator in the rest of this class.
    @property
    def property(self) -> str:
        """undef, variable or constant."""
        return _PROPERTY_NAMES[self._struct.property]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogicalTensor):
            return NotImplemented
        if "opaque" in (self.layout, other.layout) and (self.layout, self.layout_id) != (other.layout, other.layout_id):
            return False  # the library would look the number up before it compares
        return bool(read(lib.dnnl_graph_logical_tensor_is_equal, "uint8_t", self._struct, other._struct))

    def __hash__(self) -> int:
        return hash((self.id, self.dtype, self.shape))

    def __repr__(self) -> str:
        parts = [f"id={self.id}", f"dtype={self.dtype}", f"shape={self.shape}", f"layout={self.layout!r}"]
        if self.strides is not None:
            parts.append(f"strides={self.strides}")
        if self.property != "undef":
            parts.append(f"property={self.property!r}")
        return f"LogicalTensor({', '.join(parts)})"


def _strides(strides: Sequence[int], dims: Shape, layout: str) -> tuple[int, ...]:
    if layout != "strided" or dims is None or None in dims:
        raise ArgumentError("strides need layout='strided' and a shape with every dim known")
    if not isinstance(strides, (tuple, list)) or len(strides) != len(dims):
        raise ArgumentError(f"strides: {shown(strides)}; expected {len(dims)} integers, one for each dim")
    for step in strides:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not 0 <= step < 2**62:
            raise ArgumentError(f"strides: {shown(step)}; expected a non-negative integer")
    return tuple(int(step) for step in strides)


def _check_size(dims: Shape, strides: Sequence[int] | None, dtype: DataType) -> None:
    if dims is None or None in dims:
        return
    elements = 1
    if strides is None:
        for dim in dims:
            elements *= max(dim or 0, 1)
    else:  # as the library counts, whole strides
        elements += sum(max(dim or 0, 1) * step for dim, step in zip(dims, strides, strict=True))
    if elements * dtype.numpy.itemsize >= 2**63:
        raise ArgumentError(f"shape: {dims}; expected a tensor of less than 2**63 bytes")


class Allocator(Handle):
    """Host memory for an engine: aligned to 64 bytes. It is C alone; a Python callback would crash at exit."""

    __slots__ = ()

    def __init__(self) -> None:
        pointer = create(
            lib.dnnl_graph_allocator_create,
            "dnnl_graph_allocator_t",
            ffi.addressof(lib, "onegraph_host_allocate"),
            ffi.addressof(lib, "onegraph_host_deallocate"),
        )
        super().__init__(pointer, lib.dnnl_graph_allocator_destroy)

    @staticmethod
    def live() -> int:
        """Number of blocks that the library holds at this moment, over all allocators."""
        return int(lib.onegraph_host_allocations())


_engines: dict[int, Engine] = {}


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


class Engine:
    """``dnnl_engine_t``: the device. It is never destroyed, because kernels and caches may outlive every owner.

    Args:
        kind: ``cpu``.
        index: number of the engine of that kind; there is one CPU engine.
        allocator: where the library takes scratch memory from; its own by default.

    Raises:
        UnsupportedError: the library has no such engine.
    """

    __slots__ = ("_allocator", "_index", "_ptr")

    def __init__(self, kind: str = "cpu", index: int = 0, allocator: Allocator | None = None) -> None:
        number, count = identifier("index", index), engine_count(kind)
        if number >= count:
            raise UnsupportedError(f"engine {kind}:{number}: the library has {count} {kind} engines")
        code = enum_value("", kind)
        if allocator is None:
            pointer = create(lib.dnnl_engine_create, "dnnl_engine_t", code, number)
        else:
            expect("allocator", allocator, Allocator)
            make = lib.dnnl_graph_make_engine_with_allocator
            pointer = create(make, "dnnl_engine_t", code, number, allocator._ptr)
        self._ptr, self._index, self._allocator = pointer, number, allocator
        _engines[_address(pointer)] = self

    @property
    def kind(self) -> str:
        """``cpu``, as the library says."""
        return _ENGINE_KIND_NAMES[read(lib.dnnl_engine_get_kind, "dnnl_engine_kind_t", self._ptr)]

    @property
    def index(self) -> int:
        """Number of the engine among those of its kind."""
        return self._index

    @property
    def allocator(self) -> Allocator | None:
        """Where the library takes scratch memory from; None is its own allocator."""
        return self._allocator

    def __repr__(self) -> str:
        return f"Engine({self.kind!r}, {self.index})"


def engine_count(kind: str) -> int:
    """Number of engines of a kind.

    Raises:
        ArgumentError: the kind is unknown.
    """
    return int(lib.dnnl_engine_get_count(enum_value("", choice("engine kind", kind, ENGINE_KINDS))))


def engines_exist() -> bool:
    """Whether an engine was made, without which nothing was run."""
    return bool(_engines)


_default: list[Engine] = []
_default_lock = threading.Lock()


def default_engine() -> Engine:
    """The one engine that everything uses which is not given another; made at the first call."""
    with _default_lock:
        if not _default:
            _default.append(Engine())
    return _default[0]


class Stream(Handle):
    """``dnnl_stream_t``: where compiled partitions execute, in order. On a CPU the calling thread does the work."""

    __slots__ = ()

    def __init__(self, engine: Engine | None = None) -> None:
        if engine is not None:
            expect("engine", engine, Engine)
        owner = default_engine() if engine is None else engine
        pointer = create(lib.dnnl_stream_create, "dnnl_stream_t", owner._ptr, lib.dnnl_stream_default_flags)
        super().__init__(pointer, lib.dnnl_stream_destroy, owner)

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to, as the library has it."""
        return _engines[_address(read(lib.dnnl_stream_get_engine, "dnnl_engine_t", self._ptr))]

    def wait(self) -> None:
        """Return when everything that was executed on the stream is done."""
        call(lib.dnnl_stream_wait, self._ptr)


class Tensor(Handle):
    """``dnnl_graph_tensor_t``: a logical tensor with data.

    Args:
        logical_tensor: strided or opaque, with every dim known.
        data: an array that holds it: C-contiguous, or with the very strides of the logical tensor.
        engine: where the data lives; the default engine.

    Raises:
        ArgumentError: the array is too small, of another data type, or laid out in another way.
    """

    __slots__ = ("_data", "_logical_tensor", "_nbytes", "_place", "_watch")

    def __init__(self, logical_tensor: LogicalTensor, data: Array, engine: Engine | None = None) -> None:
        expect("logical_tensor", logical_tensor, LogicalTensor)
        if engine is not None:
            expect("engine", engine, Engine)
        size = logical_tensor.mem_size
        if size is None:
            raise ArgumentError(f"{logical_tensor} has no size yet; query it from the compiled partition")
        self._logical_tensor, self._nbytes = logical_tensor, size
        self._hold(data)
        owner = default_engine() if engine is None else engine
        place = ffi.cast("void *", self._place)
        make = lib.dnnl_graph_tensor_create
        pointer = create(make, "dnnl_graph_tensor_t", logical_tensor._struct, owner._ptr, place)
        super().__init__(pointer, lib.dnnl_graph_tensor_destroy, owner)

    def _hold(self, data: Array) -> None:
        _check_data(self._logical_tensor, self._nbytes, data)
        self._data = data
        # numpy resizes no array that has a weak reference, not even with refcheck=False.
        self._watch = weakref.ref(data)
        self._place = _place(data)

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
        return bool(self._data.flags.writeable)

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to, as the library has it."""
        return _engines[_address(read(lib.dnnl_graph_tensor_get_engine, "dnnl_engine_t", self._ptr))]

    @property
    def data_handle(self) -> int:
        """Address of the data, as the library has it."""
        return _address(read(lib.dnnl_graph_tensor_get_data_handle, "void *", self._ptr))

    def set_data_handle(self, data: Array) -> None:
        """Put another array in the place of the data.

        Raises:
            ArgumentError: the array does not hold the logical tensor; the tensor is unchanged.
        """
        self._hold(data)
        call(lib.dnnl_graph_tensor_set_data_handle, self._ptr, ffi.cast("void *", self._place))

    def check(self) -> None:
        """Raise ArgumentError where the array no longer holds what the tensor was made for."""
        if _place(self._data) != self._place:
            raise ArgumentError(f"tensor {self._logical_tensor.id}: its array has moved; use set_data_handle")
        _check_data(self._logical_tensor, self._nbytes, self._data)

    def __repr__(self) -> str:
        return f"Tensor({self._logical_tensor!r})"


def _place(data: Array) -> int:
    return int(data.__array_interface__["data"][0])


def _check_data(logical_tensor: LogicalTensor, size: int, data: object) -> None:
    """Refuse an array that does not hold the logical tensor."""
    if not isinstance(data, np.ndarray):
        raise ArgumentError(f"data: {shown(data)}; expected a numpy array")
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
        steps = tuple(step * data.itemsize for step in logical_tensor.strides or ())
        fits = data.shape == logical_tensor.shape and data.strides == steps
    if not fits:
        raise ArgumentError(
            f"data: shape {data.shape}, strides {data.strides} bytes; expected a C-contiguous array of {size} bytes, "
            f"or shape {logical_tensor.shape} with strides of {logical_tensor.strides} elements"
        )
