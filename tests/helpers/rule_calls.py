"""Calls of ops by the shapes of their inputs, and what the rules of the op say of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onegraph.opset.dtypes import DataType
from onegraph.opset.schema import Call, Schema, TensorType


def call_of(schema: Schema, attrs: dict[str, Any], given: dict[str, Any]) -> Call:
    """A call whose inputs, by their ports, are shapes, lists of numbers that are known, or ``unknown``."""
    types: dict[str, TensorType] = {}
    for port, one in given.items():
        value = np.array(one, np.int64) if isinstance(one, list) else None
        shape = None if one == "unknown" else one if value is None else value.shape
        types[port] = TensorType(DataType.f32 if value is None else DataType.s64, shape, value)
    return Call(schema, attrs, [types.get(port.name) for port in schema.inputs])


def told(call: Call) -> list[str]:
    """The findings of the rules of an op, or else of those of its shapes."""
    for rules in (call.schema.rules, call.schema.shape_rules):
        found = [f"{one.where}: {one.given}; {one.expected}" for rule in rules for one in rule(call)]
        if found:
            return found
    return []
