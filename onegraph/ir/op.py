"""The records that a graph is made of: logical tensors and ops. They are data; nothing here knows C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .._util.init_once import Made, made_once
from .._util.interpreter_tricks import read_slot_through, record_maker
from .._util.validation import as_dict, expect
from ..opset.dtypes import DataType
from ..opset.editions.registry import edition
from ..opset.schema import AttrValue, Schema, Shape, TensorType, make_type

Array = NDArray[np.generic]


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class LogicalTensor(Made):
    """A value of a graph: what is known of a tensor before there is data.

    Attributes:
        id: number within its graph.
        dtype: data type.
        shape: dims, None where a dim is unknown; None as a whole where the rank is unknown.
        strides: elements from one index to the next along each axis; None is dense row-major.
        name: name of a graph input or output, or ``op.port``.
        value: contents of a constant, else None.
    """

    id: int
    dtype: DataType
    shape: Shape
    strides: tuple[int, ...] | None = None
    name: str = ""
    value: Array | None = field(default=None, repr=False)
    _watches: tuple[object, ...] = field(default=(), repr=False)  # weak references, so that ``value`` is not resized

    def _laid_out(self, strides: tuple[int, ...] | None) -> LogicalTensor:
        """The same tensor in memory of other strides."""
        if strides == self.strides:
            return self
        return make_tensor(self.id, self.dtype, self.shape, strides, self.name, self.value, self._watches)

    @property
    def constant(self) -> bool:
        """Whether the contents are known when the graph is built."""
        return _contents(self) is not None

    @property
    def type(self) -> TensorType:
        """Data type and shape, and the contents where they are known."""
        return make_type(self.dtype, self.shape, self.value, None)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.id, self.dtype, self.shape, self.strides, self.name, self.value)


def _seen(kept: Array | None) -> Array | None:
    """The contents as an array of the caller's own: whoever sets its shape or data type changes nothing else."""
    return kept.view() if type(kept) is np.ndarray else kept  # a record that was made by hand may have anything


make_tensor = record_maker(LogicalTensor)
_contents: Callable[[LogicalTensor], Array | None] = read_slot_through(LogicalTensor, "value", _seen)


def _unpickled(
    number: int,
    dtype: DataType,
    shape: Shape,
    strides: tuple[int, ...] | None,
    name: str,
    value: Array | None,
) -> LogicalTensor:
    """A logical tensor from a pickle; numpy gives the contents of a constant back writable."""
    if value is not None:
        value.flags.writeable = False
    return LogicalTensor(number, dtype, shape, strides, name, value)


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class Signature:
    """One use of an op that is in order, without ids and names: ops with the same attributes and types share it.

    Attributes:
        schema: the op in its edition.
        attrs: what was given, read-only; defaults are left out.
        inputs: types in port order, with contents only where a rule or a shape function reads them.
        dtypes, shapes: of the outputs.
        lenient: whether it breaks the specification, and the library takes it all the same.
    """

    schema: Schema
    attrs: Mapping[str, AttrValue]
    inputs: tuple[TensorType | None, ...]
    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]
    lenient: bool = False


make_signature = record_maker(Signature)


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class Op(Made):
    """One op of a graph, in the words of its edition. ``attrs`` holds what was given; defaults are left out.

    ``signature`` is what the builder found when it examined the op; None for a record that was made by hand, and for
    one that breaks the specification.
    """

    id: int
    kind: str
    inputs: tuple[LogicalTensor | None, ...]
    outputs: tuple[LogicalTensor, ...]
    attrs: Mapping[str, AttrValue]
    name: str
    edition: str
    signature: Signature | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.signature is not None:
            expect("signature", self.signature, Signature, "that of an op of a graph, or None")
        if self.signature is None or self.attrs is not self.signature.attrs:
            attrs = as_dict("attrs", self.attrs, "a dictionary of attribute names and values")
            object.__setattr__(self, "attrs", MappingProxyType(attrs))

    def __reduce__(self) -> tuple[type[Op], tuple[object, ...]]:
        return Op, (self.id, self.kind, self.inputs, self.outputs, dict(self.attrs), self.name, self.edition)


make_op = record_maker(Op)


def schema_of(op: Op) -> Schema:
    """The record of an op in its edition."""
    schema = edition(op.edition).schema(op.kind)
    assert schema is not None
    return schema
