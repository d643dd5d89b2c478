"""Checks one op: attributes, ports, data types and shapes, which the caller gives as any Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .._util.exact_types import entries, has_type, listed, plain
from ..errors import NOTE, ArgumentError, shown
from ..ir.op import LogicalTensor
from ..ir.tensor_type import MAX_SIZE, tensor_type
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call, output_shapes, unsettled_call
from ..opset.editions.registry import Edition, base_of
from ..opset.schema import Schema, TensorType
from ..opset.shapes import MAX_RANK, compatible, show
from ..opset.signature import Attribute, AttrValue, Port, Row, Shape
from ..opset.values import BadValueError, axes_of, convert, describe, is_none
from .rules import run_rules
from .suggestions import nearest_of, one_for_each, other_attribute, other_value, port_names, unknown_op
from .type_table import TypedPort, mismatches, typed_ports, typing_of
from .violations import Violations, shortened

if TYPE_CHECKING:
    from ..opset.errata.correction import Correction

MAX_VIOLATIONS = 64  # checking an op stops after this many violations
MAX_INPUTS = 64  # results for an op with more inputs are not cached


class OpInference(Violations):
    """Checks one op and collects its violations.

    Attributes:
        unsettled: names of attributes that have a wrong value, are missing, or are probably meant by an unknown name.
    """

    def __init__(self, edition: Edition, op: str) -> None:
        super().__init__(edition, op)
        self.unsettled: set[str] = set()

    def find_schema(self, kind: object) -> Schema | None:
        """The schema of the op; adds a violation and returns None if the edition has no such op."""
        schema = self.edition.schema(kind)
        if schema is None:
            self.add(
                "unknown_op", "kind", kind, f"an op of edition {self.edition.name}", unknown_op(self.edition, kind)
            )
        else:
            self.page = self.edition.page(schema)
        return schema

    # Attributes --------------------------------------------------------------------------------------------------

    def check_attributes(self, schema: Schema, attrs: object, inputs: object = ()) -> dict[str, AttrValue]:
        """The valid attributes in stored form; adds violations for the others. ``inputs`` are only used in messages."""
        try:
            attributes = {} if attrs is None else entries(attrs)
        except Exception:  # a user's mapping may raise anything
            if type(attrs) is dict:
                raise  # a signal handler raised it
            attributes = None
        if attributes is None:
            self.add("attribute_kind", "attrs", attrs, "a dictionary of attribute names and values")
            self.unsettled.update(attribute.name for attribute in schema.attributes)
            return {}
        stored: dict[str, AttrValue] = {}
        for name, given_value in attributes.items():
            if len(self.violations) > MAX_VIOLATIONS:
                break
            if type(name) is not str or not schema.has_attribute(name):
                self.unknown_attribute(schema, name, given_value)
                continue
            attribute, value = schema.attribute(name), None if given_value is None else plain(given_value)
            if is_none(attribute, value):
                continue
            try:
                stored[name] = self.converted(attribute, value)
            except BadValueError as bad:
                self.bad_value(schema, name, value, bad, inputs, shown(given_value))
            else:
                self.note_misprint(schema, attribute, value)
        for attribute in schema.attributes:
            if attribute.required and attribute.name not in attributes:
                self.unsettled.add(attribute.name)
                self.add("missing_attribute", attribute.name, "missing", f"{describe(attribute)} (required)")
        return stored

    def note_misprint(self, schema: Schema, attribute: Attribute, value: object) -> None:
        """Add a note for a valid value that follows a mistake on the page."""
        name = attribute.name
        if type(value) is str and value in attribute.disputed:
            taken = attribute.aliases[value]
            expected = f"{taken!r}; the page prints both, and this is taken as {axes_of(attribute, taken)}"
            self.add("disputed_value", name, shown(value), expected, severity=NOTE)
        elif correction := self.misprint(schema, name, value):
            self.add("disputed_value", name, shown(value), correction.meant, correction.remark, severity=NOTE)

    def misprint(self, schema: Schema, name: str, value: object) -> Correction | None:
        """The mistake on the page that attribute ``name`` with this value follows."""
        misprints = (
            correction for correction in self.edition.corrections(schema) if correction.is_followed_by(name, value)
        )
        return next(misprints, None)

    def converted(self, attribute: Attribute, value: object) -> AttrValue:
        """The stored form of a value; BadValueError if the attribute cannot take it."""
        return convert(attribute, value)

    def bad_value(
        self, schema: Schema, name: str, value: object, bad: BadValueError, inputs: object, shown_value: str
    ) -> None:
        """Add a violation for a value that the attribute cannot take, with a suggestion.

        Args:
            schema, name: the op, and the attribute.
            value: the value, converted by ``plain``.
            bad: the reason why the attribute cannot take it.
            inputs: the inputs of the op, as the caller gave them.
            shown_value: text of the caller's value.
        """
        self.unsettled.add(name)
        fix = other_value(schema, name, value) or one_for_each(schema, schema.attribute(name), value, inputs)
        if not fix and (correction := self.misprint(schema, name, value)):
            fix = correction.remark
        self.add(bad.rule, name, shown_value, bad.expected, fix or bad.fix)

    def unknown_attribute(self, schema: Schema, name: object, value: object) -> None:
        """Add a violation for an attribute that the op does not have, with a suggestion."""
        where, is_tensor = shortened(name), has_type(value, LogicalTensor)
        records: Sequence[Attribute | Port] = schema.inputs if is_tensor else schema.attributes
        names = [record.name for record in records]
        if is_tensor:
            value_text, fix = "neither an input nor an attribute of this op", nearest_of(where, names)
            if where in names:
                value_text, fix = "a tensor among the attributes", "pass it as an input"
            self.add("unknown_attribute", where, value_text, f"the inputs {', '.join(names)}", fix)
        else:
            meant, fix = other_attribute(schema, where)
            self.unsettled.update([meant] if meant else [])
            expected = ", ".join(names) or "no attribute"
            self.add("unknown_attribute", where, "not an attribute of this op", expected, fix)

    # Ports and data types ----------------------------------------------------------------------------------------

    def tensor_types(self, tensors: object, where: str) -> list[TensorType | None] | None:
        """The types of the given tensors; None, with violations, if any of them is not a tensor."""
        if has_type(tensors, LogicalTensor):
            tensors = [tensors]
        if type(tensors) is not list and (not has_type(tensors, Sequence) or has_type(tensors, (str, bytes))):
            self.add("tensor_kind", where, tensors, "a list of logical tensors, (dtype, shape) pairs or arrays")
            return None
        try:
            tensors = listed(tensors)
        except Exception:  # a user's sequence may raise anything
            if type(tensors) in (list, tuple):
                raise  # a signal handler raised it
            self.add("tensor_kind", where, tensors, "a list of logical tensors, (dtype, shape) pairs or arrays")
            return None
        types: list[TensorType | None] = []
        sound = True
        for index, tensor in enumerate(tensors):
            if len(self.violations) > MAX_VIOLATIONS:
                return None
            try:
                types.append(None if tensor is None else tensor_type(tensor))
            except ArgumentError as error:
                self.add("tensor_kind", f"{where}[{index}]", tensor, "a logical tensor", str(error))
                sound = False
        return types if sound else None

    def check_inputs(self, schema: Schema, inputs: Sequence[TensorType | None]) -> bool:
        """Check the number of inputs, required inputs and ranks; returns whether all are right."""
        if len(inputs) < schema.required_inputs or (len(inputs) > len(schema.inputs) and not schema.variadic):
            self.add("input_count", "inputs", len(inputs), port_names(schema.inputs))
            return False
        sound = True
        for index, tensor in enumerate(inputs):
            if tensor is None:
                port = schema.input_port(index)
                if not port.optional:
                    self.add("missing_input", port.name, None, "a tensor (required)")
                    sound = False
                elif any(inputs[index + 1 :]):
                    self.add("missing_input", port.name, None, "a tensor, as a later optional input is given")
                    sound = False
            elif tensor.shape is not None and len(tensor.shape) > MAX_RANK:
                rank = f"rank {len(tensor.shape)}"
                self.add("rank_limit", schema.input_port(index).name, rank, f"at most {MAX_RANK} dimensions")
                sound = False
        return sound

    def check_outputs(self, schema: Schema, count: int) -> None:
        """Check the number of given outputs."""
        required = sum(not port.optional for port in schema.outputs)
        any_number = any(port.variadic for port in schema.outputs)
        if count < required or (count > len(schema.outputs) and not any_number):
            self.add("output_count", "outputs", count, port_names(schema.outputs))

    def matching_rows(
        self,
        schema: Schema,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType | None] | None,
    ) -> tuple[tuple[Row, ...], tuple[tuple[DataType, ...], ...]]:
        """The rows of the type table that match the inputs and the given outputs, and each output's allowed types."""
        in_types = tuple([None if tensor is None else tensor.dtype for tensor in inputs])
        out_types = tuple([None if tensor is None else tensor.dtype for tensor in outputs or ()])
        typing = typing_of if len(in_types) <= MAX_INPUTS else typing_of.__wrapped__
        rows, choices = typing(self.edition.name, schema.kind, in_types, out_types)
        if not rows or schema.has_fixed_types:
            self.check_types(schema, rows, typed_ports(schema, in_types, out_types))
        return rows, choices

    def check_types(self, schema: Schema, rows: Sequence[Row], typed: Sequence[TypedPort]) -> None:
        """Add violations for data types that no row of the type table allows, or that differ from a fixed type."""
        wrong_types = [*mismatches(schema, rows, typed)]
        if not wrong_types:
            return
        misprints = {
            place: correction
            for correction in self.edition.corrections(schema)
            for place in correction.printed_types.items()
        }
        for port, expected, fix in wrong_types:
            misprint = misprints.get((port.name, str(port.dtype)))
            fix = misprint.remark if misprint is not None else fix
            self.add("data_type", port.name, port.dtype, expected, fix, says=" is")

    # Shapes ------------------------------------------------------------------------------------------------------

    def check_shapes(
        self,
        schema: Schema,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType | None] | None,
        n_outputs: int | None,
        dtypes: Sequence[DataType | None],
    ) -> tuple[Shape, ...]:
        """Run the rules of the op and infer the shapes of the outputs; empty if there is any error."""
        base = base_of(schema)
        if self.unsettled:
            call = unsettled_call(schema, base, attrs, inputs, self.unsettled, n_outputs, dtypes)
        else:
            call = base_call(schema, base, attrs, inputs, n_outputs, dtypes)
        before = len(self.errors)
        all_read = run_rules(self, schema, call, schema.rules, attrs, inputs)
        if all_read and len(self.errors) == before:
            run_rules(self, schema, call, schema.shape_rules, attrs, inputs)
        if self.errors:
            return ()
        shapes = output_shapes(schema, call, attrs)
        for port, shape, tensor in zip(schema.outputs, shapes, outputs or (), strict=False):
            if tensor is not None and not compatible(shape, tensor.shape):
                self.add(
                    "output_shape",
                    port.name,
                    show(tensor.shape),
                    f"{show(shape)}, which follows from the inputs",
                )
        for port, shape in zip(schema.outputs, shapes, strict=False):
            if shape is None:
                continue
            if len(shape) > MAX_RANK:
                self.add("rank_limit", port.name, f"rank {len(shape)}", f"at most {MAX_RANK} dimensions")
            elif math.prod([dim for dim in shape if dim]) >= MAX_SIZE:
                self.add("size_limit", port.name, show(shape), "fewer than 2**60 elements")
        return shapes


class ErrorInference(OpInference):
    """Checks like OpInference, for callers that ask for errors alone: no page is searched for its mistakes."""

    def note_misprint(self, schema: Schema, attribute: Attribute, value: object) -> None:
        """Adds no note."""
