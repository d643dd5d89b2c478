"""Reads the nodes that the writer makes for ops without a standard node, as those ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE, DEFAULT
from .node import Node

DOMAIN = "onegraph"  # of the functions that stand for ops
TYPES = "output_types"  # the attribute with the data types of the results, which marks such a node


def own_op(node: Node) -> Sequence[Any] | None:
    """The results of a node that stands for an op of the base vocabulary; None for any other node."""
    schema = BASE.get(node.proto.op_type.partition("_")[0]) if node.proto.domain == DOMAIN else None
    if schema is None or not node.has(TYPES):
        return None
    attrs: dict[str, object] = {}
    for attribute in schema.attributes:
        if node.has(attribute.name):
            value = node.attr(attribute.name)
            attrs[attribute.name] = bool(value) if attribute.kind == "bool" else value
    types = [one.decode() for one in node.attr(TYPES)]
    names = [port.name for port in schema.outputs][: len(node.proto.output)]
    chosen = names if any(port.optional for port in schema.outputs) else None
    dtype = DataType.of(types[0])
    return node.emit.ends(schema.kind, node.inputs, attrs, dtype=dtype, outputs=chosen, edition=DEFAULT)
