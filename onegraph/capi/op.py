"""Binds ops and checks each one before a call into C: against the specification and the faults of this library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._util.exact_types import plain, text
from .._util.fork_safety import new_rlock, refuse_inner
from .._util.init_once import once
from .._util.validation import as_dict, as_list, expect, identifier, string
from ..errors import ArgumentError, SpecError, StateError, shown
from ..faults.capabilities import LIBRARY_VALUES
from ..faults.constant_inputs import End, WiredOp
from ..faults.use import Use
from ..inference.op_inference import OpInference
from ..inference.suggestions import unknown_op
from ..native.library import Function, Handle, call, enum_names, enum_value, ffi, lib, read
from ..opset.editions.registry import BASE, DEFAULT, edition
from ..opset.schema import Call, Schema, TensorType
from ..opset.signature import Attribute, AttrValue, Shape
from ..opset.values import BadValueError, convert, is_none
from .logical_tensor import LogicalTensor
from .op_checks import EDITION, check_use, refuse_newer

_BY_NAME = {schema.name: schema for schema in BASE.values()}
_KINDS = enum_names("graph_op_", tuple(_BY_NAME))
CODES = {name: number for number, name in _KINDS.items()}
_OP = ffi.typeof("dnnl_graph_op_t *")
_create, _destroy = lib.dnnl_graph_op_create, lib.dnnl_graph_op_destroy
_add_input, _add_output = lib.dnnl_graph_op_add_input, lib.dnnl_graph_op_add_output
# By kind of attribute value: its C setter, its letter in native/csrc/partition.cpp, and its C array type.
SETTERS = {
    "f32": (lib.dnnl_graph_op_set_attr_f32, b"f", "float[]"),
    "s64": (lib.dnnl_graph_op_set_attr_s64, b"i", "int64_t[]"),
    "bool": (lib.dnnl_graph_op_set_attr_bool, b"b", "uint8_t[]"),
    "str": (lib.dnnl_graph_op_set_attr_str, b"s", "char[]"),
}


class Setting(NamedTuple):
    """An attribute as C arguments: kind of value, number of the attribute, C array and its length."""

    kind: str
    number: int
    value: Any
    length: int

    def apply(self, op: Any) -> None:
        """Set the attribute on a C op."""
        call(SETTERS[self.kind][0], op, self.number, self.value, self.length)


class Op(Handle):
    """``dnnl_graph_op_t``: an op that can be added to a graph.

    Args:
        id: number of the op in its graph.
        kind: its name in the specification or in C: ``"ConvTranspose"`` or ``"conv_transpose"``.
        name: text for verbose output.
        inputs, outputs: logical tensors in port order.
        attrs: attributes.

    Raises:
        ArgumentError: the kind is unknown or the id is invalid.
        SpecError: an attribute is unknown or has a bad value.
        UnsupportedError: the loaded library is older than the op.
    """

    __slots__ = ("_attrs", "_frozen", "_id", "_inputs", "_is_in_sync", "_lock", "_name", "_outputs", "_schema")

    @once("_ptr")
    def __init__(
        self,
        id: int,
        kind: str,
        name: str = "",
        *,
        inputs: Sequence[LogicalTensor] = (),
        outputs: Sequence[LogicalTensor] = (),
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        number = identifier("id", id)
        label = string("name", name)
        ins, outs = as_list("inputs", inputs, LogicalTensor), as_list("outputs", outputs, LogicalTensor)
        by_name = {} if attrs is None else as_dict("attrs", attrs, "a dictionary of attribute names and values")
        word = text(kind)
        schema = None if word is None else BASE.get(word) or _BY_NAME.get(word)
        if schema is None:
            hint = unknown_op(edition(DEFAULT), kind)
            raise ArgumentError(f"kind: {shown(kind)} is not an op; {hint or 'onegraph ops lists them'}")
        refuse_newer(schema)
        self._make(number, schema, label, [], [], {}, ())
        for tensor in ins:
            self._add_input(tensor)
        for tensor in outs:
            self._add_output(tensor)
        for attribute, value in by_name.items():
            self.set_attr(attribute, value)

    def _make(
        self,
        number: int,
        schema: Schema,
        name: str,
        inputs: list[LogicalTensor],
        outputs: list[LogicalTensor],
        attrs: dict[str, AttrValue],
        settings: Iterable[Setting],
    ) -> None:
        self._id, self._schema, self._name = number, schema, name
        self._inputs, self._outputs, self._attrs = inputs, outputs, attrs
        self._frozen = False
        self._lock = new_rlock()
        self._create_op(settings)

    def _create_op(self, settings: Iterable[Setting]) -> None:
        """Create the C op with the inputs, outputs and attributes of this object."""
        pointer = ffi.new(_OP)
        name = c_name(self._name)
        call(_create, pointer, self._id, CODES[self._schema.name], name)
        super().__init__(pointer[0], _destroy)
        for tensor in self._inputs:
            call(_add_input, self._ptr, tensor._struct)
        for tensor in self._outputs:
            call(_add_output, self._ptr, tensor._as_variable()._struct)
        for setting in settings:
            setting.apply(self._ptr)
        self._is_in_sync = True  # False during a change

    def _recreate_if_interrupted(self) -> None:
        """Create the C op again after an interrupted change, as its state is then unknown."""
        if not self._is_in_sync:
            attrs = passed(self._schema, self._attrs)
            self._create_op([setting_of(self._schema.attribute(name), value) for name, value in attrs.items()])

    @classmethod
    def _of(
        cls,
        schema: Schema,
        attrs: dict[str, AttrValue],
        settings: Iterable[Setting],
        number: int,
        name: str,
        inputs: list[LogicalTensor],
        outputs: list[LogicalTensor],
    ) -> Op:
        """Make an op without any checks; the caller has checked it for tensors of these types.

        The op is frozen, because it shares ``attrs`` with other ops.
        """
        op = cls.__new__(cls)
        op._make(number, schema, name, inputs, outputs, attrs, settings)
        op._frozen = True
        return op

    @property
    def id(self) -> int:
        """Number of the op in its graph, as the library has it."""
        return int(read(lib.dnnl_graph_op_get_id, "size_t", self._ptr))

    @property
    def kind(self) -> str:
        """Name in the specification of the op's kind in the library."""
        return _BY_NAME[_KINDS[read(lib.dnnl_graph_op_get_kind, "dnnl_graph_op_kind_t", self._ptr)]].kind

    @property
    def schema(self) -> Schema:
        """The record of the op in the specification."""
        return self._schema

    @property
    def name(self) -> str:
        """Text for verbose output."""
        return self._name

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs, in port order."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs, in port order."""
        return tuple(self._outputs)

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes that were set, by name; a copy."""
        return dict(self._attrs)

    def add_input(self, tensor: LogicalTensor) -> None:
        """Append an input.

        Raises:
            ArgumentError: the input is not a LogicalTensor.
            StateError: the op is in a graph or partition.
        """
        expect("input", tensor, LogicalTensor)
        self._add_input(tensor)

    def _add_input(self, tensor: LogicalTensor) -> None:
        self._add(_add_input, self._inputs, tensor, tensor)

    def add_output(self, tensor: LogicalTensor) -> None:
        """Append an output.

        Raises:
            ArgumentError: the output is not a LogicalTensor.
            StateError: the op is in a graph or partition.
        """
        expect("output", tensor, LogicalTensor)
        self._add_output(tensor)

    def _add_output(self, tensor: LogicalTensor) -> None:
        # An output is never constant: the library would compute a constant output once, or crash.
        self._add(_add_output, self._outputs, tensor, tensor._as_variable())

    def _add(
        self, function: Function, tensors: list[LogicalTensor], tensor: LogicalTensor, library_tensor: LogicalTensor
    ) -> None:
        refuse_inner(self._lock, f"op {self._id}")
        with self._lock:
            self._refuse_frozen()
            self._recreate_if_interrupted()
            self._is_in_sync = False
            call(function, self._ptr, library_tensor._struct)
            tensors.append(tensor)
            self._is_in_sync = True

    def set_attr(self, name: str, value: object) -> None:
        """Set an attribute of any of the six kinds; setting it again replaces it. None means a default that is none.

        The library does not get an attribute that the specification ignores beside another one, as it refuses the two.

        Raises:
            SpecError: the op has no such attribute, or the value is invalid.
            UnsupportedError: the loaded library is older than the attribute.
            StateError: the op is in a graph or partition.
        """
        word = text(name)
        if word is None or not self.schema.has_attribute(word):
            examination, schema = self._examination()
            examination.unknown_attribute(schema, name, value)
            raise SpecError(examination.violations)
        refuse_newer(self.schema, word)
        attribute, plain_value = self.schema.attribute(word), None if value is None else plain(value)
        stored: AttrValue | None = None
        try:
            if not is_none(attribute, plain_value):
                stored = convert(attribute, plain_value)
        except BadValueError as bad:
            examination, schema = self._examination()
            examination.bad_value(schema, word, plain_value, bad, list(map(_type, self._inputs)), shown(value))
            raise SpecError(examination.violations) from None
        refuse_inner(self._lock, f"op {self._id}")
        with self._lock:
            self._refuse_frozen()
            self._recreate_if_interrupted()
            changed = dict(self._attrs)
            changed.pop(word, None)
            if stored is not None:
                changed[word] = stored
            before, after = passed(self._schema, self._attrs), passed(self._schema, changed)
            self._is_in_sync = False
            if stored is not None and after.keys() == before.keys() | {word}:
                setting_of(attribute, stored).apply(self._ptr)
                self._attrs = changed
                self._is_in_sync = True
            else:  # a C op cannot give up an attribute
                self._attrs = changed
                self._recreate_if_interrupted()

    def _examination(self) -> tuple[OpInference, Schema]:
        """An inference that reports bad attributes, and the op's schema, both in the edition of the loaded library."""
        examination = OpInference(EDITION, self.schema.kind)
        schema = examination.find_schema(self.schema.kind)
        assert schema is not None
        return examination, schema

    def _refuse_frozen(self) -> None:
        if self._frozen:
            raise StateError(
                f"op {self.id} ({self.schema.kind}) is part of a graph or partition; it cannot be changed, or be part "
                "of another"
            )

    def check(self) -> None:
        """Check that this op can be added to a graph.

        Raises:
            SpecError: the op breaks the specification.
            UnsupportedError: the library refuses the op, crashes on it or computes it wrong.
        """
        check_types(self, [_type(tensor) for tensor in self._inputs], [_type(tensor) for tensor in self._outputs])

    def _use(self, inputs: Sequence[TensorType]) -> Use:
        """The record of this op for checks of a whole partition, with inputs of these types."""
        ins, outs = ([tensor.id for tensor in tensors] for tensors in (self._inputs, self._outputs))
        dtypes = [tensor.dtype for tensor in self._outputs]
        return Use(Call(self._schema, self._attrs, inputs, len(outs), dtypes), tuple(ins), tuple(outs), dtypes[0])

    def _node(self) -> WiredOp:
        """This op as the faults of compiling and executing see it."""
        ins, outs = ([End(tensor._id, tensor.shape) for tensor in side] for side in (self._inputs, self._outputs))
        return WiredOp(self._schema.kind, ins, outs)

    def __repr__(self) -> str:
        return f"Op({self.id}, {self.schema.kind!r}, {self.name!r})"


def _type(tensor: LogicalTensor) -> TensorType:
    return TensorType(tensor.dtype, tensor.shape)


def check_types(op: Op, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> tuple[Shape, ...]:
    """The output shapes of ``op`` for these types; raises the errors of :meth:`Op.check`."""
    return check_use(op.schema, passed(op.schema, op._attrs), op.name, inputs, outputs)


def passed(schema: Schema, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """The attributes that the library gets: without those that the specification ignores beside another one."""
    return {name: value for name, value in attrs.items() if not attrs.get(schema.attribute(name).ignored_beside)}


def refuse_other_uses(op: Op, known: Mapping[int, LogicalTensor]) -> None:
    """Raise ArgumentError if a tensor of ``op`` differs from an earlier use of its id, in ``known`` or by the op."""
    own: dict[int, LogicalTensor] = {}
    for tensor in (*op._inputs, *op._outputs):
        earlier = known.get(tensor._id) or own.setdefault(tensor._id, tensor)
        if earlier is not tensor and earlier != tensor:
            owner = "an earlier op" if tensor._id in known else "another port of the op"
            raise ArgumentError(f"tensor {tensor._id}: {tensor!r}; expected {earlier!r}, as {owner} has it")


def c_name(name: str) -> bytes:
    """A name in UTF-8 without NUL bytes, which end a C string."""
    return name.encode(errors="replace").replace(b"\0", b"")


def setting_of(attribute: Attribute, value: AttrValue) -> Setting:
    """An attribute value as arguments for its C setter."""
    kind = attribute.kind.removesuffix("[]")
    elements: Sequence[object] = value if type(value) is tuple else (value,)
    if kind == "str":
        elements = LIBRARY_VALUES.get(attribute.name, {}).get(str(value), str(value)).encode() + b"\0"
    number = enum_value("graph_op_attr_", attribute.name)
    return Setting(kind, number, ffi.new(SETTERS[kind][2], elements), len(elements))
