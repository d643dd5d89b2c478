"""Checks an op as leniently as the library does: oneDNN's own graph files have ops that break the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import ERROR, NOTE
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..opset.kinds import ARITHMETIC
from ..opset.schema import Schema, TensorType
from ..opset.signature import Attribute, AttrValue, Row, Shape
from .op_inference import OpInference
from .type_table import TypedPort

# (attribute, op) whose range the library does not check, and (rule, op) that it does not enforce; op "" means all ops.
RANGES = frozenset({("pads_end", ""), ("sizes", "InterpolateBackward")})
RULES = frozenset({("gradient_resized", "InterpolateBackward"), ("mode_rank", ""), ("scale_count", "Dequantize")})
_FLOATS = frozenset({DataType.f32, DataType.bf16, DataType.f16})
_INTEGERS = frozenset({DataType.s8, DataType.u8, DataType.s4, DataType.u4, DataType.s32})
# Data types that the library accepts in any combination for an op, where the specification lists only some.
MIXTURES = {
    **dict.fromkeys(ARITHMETIC - {"SquaredDifference"}, _FLOATS),
    "DynamicDequantize": _FLOATS | _INTEGERS,
}


class LenientInference(OpInference):
    """Checks like OpInference, but reports a breach that the library accepts as a note, or not at all."""

    kind = ""

    def find_schema(self, kind: object) -> Schema | None:
        """As in the base class; remembers the base kind of the op."""
        schema = super().find_schema(kind)
        self.kind = "" if schema is None else base_of(schema).kind
        return schema

    def add(
        self,
        rule: str,
        where: str,
        value: object,
        expected: str,
        fix: str = "",
        severity: str = ERROR,
        *,
        says: str = ":",
    ) -> None:
        """Add a violation, as a note if the library does not enforce the rule."""
        is_accepted = not RULES.isdisjoint({(rule, self.kind), (rule, "")})
        super().add(rule, where, value, expected, fix, NOTE if is_accepted else severity, says=says)

    def converted(self, attribute: Attribute, value: object) -> AttrValue:
        """The stored form of a value; the range is ignored if the library does not check it."""
        if not RANGES.isdisjoint({(attribute.name, self.kind), (attribute.name, "")}):
            attribute = replace(attribute, range=None)
        return super().converted(attribute, value)

    def matching_rows(
        self,
        schema: Schema,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType | None] | None,
    ) -> tuple[tuple[Row, ...], tuple[tuple[DataType, ...], ...]]:
        """As in the base class; for an op in ``MIXTURES`` each output may have any of its data types."""
        rows, choices = super().matching_rows(schema, inputs, outputs)
        mixture = tuple(dtype for dtype in DataType if dtype in MIXTURES.get(self.kind, ()))
        return rows, tuple(mixture or options for options in choices)

    def check_types(self, schema: Schema, rows: Sequence[Row], typed: Sequence[TypedPort]) -> None:
        """As in the base class, except for combinations in ``MIXTURES``."""
        if not MIXTURES.get(self.kind, frozenset()).issuperset(port.dtype for port in typed):
            super().check_types(schema, rows, typed)

    def check_shapes(
        self,
        schema: Schema,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType | None] | None,
        n_outputs: int | None,
        dtypes: Sequence[DataType | None],
    ) -> tuple[Shape, ...]:
        """As in the base class; output_padding is ignored if dst_shape is given, as in the library."""
        shape, padding = attrs.get("dst_shape"), attrs.get("output_padding")
        if isinstance(shape, tuple) and isinstance(padding, tuple) and len(padding) == len(shape) - 2:
            attrs = {name: value for name, value in attrs.items() if name != "output_padding"}
        return super().check_shapes(schema, attrs, inputs, outputs, n_outputs, dtypes)
