"""Defines the description of an op, and a use of an op, which its rules and its shape function read.

An op is one :class:`Schema`. Its shape function and its rules are plain functions of a :class:`Call`, which holds the
attributes and input types of one use of the op. They use the names of the base vocabulary (oneDNN 3.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .._util.fork_safety import cached_property
from .._util.init_once import made_once
from .._util.interpreter_tricks import record_maker
from .._util.open_numbers import has_open_numbers
from .._util.records import record
from .dtypes import NEVER, DataType
from .signature import OLDEST, Attribute, AttrValue, Fill, Port, Row, Shape, Version
from .traits import Trait

Result = TypeVar("Result")


@made_once
@dataclass(frozen=True, slots=True)
class TensorType:
    """Data type and shape of a tensor.

    ``value`` holds the contents if they are known when the graph is built. ``bound`` is the largest possible absolute
    value of the tensor's integers; None if unknown.
    """

    dtype: DataType | None
    shape: Shape
    value: NDArray[np.generic] | None = field(default=None, compare=False, repr=False)
    bound: int | None = field(default=None, compare=False, repr=False)

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if unknown."""
        return None if self.shape is None else len(self.shape)


make_type = record_maker(TensorType)


class RuleFinding(NamedTuple):
    """A mistake that a rule found: the attribute or port, the given value, the allowed values, and a fix if known.

    ``note`` marks a value that the specification allows but that is probably not intended. ``format`` is the attribute
    by which the shape at ``where`` was read; the message then shows both.
    """

    where: str
    given: object
    expected: str
    fix: str = ""
    note: bool = False
    format: str = ""


class Call:
    """One use of an op: its schema, its attributes and the types of its inputs.

    Rules and shape functions read attributes and inputs by name; an attribute that is not given reads as its default.
    An input may be absent, and its shape or a dim may be unknown (None).
    """

    def __init__(
        self,
        schema: Schema,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[TensorType | None],
        n_outputs: int | None = None,
        output_types: Sequence[DataType | None] = (),
    ) -> None:
        self.schema = schema
        self.given = attrs
        self.inputs = tuple(inputs)
        self.n_outputs = n_outputs
        self.output_types = tuple(output_types)
        self._kept: dict[Callable[..., object], object] = {}  # what was computed from this call, by function

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of all outputs."""
        return _shapes(self)

    def output_type(self, index: int) -> DataType | None:
        """Data type of output ``index``; None if unknown."""
        return self.output_types[index] if index < len(self.output_types) else None

    def with_attr(self, name: str, value: AttrValue) -> Call:
        """A copy of this call with another value of an attribute."""
        return Call(self.schema, {**self.given, name: value}, self.inputs, self.n_outputs, self.output_types)

    def has(self, name: str) -> bool:
        """Whether attribute ``name`` was given."""
        return name in self.given

    def attr(self, name: str) -> AttrValue | Fill | None:
        """Value of attribute ``name``: the given value, else the default, else None."""
        if name in self.given:
            return self.given[name]
        return self.schema.attribute(name).default

    def s64(self, name: str) -> int:
        """Attribute ``name`` of kind s64."""
        value = self.attr(name)
        assert isinstance(value, int)
        return value

    def f32(self, name: str) -> float:
        """Attribute ``name`` of kind f32."""
        value = self.attr(name)
        assert isinstance(value, (int, float))
        return value

    def flag(self, name: str) -> bool:
        """Attribute ``name`` of kind bool."""
        return bool(self.attr(name))

    def string(self, name: str) -> str:
        """Attribute ``name`` of kind str."""
        value = self.attr(name)
        assert isinstance(value, str)
        return value

    def s64s(self, name: str, length: int = 0) -> tuple[int, ...]:
        """Attribute ``name`` of kind s64[]; a default that is a :class:`Fill` gets ``length`` elements."""
        value = self.attr(name)
        if isinstance(value, Fill):
            return (value.value,) * length
        return cast("tuple[int, ...]", value)

    def f32s(self, name: str) -> tuple[float, ...]:
        """Attribute ``name`` of kind f32[]."""
        value = self.attr(name)
        assert isinstance(value, tuple)
        return value

    def input(self, name: str) -> TensorType | None:
        """The input at port ``name``; None if absent."""
        index = self.schema.input_index(name)
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, name: str) -> Shape:
        """Shape of the input at port ``name``; None if the input is absent or its rank is unknown."""
        tensor = self.input(name)
        return None if tensor is None else tensor.shape

    def rank(self, name: str) -> int | None:
        """Rank of the input at port ``name``; None if the input is absent or its rank is unknown."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def value(self, name: str) -> tuple[int, ...] | None:
        """Contents of the integer input at port ``name``, flattened; None if unknown."""
        tensor = self.input(name)
        if tensor is None or tensor.value is None:
            return None
        numbers = tensor.value.ravel()
        if has_open_numbers(numbers):
            return tuple(numbers)
        return tuple(int(element) for element in numbers)


def kept(compute: Callable[[Call], Result]) -> Callable[[Call], Result]:
    """A decorator: the result is kept with the call, because several rules and faults ask for it."""

    @wraps(compute)
    def computed_once(call: Call) -> Result:
        known = call._kept
        if compute not in known:
            known[compute] = compute(call)
        return cast("Result", known[compute])

    return computed_once


@kept
def _shapes(call: Call) -> tuple[Shape, ...]:
    return call.schema.shape(call)


Rule = Callable[[Call], Iterable[RuleFinding]]
_LIFETIMES: dict[Rule, tuple[Version, Version]] = {}


def during(since: Version = OLDEST, until: Version = NEVER) -> Callable[[Rule], Rule]:
    """A decorator of a rule that holds in the editions from ``since`` on, up to the one before ``until``."""

    def register(rule: Rule) -> Rule:
        _LIFETIMES[rule] = since, until
        return rule

    return register


def holds_in(rule: Rule, version: Version) -> bool:
    """Whether a rule is one of the edition of ``version``."""
    since, until = _LIFETIMES.get(rule, (OLDEST, NEVER))
    return since <= version < until


ShapeFunction = Callable[[Call], tuple[Shape, ...]]


@made_once
@record(frozen=True)
class Dialect:
    """How to translate an op of another edition to the base vocabulary.

    Attributes:
        kind: the op in the base vocabulary.
        attributes: edition's attribute name -> base name, where the names differ.
        values: edition's attribute name -> {edition's value: base value}, where the values differ.
        swapped: ports and shape attributes (edition's names) whose two channel axes are in the opposite order to the
            base format that ``values`` gives.
    """

    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    swapped: frozenset[str] = frozenset()


@made_once
@record(frozen=True)
class Schema:
    """The full description of one op in one edition.

    Attributes:
        kind: name as the specification prints it, ``"ConvTranspose"``.
        name: name in Python: the C enumerator without its prefix, ``"conv_transpose"``.
        doc: what the op computes, in a sentence or a formula.
        rules: checks that the tables of attributes, ports and types cannot express. Each is a function that yields
            findings; the name of the function is the id of the rule in reports.
        shape_rules: rules that run only if attributes, ports, types and ``rules`` have no errors.
        shape: function that returns the shapes of all outputs.
        implied_outputs: function that returns the number of outputs of a call that does not name them; None for all.
        dialect: translation to the base vocabulary; None if the schema already uses it.
        since, until: the first edition that has the op, and the first one that has it no more.
        page: name of the op's page in the edition; empty if it is ``kind``.
        notes: differences between the texts of the specification and the library, and what onegraph does.
        traits: what holds for every use of the op; None if nobody has decided it, as for ops that only legacy-1 has.
    """

    kind: str
    name: str
    category: str
    doc: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    types: tuple[Row, ...]
    shape: ShapeFunction
    attributes: tuple[Attribute, ...] = ()
    rules: tuple[Rule, ...] = ()
    shape_rules: tuple[Rule, ...] = ()
    implied_outputs: Callable[[Call], int] | None = None
    since: Version = OLDEST
    until: Version = NEVER
    dialect: Dialect | None = None
    page: str = ""
    notes: tuple[str, ...] = ()
    traits: Trait | None = None

    @cached_property
    def _attributes(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def _inputs(self) -> dict[str, int]:
        return {port.name: index for index, port in enumerate(self.inputs)}

    def attribute(self, name: str) -> Attribute:
        """The record of attribute ``name``; KeyError if the op has no such attribute."""
        return self._attributes[name]

    def has_attribute(self, name: str) -> bool:
        """Whether the op has an attribute ``name``."""
        return name in self._attributes

    def input_index(self, name: str) -> int:
        """Index of input port ``name``; KeyError if the op has no such port."""
        return self._inputs[name]

    @cached_property
    def variadic(self) -> bool:
        """Whether the op takes any number of inputs."""
        return any(port.variadic for port in self.inputs)

    @cached_property
    def required_inputs(self) -> int:
        """Number of required inputs."""
        return sum(not port.optional for port in self.inputs)

    @cached_property
    def has_fixed_types(self) -> bool:
        """Whether any port has a fixed data type instead of a type variable."""
        return any(port.type in DataType.__members__ for port in (*self.inputs, *self.outputs))

    @cached_property
    def read_inputs(self) -> frozenset[int]:
        """Indices of the inputs whose contents rules or shape functions read."""
        return frozenset(index for index, port in enumerate(self.inputs) if port.is_read)

    @cached_property
    def shape_inputs(self) -> tuple[int, ...]:
        """Indices of the inputs whose contents decide the output shapes."""
        return tuple(index for index, port in enumerate(self.inputs) if port.gives_shape)

    def input_port(self, index: int) -> Port:
        """The port of input ``index``; further inputs of a variadic op belong to the last port."""
        return self.inputs[min(index, len(self.inputs) - 1)]


def same_shape(call: Call) -> tuple[Shape, ...]:
    """Every output has the shape of the first input."""
    first = call.inputs[0]
    return (None if first is None else first.shape,) * len(call.schema.outputs)


def required_outputs(call: Call) -> int:
    """Number of outputs that are not optional, for ops whose optional outputs are made only if they are named."""
    return sum(not port.optional for port in call.schema.outputs)
