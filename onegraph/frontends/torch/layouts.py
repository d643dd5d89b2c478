"""Describes how tensors of PyTorch lie in memory, so that arrays on the same memory have rows behind each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ..._util.records import record
from ...ir.op import Array
from ...lowering.emitter import Emitter, Value
from ...lowering.layout import inverse
from ...lowering.movement import expand, transpose
from ...opset.dtypes import DataType
from .types import DTYPES, from_numpy, to_numpy

Call = Callable[[Any], Any]
KEPT = 4096  # layouts of tensors of calls


@record(frozen=True)
class Layout:
    """The memory of a tensor.

    Attributes:
        kind: PyTorch's data type.
        shape: the shape.
        order: the axes in the order of their strides, the largest first.
        repeated: the axes along which every element is the same memory.
        strides: strides in elements along the ordered axes; None if the rows lie behind each other.
        overlaps: whether elements share memory in another way, so that each call copies them.
    """

    kind: Any
    shape: tuple[int, ...]
    order: tuple[int, ...]
    repeated: tuple[int, ...]
    strides: tuple[int, ...] | None
    overlaps: bool = False

    @classmethod
    def of(cls, fake: Any) -> Layout:
        """The layout of a tensor of known shape and strides."""
        return cls.stated(fake.dtype, tuple(fake.shape), tuple(fake.stride()))

    @classmethod
    def dense(cls, fake: Any) -> Layout:
        """The layout with rows behind each other."""
        shape = tuple(fake.shape)
        return cls(fake.dtype, shape, tuple(range(len(shape))), (), None)

    @classmethod
    def stated(cls, kind: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
        """The layout of a tensor with these strides in elements."""
        rank = len(shape)
        repeated = tuple(axis for axis in range(rank) if strides[axis] == 0 and shape[axis] > 1)
        kept = [1 if axis in repeated else dim for axis, dim in enumerate(shape)]
        if _is_dense(kept, strides):
            return cls(kind, shape, tuple(range(rank)), repeated, None)
        order = tuple(sorted(range(rank), key=lambda axis: (-strides[axis], axis)))
        dims, steps = [kept[axis] for axis in order], tuple(strides[axis] for axis in order)
        long = [(step, dim) for step, dim in zip(steps, dims, strict=True) if dim > 1]
        if any(step < dim * inner for (step, _), (inner, dim) in pairwise(long)):
            return cls(kind, shape, tuple(range(rank)), (), None, overlaps=True)
        return cls(kind, shape, order, repeated, None if _is_dense(dims, steps) else steps)

    @property
    def dtype(self) -> DataType:
        """The data type of the graph's tensor."""
        return DTYPES[self.kind]

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of the array on the same memory."""
        return tuple(1 if axis in self.repeated else self.shape[axis] for axis in self.order)

    def read(self, emit: Emitter, value: Value) -> Value:
        """The tensor, of a value that has the shape of the array."""
        result = transpose(emit, value, inverse(self.order)) if self.order else value
        return expand(emit, result, self.shape) if self.repeated else result

    def written(self, emit: Emitter, value: Value) -> Value:
        """The value in the shape of the array."""
        return transpose(emit, value, self.order)

    def array(self) -> Callable[[Any], Array]:
        """A function that views a tensor as the array."""
        view = to_numpy(self.kind)
        if self.overlaps:
            return lambda tensor: view(tensor.contiguous())
        if not self.repeated and self.order == tuple(range(len(self.order))):
            return view
        index = tuple(slice(0, 1) if axis in self.repeated else slice(None) for axis in range(len(self.shape)))
        order = self.order

        def ordered(tensor: Any) -> Array:
            return view(tensor)[index].transpose(order)

        return ordered

    def tensor(self) -> Callable[[Array], Any]:
        """A function that views an array as the tensor."""
        view = from_numpy(self.kind)
        if self.order == tuple(range(len(self.order))):
            return view
        order = inverse(self.order)

        def ordered(array: Array) -> Any:
            return view(array).permute(order)

        return ordered


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim != 1 and stride != step:
            return False
        step *= dim
    return True


@lru_cache(KEPT)
def _viewed(kind: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Layout, Call]:
    layout = Layout.stated(kind, tuple(shape), strides)
    return layout, layout.array()


def viewed(tensor: Any) -> tuple[Layout, Call]:
    """The layout of a tensor of a call, and the function that views it as the array."""
    return _viewed(tensor.dtype, tensor.shape, tensor.stride())
