"""Defines the records of a graph: logical tensors and ops. They are plain data, independent of the C API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._util.init_once import Made, made_once, refuse_unmade
from .._util.interpreter_tricks import read_slot_through, record_maker
from .._util.validation import as_dict, expect
from ..errors import StateError, shown
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of, edition
from ..opset.schema import Schema, TensorType, make_type
from ..opset.signature import AttrValue, Shape
from .operators import OperatorGraph, Operators

Array = NDArray[np.generic]


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class LogicalTensor(Operators, Made):
    """The description of a tensor of a graph, without its data. Python's operators add ops to the graph.

    Attributes:
        id: number within its graph.
        dtype: data type.
        shape: dims, with None for an unknown dim; None if the rank is unknown.
        strides: stride along each axis, in elements; None is dense row-major.
        name: name of a graph input or output, or ``op.port``.
        value: contents of a constant, else None.
    """

    id: int
    dtype: DataType
    shape: Shape
    strides: tuple[int, ...] | None = None
    name: str = ""
    value: Array | None = field(default=None, repr=False)
    # Weak references to the arrays that own the memory of ``value``: numpy does not resize an array that has one.
    _watches: tuple[object, ...] = field(default=(), repr=False)
    # A weak reference to the graph that made the tensor, for operators; None for a record that a user made.
    _graph: Callable[[], OperatorGraph | None] | None = field(default=None, repr=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Called for a missing attribute: raise AttributeError, which says where ops are."""
            refuse_unmade(self, name)
            graph, fix = None if name[:1] == "_" or self._graph is None else self._graph(), ""
            if hasattr(type(graph), name):
                fix = f"; ops are methods of the graph, as in g.{name}(tensor)"
            elif graph is not None:
                try:
                    getattr(graph, name)
                except AttributeError as error:  # which says what was probably meant
                    _, _, meant = str(error).partition("; did you mean ")
                    fix = f"; ops are methods of the graph: did you mean {meant}" if meant else ""
            raise AttributeError(f"'LogicalTensor' object has no attribute {name!r}{fix}", name=name, obj=None)

    def _laid_out(self, strides: tuple[int, ...] | None) -> LogicalTensor:
        """The same tensor with other strides."""
        if strides == self.strides:
            return self
        return make_tensor(self.id, self.dtype, self.shape, strides, self.name, self.value, self._watches, self._graph)

    def _builder(self) -> OperatorGraph:
        graph = None if self._graph is None else self._graph()
        if graph is None:
            lost = "no graph made it" if self._graph is None else "its graph is no longer referenced"
            raise StateError(f"operators add an op to the graph of tensor {self.name or self.id!r}, but {lost}")
        return graph

    @property
    def constant(self) -> bool:
        """Whether the contents are known when the graph is built."""
        return _contents(self) is not None

    @property
    def type(self) -> TensorType:
        """Data type and shape, and the contents of a constant."""
        return make_type(self.dtype, self.shape, self.value, None)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.id, self.dtype, self.shape, self.strides, self.name, _as_numbers(self.value))


def _view_of(stored: Array | None) -> Array | None:
    """A new view of the contents, so that a caller who sets its shape or dtype does not change the stored array."""
    return stored.view() if type(stored) is np.ndarray else stored  # a user-made record may hold any object


make_tensor = record_maker(LogicalTensor)
_contents: Callable[[LogicalTensor], Array | None] = read_slot_through(LogicalTensor, "value", _view_of)


def _as_numbers(value: Array | None) -> Array | None:
    """An array of a type that numpy lacks, such as bf16, as integers: numpy pickles only its own types out of band."""
    if type(value) is np.ndarray and value.dtype.isbuiltin == 2:
        return value.view(f"u{value.itemsize}")
    return value


def _unpickled(
    number: int,
    dtype: DataType,
    shape: Shape,
    strides: tuple[int, ...] | None,
    name: str,
    value: Array | None,
) -> LogicalTensor:
    """Unpickle a logical tensor and make its contents read-only again; numpy unpickles arrays as writable."""
    if value is not None:
        value = value if value.dtype == dtype.numpy else value.view(dtype.numpy)
        value.flags.writeable = False
    return LogicalTensor(number, dtype, shape, strides, name, value)


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class Signature:
    """The result of checking one use of an op, without ids and names; ops with equal attributes and types share it.

    Attributes:
        schema: the op in its edition.
        attrs: the given attributes, read-only, without defaults.
        inputs: types in port order, with contents only where a rule or a shape function reads them.
        dtypes, shapes: data types and shapes of the outputs.
        lenient: True if the op breaks the specification but the library accepts it.
    """

    schema: Schema
    attrs: Mapping[str, AttrValue]
    inputs: tuple[TensorType, ...]
    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]
    lenient: bool = False


make_signature = record_maker(Signature)


@made_once
@dataclass(frozen=True, eq=False, slots=True)
class Op(Made):
    """One op of a graph, in the vocabulary of its edition. ``attrs`` holds the given attributes, without defaults.

    ``signature`` is the result of the builder's check; None for a record that a user made directly, and for an op that
    breaks the specification.
    """

    id: int
    kind: str
    inputs: tuple[LogicalTensor, ...]
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

    def __repr__(self) -> str:
        attrs = ", ".join(f"{name!r}: {brief(value)}" for name, value in self.attrs.items())
        named = f"id={self.id}, kind={self.kind!r}, inputs={self.inputs!r}, outputs={self.outputs!r}"
        return f"Op({named}, attrs={{{attrs}}}, name={self.name!r}, edition={self.edition!r})"

    def __reduce__(self) -> tuple[type[Op], tuple[object, ...]]:
        return Op, (self.id, self.kind, self.inputs, self.outputs, dict(self.attrs), self.name, self.edition)


make_op = record_maker(Op)


def brief(value: object) -> str:
    """An attribute as text; a long word, such as the body of a loop, by its ends."""
    return shown(value) if type(value) is str else repr(value)


def shape_inputs_of(op: Op) -> tuple[int, ...]:
    """Indices of the inputs of an op whose contents decide the shapes of its results."""
    schema = base_of(schema_of(op) if op.signature is None else op.signature.schema)
    stated: Any = op.attrs.get("shape_inputs", ())
    return (*schema.shape_inputs, *stated)


def label_of(op: Op) -> str:
    """The kind of an op in reports; an OnnxNode has the kinds of its nodes too."""
    return f"{op.kind} {op.attrs['nodes']}" if op.kind == "OnnxNode" else op.kind


def schema_of(op: Op) -> Schema:
    """The schema of an op in its edition."""
    schema = edition(op.edition).schema(op.kind)
    assert schema is not None
    return schema
