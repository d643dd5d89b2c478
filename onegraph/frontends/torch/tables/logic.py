"""Lowers comparisons, logic, limits, and ops that choose between elements."""

from __future__ import annotations

from ....lowering import elementwise as lowering
from ....lowering.emitter import Value, dtype_of
from ....lowering.movement import cast, scalar
from ....opset.dtypes import DataType
from ..node import AtenNode, lowers
from .elementwise import base, common

COMPARISONS = {
    "eq": "Equal",
    "ge": "GreaterEqual",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "Less",
}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITS = {"bitwise_and": ("And", "BitwiseAnd"), "bitwise_or": ("Or", "BitwiseOr"), "bitwise_xor": ("Xor", "BitwiseXor")}


@lowers(*(f"{name}.{overload}" for name in COMPARISONS for overload in ("Tensor", "Scalar")))
def comparison(node: AtenNode) -> Value:
    """A comparison with a boolean result."""
    return lowering.binary(node.emit, COMPARISONS[base(node)], *common(node, "self", "other"))


@lowers("ne.Tensor", "ne.Scalar")
def not_equal(node: AtenNode) -> Value:
    """Whether elements differ."""
    same = lowering.binary(node.emit, "Equal", *common(node, "self", "other"))
    return lowering.unary(node.emit, "Not", same)


@lowers(*(f"{name}.default" for name in LOGIC))
def logic(node: AtenNode) -> Value:
    """An op on booleans; numbers are True unless 0."""
    first, second = (cast(node.emit, node.value(name), DataType.boolean) for name in ("self", "other"))
    return lowering.binary(node.emit, LOGIC[base(node)], first, second)


@lowers("logical_not.default")
def logical_not(node: AtenNode) -> Value:
    """Whether elements are 0 or False."""
    return lowering.unary(node.emit, "Not", cast(node.emit, node.value("self"), DataType.boolean))


@lowers(*(f"{name}.{overload}" for name in BITS for overload in ("Tensor", "Scalar")))
def bits(node: AtenNode) -> Value:
    """An op on the bits of integers, or on booleans."""
    first, second = common(node, "self", "other")
    kinds = BITS[base(node)]
    return lowering.binary(node.emit, kinds[dtype_of(first) is not DataType.boolean], first, second)


@lowers("bitwise_not.default")
def bitwise_not(node: AtenNode) -> Value:
    """The inverted bits of integers, or not of booleans."""
    kind = "Not" if node.dtype("self") is DataType.boolean else "BitwiseNot"
    return lowering.unary(node.emit, kind, node.value("self"))


@lowers("isnan.default")
def is_nan(node: AtenNode) -> Value:
    """Whether elements are NaN."""
    return lowering.unary(node.emit, "IsNaN", node.value("self"))


@lowers("clamp.default", "clamp_min.default", "clamp_max.default", "hardtanh.default")
def clamp(node: AtenNode) -> Value:
    """Numbers between two limits."""
    src = node.value_as("self", node.result_dtype)
    low, high = ("min_val", "max_val") if "hardtanh" in node.name else ("min", "max")
    limits = [None if node[name] is None else scalar(node[name], dtype_of(src)) for name in (low, high)]
    return lowering.clamp(node.emit, src, *limits)


@lowers("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(node: AtenNode) -> Value:
    """Numbers between the elements of two tensors."""
    result = node.value_as("self", node.result_dtype)
    for name, kind in (("min", "Maximum"), ("max", "Minimum")):
        if node[name] is not None:
            result = lowering.binary(node.emit, kind, result, node.value_as(name, node.result_dtype))
    return result


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(node: AtenNode) -> Value:
    """The elements of self where the condition is True, else of other."""
    first, second = (node.value_as(name, node.result_dtype) for name in ("self", "other"))
    return lowering.select(node.emit, _condition(node, "condition"), first, second)


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: AtenNode) -> Value:
    """The value where the mask is True, else self."""
    result = node.value_as("value", node.result_dtype)
    return lowering.select(node.emit, _condition(node, "mask"), result, node.value("self"))


def _condition(node: AtenNode, name: str) -> Value:
    return cast(node.emit, node.value(name), DataType.boolean)
