"""The records that describe an op: attributes, ports, data types, rules and shape inference.

An op is one :class:`Schema`. Its shape function and its rules are plain functions of a :class:`Call`, the op with the
attributes and input types of one use; they are written in the words of the base vocabulary (oneDNN 3.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._util.fork_safety import cached_property
from .._util.init_once import made_once
from .._util.interpreter_tricks import record_maker
from .dtypes import DataType

Shape = tuple[int | None, ...] | None
Version = tuple[int, int]
AttrValue = float | int | bool | str | tuple[float, ...] | tuple[int, ...]
OLDEST: Version = (3, 0)


class Range(NamedTuple):
    """A named set of numbers: what an attribute, or each element of it, must be."""

    name: str
    holds: Callable[[float], bool]


POSITIVE = Range("positive", lambda number: number > 0)
NON_NEGATIVE = Range("non-negative", lambda number: number >= 0)
UNIT = Range("between 0 and 1", lambda number: 0 <= number <= 1)


@made_once
@dataclass(frozen=True)
class Fill:
    """The default of a list that is as long as the op has spatial axes: ``value`` in every place."""

    value: int


@made_once
@dataclass(frozen=True)
class Attribute:
    """One attribute of an op: required, or optional with a default, or optional without one.

    ``kind`` is f32, f32[], s64, s64[], bool or str. ``aliases`` are other spellings of ``values`` that are taken too.
    ``disputed`` aliases are taken with a note, because the specification prints them in one place and denies them in
    another.
    """

    name: str
    kind: str
    doc: str
    required: bool = False
    default: AttrValue | Fill | None = None
    values: tuple[str, ...] = ()
    range: Range | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()
    since: Version = OLDEST


@made_once
@dataclass(frozen=True)
class Port:
    """One input or output. ``type`` is a type variable of the op's rows or the name of a data type."""

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    since: Version = OLDEST

    @property
    def gives_shape(self) -> bool:
        """Whether the contents of the input, not only its shape, decide the shapes of the outputs."""
        return self.type == "s32" and self.name.endswith(("shape", "axes", "sizes", "order"))

    @property
    def is_read(self) -> bool:
        """Whether a rule or a shape function reads the contents of the input where they are known."""
        return self.gives_shape or self.name in ("indices", "probability")


def ports(text: str) -> tuple[Port, ...]:
    """Ports in index order, as ``"src:T weights:T bias:T?"``: ``?`` optional, ``*`` variadic, ``@3.9`` since."""
    found = []
    for word in text.split():
        word, since = _since(word)
        name, _, type_ = word.partition(":")
        found.append(Port(name, type_.rstrip("?*"), "?" in type_, "*" in type_, since))
    return tuple(found)


def _since(word: str) -> tuple[str, Version]:
    text, _, version = word.partition("@")
    if not version:
        return text, OLDEST
    major, minor = version.split(".")
    return text, (int(major), int(minor))


@made_once
@dataclass(frozen=True)
class Row:
    """One line of a type table: for each type variable the data types that it may be, together with the others."""

    types: Mapping[str, frozenset[DataType]]
    since: Version = OLDEST

    def __str__(self) -> str:
        return ", ".join(f"{name}={'|'.join(sorted(map(str, types)))}" for name, types in self.types.items())


def rows(variables: str, *lines: str) -> tuple[Row, ...]:
    """A type table as the specification prints it: ``rows("T1 T2", "f32 f32", "bf16 f32|bf16 @3.8")``."""
    table = []
    for line in lines:
        line, since = _since(line)
        cells = [frozenset(DataType[name] for name in cell.split("|")) for cell in line.split()]
        table.append(Row(dict(zip(variables.split(), cells, strict=True)), since))
    return tuple(table)


FLOATS = rows("T", "f32", "bf16", "f16")


@made_once
@dataclass(frozen=True, slots=True)
class TensorType:
    """Data type and shape of a tensor; ``value`` where its contents are known when the graph is built.

    ``bound`` is how far from 0 the integers in it are at most, where something is known of that.
    """

    dtype: DataType | None
    shape: Shape
    value: NDArray[np.generic] | None = field(default=None, compare=False, repr=False)
    bound: int | None = field(default=None, compare=False, repr=False)

    @property
    def rank(self) -> int | None:
        """Number of dimensions, None where unknown."""
        return None if self.shape is None else len(self.shape)


make_type = record_maker(TensorType)


class Finding(NamedTuple):
    """What a rule found: the attribute or port, what was given, what is allowed, and the mend where there is one.

    ``note`` says that the specification allows it, and that it is hardly meant.
    """

    where: str
    given: object
    expected: str
    fix: str = ""
    note: bool = False


class Call:
    """One use of an op: its schema, its attributes with defaults filled in, and the types of its inputs.

    Rules and shape functions read it by name. Nothing about an input is certain: a port may be absent, a shape or a
    dim unknown (None).
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

    def output_type(self, index: int) -> DataType | None:
        """Data type of output ``index``; None where it is not known."""
        return self.output_types[index] if index < len(self.output_types) else None

    def with_attr(self, name: str, value: AttrValue) -> Call:
        """This use with another value of an attribute."""
        return Call(self.schema, {**self.given, name: value}, self.inputs, self.n_outputs, self.output_types)

    def has(self, name: str) -> bool:
        """Whether attribute ``name`` was given."""
        return name in self.given

    def attr(self, name: str) -> AttrValue | Fill | None:
        """Attribute ``name``, its default where it was not given, None where it has none."""
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
        """Attribute ``name`` of kind s64[]; a default of one value everywhere is given ``length`` elements."""
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
        """The input at port ``name``, None where it is absent."""
        index = self.schema.input_index(name)
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, name: str) -> Shape:
        """Shape of the input at port ``name``; None where it is absent or of unknown rank."""
        tensor = self.input(name)
        return None if tensor is None else tensor.shape

    def rank(self, name: str) -> int | None:
        """Rank of the input at port ``name``; None where it is absent or unknown."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def value(self, name: str) -> tuple[int, ...] | None:
        """Contents of the integer input at port ``name`` where they are known, else None."""
        tensor = self.input(name)
        if tensor is None or tensor.value is None:
            return None
        return tuple(int(element) for element in tensor.value.ravel())


Rule = Callable[[Call], Iterable[Finding]]
ShapeFunction = Callable[[Call], tuple[Shape, ...]]


@made_once
@dataclass(frozen=True)
class Dialect:
    """How an op of another edition reads in the base vocabulary.

    Attributes:
        kind: the op in the base vocabulary.
        attributes: edition's attribute name -> base name, where they differ.
        values: edition's attribute name -> {its value: base value}, where they differ.
        swapped: ports and shape attributes (edition's names) whose two channel axes stand the other way round than the
            format of the base that the values map to.
    """

    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    swapped: frozenset[str] = frozenset()


@made_once
@dataclass(frozen=True)
class Schema:
    """Everything that is known of one op in one edition.

    Attributes:
        kind: name as the specification prints it, ``"ConvTranspose"``.
        name: name in Python: the C enumerator without its prefix, ``"conv_transpose"``.
        doc: what it computes, in a sentence or a formula.
        rules: what no table says; each is a generator of findings, and its name is its id in reports.
        shape_rules: rules that may rely on everything above being in order.
        shape: the shapes of all outputs.
        implied_outputs: number of outputs that the attributes imply, where that depends on them.
        dialect: how to read the op in base words; None where these are base words.
        page: name of its page in the edition, where that is not ``kind``.
        notes: where the texts and the library disagree, and what is done here.
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
    dialect: Dialect | None = None
    page: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def _attributes(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def _inputs(self) -> dict[str, int]:
        return {port.name: index for index, port in enumerate(self.inputs)}

    def attribute(self, name: str) -> Attribute:
        """The record of attribute ``name``; KeyError where the op has none."""
        return self._attributes[name]

    def has_attribute(self, name: str) -> bool:
        """Whether the op has an attribute ``name``."""
        return name in self._attributes

    def input_index(self, name: str) -> int:
        """Index of input port ``name``; KeyError where the op has none."""
        return self._inputs[name]

    @cached_property
    def variadic(self) -> bool:
        """Whether the op takes any number of inputs."""
        return any(port.variadic for port in self.inputs)

    @cached_property
    def required_inputs(self) -> int:
        """Number of inputs that cannot be left out."""
        return sum(not port.optional for port in self.inputs)

    @cached_property
    def has_fixed_types(self) -> bool:
        """Whether a port has one data type, whatever the table says of the others."""
        return any(port.type in DataType.__members__ for port in (*self.inputs, *self.outputs))

    @cached_property
    def read_inputs(self) -> frozenset[int]:
        """Which inputs have contents that rules or shape functions read, by index."""
        return frozenset(index for index, port in enumerate(self.inputs) if port.is_read)

    @cached_property
    def shape_inputs(self) -> tuple[int, ...]:
        """Places of the inputs whose contents give a shape or axes."""
        return tuple(index for index, port in enumerate(self.inputs) if port.gives_shape)

    def input_port(self, index: int) -> Port:
        """The port that input ``index`` belongs to; the last one where the op is variadic."""
        return self.inputs[min(index, len(self.inputs) - 1)]


def same_shape(call: Call) -> tuple[Shape, ...]:
    """Every output has the shape of the first input."""
    first = call.inputs[0]
    return (None if first is None else first.shape,) * len(call.schema.outputs)
