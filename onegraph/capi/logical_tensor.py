"""Binds logical tensors: the metadata of a tensor, without its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._util.counted import counted
from .._util.exact_types import elements, has_type
from .._util.init_once import once
from .._util.validation import choice, identifier, integer
from ..errors import ArgumentError, UnsupportedError, shown
from ..ir.tensor_type import as_shape
from ..native.library import (
    DTYPE_NAMES,
    DTYPES,
    VERSION,
    Final,
    Function,
    call,
    dtype_value,
    enum_names,
    ffi,
    lib,
    read,
)
from ..opset.dtypes import DataType
from ..opset.shapes import is_dense as is_row_major
from ..opset.shapes import known_dims, show
from ..opset.signature import Shape

LAYOUTS = ("undef", "any", "strided", "opaque")
HOST_SCALAR = "host_scalar"
PROPERTIES = ("undef", "variable", "constant", HOST_SCALAR)
_LAYOUT_NAMES = enum_names("graph_layout_type_", LAYOUTS)
_PROPERTY_NAMES = enum_names("graph_tensor_property_", PROPERTIES)
_LAYOUTS = {name: value for value, name in _LAYOUT_NAMES.items()}
_PROPERTIES = {name: value for value, name in _PROPERTY_NAMES.items()}
_STRUCT, _DIMS = ffi.typeof("dnnl_graph_logical_tensor_t *"), ffi.typeof("dnnl_dims_t")
# Looked up once, because a graph has many tensors.
new, unpack = ffi.new, ffi.unpack
_init, _init_with_dims = lib.dnnl_graph_logical_tensor_init, lib.dnnl_graph_logical_tensor_init_with_dims
_init_with_strides = lib.dnnl_graph_logical_tensor_init_with_strides
UNKNOWN_DIM = -(2**63)
UNKNOWN_NDIMS: int = lib.DNNL_GRAPH_UNKNOWN_NDIMS


class LogicalTensor(Final):
    """``dnnl_graph_logical_tensor_t``: id, data type, shape, layout and property of a tensor.

    Args:
        id: number of the tensor in its graph.
        dtype: data type.
        shape: dims; None for an unknown dim. None instead of the dims means an unknown rank.
        strides: in elements, one for each axis; dense row-major by default.
        layout: ``strided``; ``any`` lets the library choose; ``opaque`` comes only from a compiled partition.
        property: ``undef``, ``variable`` or ``constant``; or ``host_scalar`` for a tensor without axes whose number is
            in the memory of the host, since oneDNN 3.9.

    Raises:
        ArgumentError: the shape, strides, layout or property is invalid, or the tensor has 2**63 bytes or more.
        UnsupportedError: the loaded library is older than the data type, or than host scalars.
    """

    __slots__ = ("_dtype", "_id", "_layout", "_property", "_shape", "_strides", "_struct")

    @once("_struct")
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
        dtype_value(data_type)
        layout = choice("layout", layout, ("undef", "any", "strided"))
        property = choice("property", property, PROPERTIES)
        if property == HOST_SCALAR:
            _check_host_scalar(dims, layout)
        element_strides = None if strides is None else _checked_strides(strides, dims, layout)
        if element_strides is not None:  # a dense tensor has fewer than 2**60 elements of at most 8 bytes
            _check_size(dims, element_strides, data_type)
        self._fill(number, data_type, dims, element_strides, layout, property)

    @classmethod
    def _checked(
        cls,
        id: int,
        dtype: DataType,
        shape: Shape,
        strides: tuple[int, ...] | None = None,
        layout: str = "strided",
        property: str = "undef",
    ) -> LogicalTensor:
        """Make a logical tensor without any checks.

        The caller guarantees: the shape is a tuple of ints and Nones as ``as_shape`` returns it, strides are ints and
        given only for a strided layout with every dim known, the library has the data type, and the tensor is not too
        large.
        """
        tensor = cls.__new__(cls)
        tensor._fill(id, dtype, shape, strides, layout, property)
        return tensor

    def _fill(
        self,
        number: int,
        dtype: DataType,
        dims: Shape,
        element_strides: tuple[int, ...] | None,
        layout: str,
        property: str,
    ) -> None:
        self._id, self._dtype, self._shape = number, dtype, dims
        self._layout, self._property = layout, property
        struct = new(_STRUCT)
        code = DTYPES[dtype]
        if dims is None:
            self._strides = None
            call(_init, struct, number, code, UNKNOWN_NDIMS, _LAYOUTS[layout], _PROPERTIES[property])
        elif element_strides is not None:
            self._strides = element_strides
            sizes, strides = new(_DIMS, dims), new(_DIMS, element_strides)
            call(_init_with_strides, struct, number, code, len(dims), sizes, strides, _PROPERTIES[property])
        else:
            known = None not in dims
            sizes = new(_DIMS, dims if known else [UNKNOWN_DIM if dim is None else dim for dim in dims])
            call(_init_with_dims, struct, number, code, len(dims), sizes, _LAYOUTS[layout], _PROPERTIES[property])
            self._strides = tuple(unpack(struct.layout.strides, len(dims))) if known and layout == "strided" else None
        self._struct = struct  # set last, because another thread may already have the object

    @classmethod
    def _filled(cls, function: Function, *arguments: object) -> LogicalTensor:
        """The logical tensor that a function of the C API writes to its last argument."""
        tensor = cls.__new__(cls)
        tensor._struct = new(_STRUCT)
        call(function, *arguments, tensor._struct)
        tensor._read()
        return tensor

    @classmethod
    def _of(cls, struct: Any) -> LogicalTensor:
        """The logical tensor of a C structure, which is copied."""
        tensor = cls.__new__(cls)
        tensor._struct = new(_STRUCT, struct)
        tensor._read()
        return tensor

    def _numbered(self, id: int) -> LogicalTensor:
        """A copy with another id."""
        tensor = type(self).__new__(type(self))
        tensor._id, tensor._dtype, tensor._shape, tensor._strides = id, self._dtype, self._shape, self._strides
        tensor._layout, tensor._property = self._layout, self._property
        tensor._struct = new(_STRUCT, self._struct[0])
        tensor._struct.id = id
        return tensor

    def _as_variable(self) -> LogicalTensor:
        """The tensor with ``variable`` in place of ``constant``: its data may change."""
        if self._property != "constant":
            return self
        tensor = type(self)._of(self._struct[0])
        tensor._property = "variable"
        tensor._struct.property = _PROPERTIES["variable"]
        return tensor

    def _read(self) -> None:
        """Set the attributes from the C structure that the library filled."""
        struct = self._struct
        self._id, self._dtype = struct.id, DTYPE_NAMES[struct.data_type]
        self._layout, self._property = _LAYOUT_NAMES[struct.layout_type], _PROPERTY_NAMES[struct.property]
        rank = struct.ndims
        self._shape, self._strides = None, None
        if rank != UNKNOWN_NDIMS:
            dims = unpack(struct.dims, rank)
            known = UNKNOWN_DIM not in dims
            self._shape = tuple(dims) if known else tuple([None if dim == UNKNOWN_DIM else dim for dim in dims])
            if known and self._layout == "strided":
                self._strides = tuple(unpack(struct.layout.strides, rank))

    @property
    def id(self) -> int:
        """Number of the tensor in its graph."""
        return self._id

    @property
    def dtype(self) -> DataType:
        """Data type."""
        return self._dtype

    @property
    def ndims(self) -> int | None:
        """Rank; None if unknown."""
        return None if self._shape is None else len(self._shape)

    @property
    def shape(self) -> Shape:
        """Dims, None for an unknown dim; None instead of the dims if the rank is unknown."""
        return self._shape

    @property
    def layout(self) -> str:
        """Layout type: undef, any, strided or opaque."""
        return self._layout

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements, one for each axis; None unless the layout is strided and every dim is known."""
        return self._strides

    @property
    def layout_id(self) -> int | None:
        """Number of an opaque layout, None for every other layout."""
        return int(self._struct.layout.layout_id) if self._layout == "opaque" else None

    @property
    def mem_size(self) -> int | None:
        """Size of the tensor in bytes; None while its layout or a dim is unknown."""
        if self._layout != "opaque":
            if self._strides is None:
                return None
            if 0 in known_dims(self._shape):
                return 0  # the library would treat an empty axis as an axis of size 1
        return int(read(lib.dnnl_graph_logical_tensor_get_mem_size, "size_t", self._struct))

    @property
    def known_size(self) -> int:
        """Size of the tensor in bytes; 0 while it is unknown."""
        return self.mem_size or 0

    # The last property of the class, because its name hides the decorator.
    @property
    def property(self) -> str:
        """Property type: undef, variable or constant."""
        return self._property

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not has_type(other, LogicalTensor):
            return NotImplemented
        if "opaque" in (self.layout, other.layout) and (self.layout, self.layout_id) != (other.layout, other.layout_id):
            return False  # the library would look up the layout id before it compares
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


def _checked_strides(strides: Sequence[int], dims: Shape, layout: str) -> tuple[int, ...]:
    if layout != "strided" or dims is None or None in dims:
        raise ArgumentError("strides need layout='strided' and a shape with every dim known")
    element_strides = elements(strides)
    if element_strides is None or len(element_strides) != len(dims):
        raise ArgumentError(f"strides: {shown(strides)}; expected {counted(len(dims), 'integer')}, one for each dim")
    return tuple(
        [integer("strides", stride, 0, 2**62 - 1, "a number of elements, 0 to 2**62 - 1") for stride in element_strides]
    )


def _check_size(dims: Shape, strides: Sequence[int], dtype: DataType) -> None:
    # The library counts dim * stride for each axis.
    elements = 1 + sum(max(dim, 1) * stride for dim, stride in zip(known_dims(dims), strides, strict=True))
    if elements * dtype.numpy.itemsize >= 2**63:
        raise ArgumentError(f"shape: {dims}; expected a tensor of less than 2**63 bytes")


def has_dense_layout(tensor: LogicalTensor) -> bool:
    """Whether a tensor is dense row-major, axes of size 1 aside; also True if its strides are unknown."""
    strides = tensor.strides
    return strides is None or is_row_major(known_dims(tensor.shape), strides)


def _check_host_scalar(dims: Shape, layout: str) -> None:
    """Raise an error if a host scalar has axes, or if the loaded library has no host scalars."""
    if VERSION < (3, 9):
        loaded = ".".join(map(str, VERSION))
        raise UnsupportedError(f"property 'host_scalar' needs oneDNN 3.9; the loaded library is {loaded}")
    if dims != () or layout == "any":
        subject = f"shape: {show(dims)}, layout {layout!r}"
        raise ArgumentError(f"{subject}; expected (), and a strided layout, for a host scalar")
