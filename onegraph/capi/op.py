"""Ops, checked before C is reached: against the specification, and for what this library crashes on or gets wrong."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, SpecError, StateError, UnsupportedError, shown
from ..examine import examine
from ..native import VERSION, Function, Handle, call, create, enum_names, enum_value, ffi, lib, read
from ..spec.editions import BASE, NEWEST, edition
from ..spec.library import LIBRARY_VALUES, quirks
from ..spec.schema import Attribute, AttrValue, Call, Schema, Shape, TensorType
from ..spec.values import BadValueError, convert
from ..violation import Report
from .logical_tensor import LogicalTensor
from .validate import as_list, expect, identifier

MAX_INTERPOLATED = 2**24
EDITION = edition(f"onednn-{VERSION[0]}.{min(VERSION[1], NEWEST[1])}")
_BY_NAME = {schema.name: schema for schema in BASE.values()}
_KINDS = enum_names("graph_op_", tuple(_BY_NAME))
# For each kind of number its setter, and what it takes an array of.
_SETTERS = {
    "f32": (lib.dnnl_graph_op_set_attr_f32, "float[]"),
    "s64": (lib.dnnl_graph_op_set_attr_s64, "int64_t[]"),
    "bool": (lib.dnnl_graph_op_set_attr_bool, "uint8_t[]"),
}


class Op(Handle):
    """``dnnl_graph_op_t``: an op that can be added to a graph.

    Args:
        id: number of the op in its graph.
        kind: as the specification or as C names it, ``"ConvTranspose"`` or ``"conv_transpose"``.
        name: text that verbose output shows.
        inputs, outputs: logical tensors in port order.
        attrs: attributes.

    Raises:
        ArgumentError: the kind is unknown or the id is no id.
        SpecError: an attribute is unknown or has a bad value.
        UnsupportedError: the loaded library is older than the op.
    """

    __slots__ = ("_attrs", "_frozen", "_inputs", "_lock", "_name", "_outputs", "_schema")

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
        expect("name", name, str)
        ins, outs = as_list("inputs", inputs, LogicalTensor), as_list("outputs", outputs, LogicalTensor)
        if attrs is not None and not isinstance(attrs, Mapping):
            raise ArgumentError(f"attrs: {shown(attrs)}; expected a dictionary of attribute names and values")
        schema = BASE.get(kind) or _BY_NAME.get(kind) if isinstance(kind, str) else None
        if schema is None:
            raise ArgumentError(f"kind: {shown(kind)} is not an op; onegraph ops lists them")
        if schema.since > VERSION:
            raise UnsupportedError(
                f"{schema.kind} needs oneDNN {schema.since[0]}.{schema.since[1]}; "
                f"the loaded library is {VERSION[0]}.{VERSION[1]}"
            )
        self._schema, self._name = schema, name
        self._inputs: list[LogicalTensor] = []
        self._outputs: list[LogicalTensor] = []
        self._attrs: dict[str, AttrValue] = {}
        self._frozen = False
        self._lock = threading.RLock()
        pointer = create(
            lib.dnnl_graph_op_create,
            "dnnl_graph_op_t",
            number,
            enum_value("graph_op_", schema.name),
            name.replace("\0", "").encode(errors="replace"),
        )
        super().__init__(pointer, lib.dnnl_graph_op_destroy)
        for tensor in ins:
            self.add_input(tensor)
        for tensor in outs:
            self.add_output(tensor)
        for attribute, value in (attrs or {}).items():
            self.set_attr(attribute, value)

    @property
    def id(self) -> int:
        """Number of the op in its graph."""
        return int(read(lib.dnnl_graph_op_get_id, "size_t", self._ptr))

    @property
    def kind(self) -> str:
        """Name in the specification, from the kind that the library has."""
        return _BY_NAME[_KINDS[read(lib.dnnl_graph_op_get_kind, "dnnl_graph_op_kind_t", self._ptr)]].kind

    @property
    def schema(self) -> Schema:
        """The record of the op in the specification."""
        return self._schema

    @property
    def name(self) -> str:
        """Text that verbose output shows."""
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
        """The attributes that were set."""
        return dict(self._attrs)

    def add_input(self, tensor: LogicalTensor) -> None:
        """Append an input."""
        self._add("input", lib.dnnl_graph_op_add_input, self._inputs, tensor)

    def add_output(self, tensor: LogicalTensor) -> None:
        """Append an output."""
        self._add("output", lib.dnnl_graph_op_add_output, self._outputs, tensor)

    def _add(self, name: str, function: Function, tensors: list[LogicalTensor], tensor: LogicalTensor) -> None:
        expect(name, tensor, LogicalTensor)
        with self._lock:
            self._changeable()
            call(function, self._ptr, tensor._struct)
            tensors.append(tensor)

    def set_attr(self, name: str, value: object) -> None:
        """Set an attribute of any of the six kinds; setting it again replaces it.

        Raises:
            SpecError: the op has no such attribute, or it cannot have this value.
            UnsupportedError: the loaded library is older than the attribute.
        """
        if not isinstance(name, str) or not self.schema.has_attribute(name):
            names = ", ".join(attribute.name for attribute in self.schema.attributes)
            raise self._spec_error(
                "unknown_attribute", shown(name), "not an attribute of this op", names or "no attribute"
            )
        attribute = self.schema.attribute(name)
        if attribute.since > VERSION:
            raise UnsupportedError(f"{self.schema.kind}.{name} needs oneDNN {'.'.join(map(str, attribute.since))}")
        try:
            stored = convert(attribute, value)
        except BadValueError as bad:
            raise self._spec_error(bad.rule, name, shown(value), bad.expected) from None
        with self._lock:
            self._changeable()
            _set_attribute(self._ptr, attribute, stored)
            self._attrs[name] = stored

    def _spec_error(self, rule: str, where: str, given: str, expected: str) -> SpecError:
        report = Report(EDITION, self.schema.kind)
        report.page = EDITION.page(self.schema)
        report.add(rule, where, given, expected)
        return SpecError(report.violations)

    def _changeable(self) -> None:
        if self._frozen:
            raise StateError(f"op {self.id} ({self.schema.kind}) is part of a graph and cannot be changed")

    def check(self) -> None:
        """Raise what keeps this op from being added to a graph.

        Raises:
            SpecError: it breaks the specification.
            UnsupportedError: the library refuses it, crashes on it or computes it wrong.
        """
        check_types(self, [_type(tensor) for tensor in self._inputs], [_type(tensor) for tensor in self._outputs])

    def __repr__(self) -> str:
        return f"Op({self.id}, {self.schema.kind!r}, {self.name!r})"


def _type(tensor: LogicalTensor) -> TensorType:
    return TensorType(tensor.dtype, tensor.shape)


def check_types(op: Op, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> tuple[Shape, ...]:
    """The output shapes of ``op`` for these types; raises as :meth:`Op.check` does."""
    checked = examine(op.schema.kind, op.attrs, list(inputs), list(outputs), edition=EDITION, name=op.name)
    if checked.errors:
        raise SpecError(checked.errors)
    found = quirks(Call(op.schema, op.attrs, inputs, len(outputs), [tensor.dtype for tensor in outputs]), VERSION)
    if found:
        reasons = "; ".join(f"{quirk.reason} [{quirk.severity}: {quirk.name}]" for quirk in found)
        raise UnsupportedError(f"{op.schema.kind} {op.name!r}: {reasons}")
    _refuse_endless(op, [*inputs, *(TensorType(None, shape) for shape in checked.shapes)])
    return checked.shapes


def _refuse_endless(op: Op, tensors: Sequence[TensorType]) -> None:
    """The library tabulates every position of an interpolation when it compiles, which takes minutes and gigabytes."""
    longest = max((dim or 0 for tensor in tensors for dim in tensor.shape or ()), default=0)
    if op.schema.kind in ("Interpolate", "InterpolateBackward") and longest > MAX_INTERPOLATED:
        raise UnsupportedError(
            f"{op.schema.kind} {op.name!r}: an axis of {longest} elements; the library would tabulate every position "
            f"of it; expected at most {MAX_INTERPOLATED}"
        )


def _set_attribute(pointer: Any, attribute: Attribute, value: AttrValue) -> None:
    """Hand one attribute to the C op, in the library's own spelling."""
    number = enum_value("graph_op_attr_", attribute.name)
    if attribute.kind == "str":
        word = LIBRARY_VALUES.get(attribute.name, {}).get(str(value), str(value)).encode()
        call(lib.dnnl_graph_op_set_attr_str, pointer, number, word, len(word) + 1)
        return
    setter, ctype = _SETTERS[attribute.kind.removesuffix("[]")]
    elements = value if isinstance(value, tuple) else (value,)
    call(setter, pointer, number, ffi.new(ctype, elements), len(elements))
