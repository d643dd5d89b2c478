"""Examining an op as leniently as the library: its own graph files have ops that the specification forbids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import ERROR, NOTE
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..opset.schema import Attribute, AttrValue, Port, Row, Schema, Shape, TensorType
from .infer import OpInference

# Attributes that the library takes any value of, and rules that it does without; of which ops, "" for all.
RANGES = frozenset({("pads_end", ""), ("sizes", "InterpolateBackward")})
RULES = frozenset({("gradient_resized", "InterpolateBackward"), ("mode_rank", ""), ("scale_count", "Dequantize")})
_FLOATS = frozenset({DataType.f32, DataType.bf16, DataType.f16})
_INTEGERS = frozenset({DataType.s8, DataType.u8, DataType.s4, DataType.u4, DataType.s32})
# Ops of which the library takes any mixture of these types, where the specification lists some of them.
MIXTURES = {
    **dict.fromkeys(("Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"), _FLOATS),
    "DynamicDequantize": _FLOATS | _INTEGERS,
}


class LenientInference(OpInference):
    """An examination in which what the library takes is a note, and everything else is checked as ever."""

    kind = ""

    def find_schema(self, kind: object) -> Schema | None:
        """As ever; the op decides what is taken."""
        schema = super().find_schema(kind)
        self.kind = "" if schema is None else base_of(schema).kind
        return schema

    def add(self, rule: str, where: str, given: object, expected: str, fix: str = "", severity: str = ERROR) -> None:
        """As ever, but a note where the library takes it."""
        taken = not RULES.isdisjoint({(rule, self.kind), (rule, "")})
        super().add(rule, where, given, expected, fix, NOTE if taken else severity)

    def converted(self, attribute: Attribute, value: object) -> AttrValue:
        """The stored form of a value, of any range where the library takes any."""
        if not RANGES.isdisjoint({(attribute.name, self.kind), (attribute.name, "")}):
            attribute = replace(attribute, range=None)
        return super().converted(attribute, value)

    def matching_rows(
        self,
        schema: Schema,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType | None] | None,
    ) -> tuple[tuple[Row, ...], tuple[tuple[DataType, ...], ...]]:
        """As ever; of an op of which the library takes mixtures, an output may have any type of them."""
        rows, choices = super().matching_rows(schema, inputs, outputs)
        mixture = tuple(dtype for dtype in DataType if dtype in MIXTURES.get(self.kind, ()))
        return rows, tuple(mixture or options for options in choices)

    def check_types(self, schema: Schema, rows: Sequence[Row], typed: Sequence[tuple[Port, DataType]]) -> None:
        """As ever, but for mixtures that the library takes."""
        if not MIXTURES.get(self.kind, frozenset()).issuperset(dtype for _, dtype in typed):
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
        """As ever; output_padding says nothing beside a shape that is given, whatever its numbers are."""
        shape, padding = attrs.get("dst_shape"), attrs.get("output_padding")
        fits = isinstance(shape, tuple) and isinstance(padding, tuple) and len(padding) == len(shape) - 2
        if fits and self.kind == "ConvolutionBackwardData":
            attrs = {name: value for name, value in attrs.items() if name != "output_padding"}
        return super().check_shapes(schema, attrs, inputs, outputs, n_outputs, dtypes)
