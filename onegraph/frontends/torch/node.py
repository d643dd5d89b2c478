"""Defines a node of an FX graph as the functions that lower it see it, and the table of those functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from ..._util.open_sizes import is_open
from ...lowering.emitter import Emitter, NotLowered, Value, dtype_of, shape_of
from ...lowering.movement import cast, expand, reshape, scalar
from ...lowering.open_samples import open_factor, open_number
from ...lowering.open_values import OpenInput
from ...opset.dtypes import DataType
from .types import DTYPES, PARTS_OF

__all__ = [
    "DEQUANTIZES",
    "HIGHER",
    "LOWERINGS",
    "PARTS",
    "PARTS_OF",
    "AtenNode",
    "Lowering",
    "NotLowered",
    "lowers",
    "lowers_parts",
]

# A value, or a list with a value for each result; None stands for a result that no op of a graph computes.
Lowering = Callable[["AtenNode"], Any]
LOWERINGS: dict[str, Lowering] = {}
PARTS: dict[str, Lowering] = {}  # of calls that read or return complex tensors; see tables/complex_numbers.py
HIGHER: dict[str, Callable[..., Any]] = {}  # of ops whose arguments are graphs; see tables/control.py
LIBRARIES = ("onegraph.", "prims.", "quantized_decomposed.", "torchao.", "transformers.")  # of ops beside ATen
DEQUANTIZES = ("quantized_decomposed.dequantize", "torchao.dequantize_affine")  # how names of ops on codes begin
Kept = TypeVar("Kept", bound=Lowering)


class AtenNode:
    """One call of an ATen op, with the values of its arguments.

    Attributes:
        emit: adds ops to the graph.
        name: the name of the op, such as ``aten.add.Tensor``.
        like: what the call returns, as fake tensors of known shapes.
        fakes: the arguments, by name, with fake tensors.
        read: the places of the results that are read, if the call returns several.
    """

    def __init__(
        self,
        target: Any,
        values: Mapping[str, Any],
        fakes: Mapping[str, Any],
        like: Any,
        read: frozenset[int],
        emit: Emitter,
    ) -> None:
        self.name, self.like, self.emit = str(target), like, emit
        self.fakes, self.read = fakes, read
        self._values = values

    def __getitem__(self, name: str) -> Any:
        """The argument ``name``: a value, a list of values, a number, a text or None."""
        return self._values.get(name)

    def value(self, name: str) -> Value:
        """The tensor that argument ``name`` is, which is required."""
        held = self._values[name]
        if not hasattr(held, "shape"):
            raise NotLowered(f"{name} is no tensor")
        return held  # type: ignore[no-any-return]

    def value_as(self, name: str, dtype: DataType) -> Value:
        """The tensor or number that argument ``name`` is, in a data type."""
        value = self._values[name]
        if not hasattr(value, "shape"):

            def opened(emit: Emitter, sizes: Callable[[Sequence[int]], Value]) -> Value:
                return reshape(emit, sizes([value]), ())

            size = self.open_value((), dtype, (value,), opened, lambda: self._number(value, dtype))
            return scalar(value, dtype) if size is None else size
        return cast(self.emit, value, dtype)

    def _number(self, size: int, dtype: DataType) -> Value:
        """An open size as a number."""
        return cast(self.emit, reshape(self.emit, open_factor(self.emit, size), ()), dtype)

    def open_value(
        self,
        shape: Sequence[int],
        dtype: DataType,
        numbers: Sequence[Any],
        make: Callable[[Emitter, Callable[[Sequence[int]], Value]], Value],
        within: Callable[[], Value],
    ) -> Value | None:
        """A value that follows from open sizes.

        Args:
            shape, dtype: of the value.
            numbers: the numbers that decide it.
            make: makes it for unknown dims, given an emitter and a function that makes a vector of s64 of sizes.
            within: makes it for a program, which takes sizes at the call.

        Returns:
            The value; None if no number is open.
        """
        if not is_open(numbers):
            return None
        if self.emit.opened is None:
            return within()
        recipe = OpenInput("value", (), lambda emit, sizes: cast(emit, make(emit, sizes), dtype))
        return self.emit.opened.value(self.emit.graph, dtype, shape, recipe)

    def counted(self, count: int, start: int = 0, step: int = 1, dtype: DataType = DataType.s64) -> Value:
        """So many whole numbers from ``start`` on, of which any may be an open size."""

        def opened(emit: Emitter, sizes: Callable[[Sequence[int]], Value]) -> Value:
            ends = start, start + count * step, step
            return emit.op("Range", [reshape(emit, sizes([end]), ()) for end in ends])

        def within() -> Value:
            ends = [open_number(self.emit, end) for end in (start, start + count * step, step)]
            return cast(self.emit, self.emit.op("Range", ends), dtype)

        vector = self.open_value((count,), dtype, (count, start, step), opened, within)
        return (np.arange(count) * step + start).astype(dtype.numpy) if vector is None else vector

    def filled(self, shape: Sequence[int], number: Any, dtype: DataType) -> Value:
        """A tensor with one number, of which any size may be open, as may be the number."""

        def opened(emit: Emitter, sizes: Callable[[Sequence[int]], Value]) -> Value:
            first = reshape(emit, sizes([number]), ()) if is_open((number,)) else np.array(number, dtype.numpy)
            return expand(emit, cast(emit, first, dtype), sizes(shape)) if shape else first

        def within() -> Value:
            first = self._number(number, dtype) if is_open((number,)) else np.array(number).astype(dtype.numpy)
            return expand(self.emit, first, shape)

        value = self.open_value(shape, dtype, (*shape, number), opened, within)
        return np.broadcast_to(np.array(number).astype(dtype.numpy), shape) if value is None else value

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of argument ``name``."""
        shape = shape_of(self.value(name)) or ()
        if None in shape:
            raise NotLowered(f"{name} has a size that depends on contents")
        return shape  # type: ignore[return-value]

    def axis(self, name: str, of: str = "self") -> int:
        """The axis that argument ``name`` is, by default 0, counted from the start of the axes of a tensor."""
        rank = len(self.shape(of))
        if not rank:
            raise NotLowered(f"{of} is one number, and has no axes")
        return int(self._values[name] or 0) % rank

    def dtype(self, name: str) -> DataType:
        """Data type of argument ``name``."""
        return dtype_of(self.value(name))

    @property
    def result(self) -> Any:
        """The first result, as a fake tensor."""
        return self.like[0] if type(self.like) in (tuple, list) else self.like

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return tuple(self.result.shape)

    @property
    def result_dtype(self) -> DataType:
        """Data type of the first result."""
        return DTYPES[self.result.dtype]


def axes_of(axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes counted from the start; all of them for None and for an empty list."""
    if axes is None:
        return [*range(rank)]
    listed = [axes] if type(axes) is int else [*axes]  # type: ignore[misc]
    return sorted({axis % rank for axis in listed}) if listed and rank else [*range(rank)]


def lowers(*names: str) -> Callable[[Kept], Kept]:
    """Enter a function into the table for these overloads of ATen, such as ``add.Tensor``, or of other libraries."""

    return _entering(LOWERINGS, names)


def lowers_parts(*names: str) -> Callable[[Kept], Kept]:
    """As :func:`lowers`, for calls with complex tensors, whose values have a last axis for both parts."""
    return _entering(PARTS, names)


def _entering(table: dict[str, Lowering], names: Sequence[str]) -> Callable[[Kept], Kept]:
    def enter(function: Kept) -> Kept:
        table.update({name if name.startswith(LIBRARIES) else f"aten.{name}": function for name in names})
        return function

    return enter


def is_complex(fake: Any) -> bool:
    """Whether a tensor, or one in a list, is complex."""
    if type(fake) in (list, tuple):
        return any(map(is_complex, fake))
    return getattr(fake, "dtype", None) in PARTS_OF


def arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    by_name: dict[str, Any] = {}
    for place, argument in enumerate(target._schema.arguments):
        if place < len(args):
            by_name[argument.name] = args[place]
        elif argument.name in kwargs:
            by_name[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            by_name[argument.name] = argument.default_value
    return by_name


def is_op(target: Any) -> bool:
    """Whether a target is an overload of an op."""
    return type(target) is torch._ops.OpOverload


def is_higher_order(target: Any) -> bool:
    """Whether a target is an op whose arguments are graphs, such as a condition or a loop."""
    return isinstance(target, torch._ops.HigherOrderOperator)
