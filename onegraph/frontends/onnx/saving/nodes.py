"""Defines a node that is not written yet, and what is known of kinds of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper

Attr = Any  # a number, a text, or a list of either


# Nodes that compute each element by itself. One behind a Transpose may stand before it: two Transposes then meet, and
# cancel if they are inverse.
_POINTWISE = (
    "Abs Add Cast Ceil Clip DequantizeLinear Div Elu Erf Exp Floor Gelu GreaterOrEqual HardSigmoid HardSwish LeakyRelu "
    "Log Max Min Mish Mul Neg Not Pow QuantizeLinear Reciprocal Relu Round Sigmoid Softplus Sqrt Sub Tanh Where"
)


POINTWISE = frozenset(_POINTWISE.split())


QUANTIZING = frozenset(["QuantizeLinear", "DequantizeLinear"])


# Nodes that only bring a tensor into the form that another node needs; the name of an op is given to another one.
HELPERS = frozenset(["Transpose", "Cast", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Constant", "Pad"])


@dataclass(eq=False)
class UnwrittenNode:
    """A node that is not written yet.

    Attributes:
        op: name of the op of the graph that it belongs to.
        is_helper: whether the node is left out if nothing reads its results.
    """

    kind: str
    inputs: list[str]
    outputs: list[str]
    attrs: Mapping[str, Attr]
    domain: str = ""
    op: str = ""
    is_helper: bool = False


def order_of(node: UnwrittenNode | None) -> tuple[int, ...] | None:
    """The order of a Transpose that states it; None for other nodes, and for one that turns the axes of any rank."""
    if node is None or node.kind != "Transpose" or "perm" not in node.attrs:
        return None
    order: Any = node.attrs["perm"]
    return tuple(order)


def proto(node: UnwrittenNode, name: str = "") -> onnx.NodeProto:
    """The node as ONNX has it."""
    made = helper.make_node(node.kind, node.inputs, node.outputs, name=name or None, domain=node.domain or None)
    for key, value in node.attrs.items():
        made.attribute.append(helper.make_attribute(key, *_typed(value)))
    return made


def _typed(value: Attr) -> tuple[Any, ...]:
    """The value and its type, which an empty list does not show."""
    if isinstance(value, (str, int, float)):
        return (value,)
    return [*value], "", onnx.AttributeProto.INTS if not value else None
