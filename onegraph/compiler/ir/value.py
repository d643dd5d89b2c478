"""The values of a lowered graph."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...builder.signature_cache import MAX_SIGNATURES
from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.schema import TensorType
from ...opset.shapes import dense_strides

Dims = tuple[int, ...]
dense_of = lru_cache(maxsize=MAX_SIGNATURES)(dense_strides)


class Value(NamedTuple):
    """A tensor of the lowered graph.

    ``storage`` is the id of the value that owns the memory: its own id, or that of the value that it is a view of.
    ``strides``, and the ``offset`` of its first element in that memory, are in elements.
    """

    id: int
    dtype: DataType
    shape: Dims
    strides: Dims
    storage: int
    name: str
    constant: Array | None = None
    offset: int = 0

    @property
    def type(self) -> TensorType:
        """Data type and shape."""
        return TensorType(self.dtype, self.shape)

    @property
    def shift(self) -> int:
        """Bytes from the start of the memory to the first element."""
        return self.offset * self.dtype.numpy.itemsize

    def placed(self, storage: int, strides: Dims, offset: int = 0) -> Value:
        """The value in the memory of ``storage``, with these strides, from element ``offset`` of that memory on."""
        return self._replace(storage=storage, strides=strides, offset=offset)

    @property
    def dense(self) -> bool:
        """Whether the strides are those of a dense row-major array."""
        return self.strides == dense_of(self.shape)

    @property
    def irregular(self) -> bool:
        """Whether elements share memory or run backwards, so that no kernel of the library takes the tensor."""
        return any(stride <= 0 and dim > 1 for dim, stride in zip(self.shape, self.strides, strict=True))


class Values(dict[int, Value]):
    """The values of a graph by id. New ones get the next id here, and nowhere else."""

    def add(self, value: Value, *, shares: bool = False) -> int:
        """Add a value under a new id, in memory of its own unless it ``shares`` that of its storage; return the id."""
        number = len(self)
        while number in self:  # an edited graph has gaps in its ids
            number += 1
        self[number] = value._replace(id=number, storage=value.storage if shares else number)
        return number

    def new(self, dtype: DataType, shape: Dims, name: str, constant: Array | None = None) -> int:
        """The id of a new dense value with memory of its own."""
        return self.add(Value(0, dtype, shape, dense_of(shape), 0, name, constant))

    def like(self, value: int, suffix: str, shape: Dims | None = None, strides: Dims | None = None) -> int:
        """The id of a new variable of the data type of another value, in memory of its own.

        Args:
            value: the other value.
            suffix: follows the name of the other value, in parentheses.
            shape: its shape; that of the other value by default.
            strides: its strides; those of a dense value by default.
        """
        model = self[value]
        shape = model.shape if shape is None else shape
        strides = dense_of(shape) if strides is None else strides
        return self.add(Value(0, model.dtype, shape, strides, 0, f"{model.name} ({suffix})"))

    def part(self, base: Value, suffix: str, shape: Dims, strides: Dims, offset: int = 0) -> int:
        """The id of a new value in the memory of another one, whose first element is element ``offset`` there."""
        view = base._replace(shape=shape, strides=strides, offset=offset, name=f"{base.name} ({suffix})")
        return self.add(view, shares=True)
