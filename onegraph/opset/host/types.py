"""Type tables of host ops, and the makers of records with one or two sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from ..dtypes import DataType
from ..ops.binary import binary_shape
from ..schema import Call, Rule, RuleFinding, Schema, ShapeFunction, same_shape
from ..shapes import broadcast, show
from ..signature import Attribute, Port, Row, ports, rows
from ..traits import Trait

FLOAT_NAMES = "f32|f16|bf16|float64"
INTEGER_NAMES = "s8|u8|int16|uint16|s32|uint32|s64|uint64"
ALL_NAMES = "|".join(dtype.value for dtype in DataType)

FLOATS = rows("T", FLOAT_NAMES)
INTEGERS = rows("T", INTEGER_NAMES)
NUMBERS = rows("T", f"{FLOAT_NAMES}|{INTEGER_NAMES}")
BOOLEANS = rows("T", "boolean")
ALL = rows("T", ALL_NAMES)


def host(
    kind: str,
    doc: str,
    inputs: str | tuple[Port, ...],
    outputs: str | tuple[Port, ...],
    types: tuple[Row, ...],
    shape: ShapeFunction,
    *more: Any,
    **fields: Any,
) -> Schema:
    """Record of a host op, whose Python name follows from its kind: ``host_is_nan`` of IsNaN."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.replace("NaN", "Nan")).lower()
    ins, outs = (ports(end) if isinstance(end, str) else end for end in (inputs, outputs))
    return Schema(kind, f"host_{name}", "host", doc, ins, outs, types, shape, *more, **fields)


def unary(
    kind: str,
    doc: str,
    types: tuple[Row, ...],
    *attributes: Attribute,
    dst: str = "T",
    traits: Trait = Trait.NONE,
) -> Schema:
    """Record of an op on one tensor, element by element."""
    return host(
        kind,
        doc,
        "src:T",
        f"dst:{dst}",
        types,
        same_shape,
        attributes,
        traits=Trait.POINTWISE | traits,
    )


def binary(
    kind: str,
    doc: str,
    types: tuple[Row, ...],
    *attributes: Attribute,
    dst: str = "T",
    traits: Trait = Trait.NONE,
) -> Schema:
    """Record of an op on two tensors of one data type, whose shapes are broadcast as in numpy."""
    return host(
        kind,
        doc,
        "src_0:T src_1:T",
        f"dst:{dst}",
        types,
        binary_shape,
        attributes,
        shape_rules=(sources_broadcast,),
        traits=Trait.POINTWISE | traits,
    )


def shapes_are_vectors(call: Call) -> Iterable[RuleFinding]:
    """The inputs that decide a shape have one axis."""
    for port in call.schema.inputs:
        shape = call.shape(port.name) if port.gives_shape else None
        if shape is not None and len(shape) != 1:
            yield RuleFinding(port.name, f"shape {show(shape)}", "one axis")


def shapes_are_numbers(call: Call) -> Iterable[RuleFinding]:
    """The inputs that decide a shape have one element each."""
    for port in call.schema.inputs:
        shape = call.shape(port.name) if port.gives_shape else None
        if shape is not None and None not in shape and prod(dim or 0 for dim in shape) != 1:
            yield RuleFinding(port.name, f"shape {show(shape)}", "one element")


def not_negative(port: str) -> Rule:
    """A rule: no element of the input ``port`` is negative, if its contents are known."""

    def none_is_negative(call: Call) -> Iterable[RuleFinding]:
        """No element of an input that decides the shape is negative."""
        values = call.value(port) or ()
        if any(number < 0 for number in values):
            yield RuleFinding(port, list(values), "numbers of 0 or more")

    return none_is_negative


def sources_broadcast(call: Call) -> Sequence[RuleFinding]:
    """The shapes of the two sources can be broadcast."""
    first, second = call.shape("src_0"), call.shape("src_1")
    try:
        broadcast(first, second)
    except ValueError:
        return [RuleFinding("src_1", f"shape {show(second)}", f"a shape that broadcasts with {show(first)} of src_0")]
    return []
