"""Logical tensors: what the library is told of a tensor before there is data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, shown
from ..native import DTYPE_NAMES, call, dtype_value, enum_names, enum_value, ffi, lib, read
from ..spec.dtypes import DataType
from ..spec.schema import Shape
from ..spec.shapes import dense_strides
from ..tensor_types import as_shape
from .validate import choice, identifier, integer

LAYOUTS = ("undef", "any", "strided", "opaque")
PROPERTIES = ("undef", "variable", "constant")
_LAYOUT_NAMES = enum_names("graph_layout_type_", LAYOUTS)
_PROPERTY_NAMES = enum_names("graph_tensor_property_", PROPERTIES)
UNKNOWN_DIM = -(2**63)
UNKNOWN_NDIMS: int = lib.DNNL_GRAPH_UNKNOWN_NDIMS


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
        layout_code = enum_value("graph_layout_type_", choice("layout", layout, ("undef", "any", "strided")))
        property_code = enum_value("graph_tensor_property_", choice("property", property, PROPERTIES))
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
        if self.layout != "opaque":
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
    return tuple(integer("strides", step, 0, 2**62 - 1, "a non-negative integer") for step in strides)


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


def is_dense(tensor: LogicalTensor) -> bool:
    """Whether a tensor is row-major without gaps; axes of size 1 do not count. Where no strides are known, it is."""
    shape, strides = tensor.shape, tensor.strides
    if shape is None or strides is None:
        return True
    pairs = zip(shape, strides, dense_strides([dim or 0 for dim in shape]), strict=True)
    return all(dim == 1 or step == dense for dim, step, dense in pairs)
