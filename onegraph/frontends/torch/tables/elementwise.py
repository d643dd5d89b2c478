"""Lowers ATen ops that work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ....lowering import elementwise as lowering
from ....lowering.emitter import Value, dtype_of
from ....lowering.movement import NATIVE, cast, expand, scalar
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from ..types import DTYPES

# Ops on one tensor with the same meaning; those of integers return floats.
UNARY = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
# Activations of the specification: the op, and its attributes by name of the argument.
ACTIVATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "hardswish": ("HardSwish", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "mish": ("Mish", {}),
}
COMPARISONS = {
    "eq": "Equal",
    "ge": "GreaterEqual",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "Less",
}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITS = {"bitwise_and": ("And", "BitwiseAnd"), "bitwise_or": ("Or", "BitwiseOr"), "bitwise_xor": ("Xor", "BitwiseXor")}


def native(node: Node, name: str = "self") -> Value:
    """A tensor of a data type that the ops of the specification take."""
    src = node.value(name)
    if dtype_of(src) not in NATIVE:
        raise NotLowered(f"{dtype_of(src)} is no data type of the op")
    return src


def common(node: Node, *names: str) -> list[Value]:
    """Tensors and numbers in the data type that PyTorch computes them in."""
    wanted = node.fakes[names[0]]
    for name in names[1:]:
        pair = wanted, node.fakes[name]
        made = torch.result_type(*pair)
        wanted = next((one for one in pair if hasattr(one, "dtype") and one.dtype == made), torch.empty((), dtype=made))
    return [node.value_as(name, DTYPES[wanted.dtype]) for name in names]


def base(node: Node) -> str:
    """The name of the op without namespace and overload."""
    return node.name.split(".")[1]


@lowers(*(f"{name}.default" for name in UNARY))
def unary(node: Node) -> Value:
    """One op with the same meaning."""
    return lowering.unary(node.emit, UNARY[base(node)], node.value_as("self", node.result_dtype))


@lowers(*(f"{name}.default" for name in ACTIVATIONS))
def activation(node: Node) -> Value:
    """One op of the specification."""
    kind, attrs = ACTIVATIONS[base(node)]
    return lowering.unary(node.emit, kind, native(node), attrs)


@lowers("relu.default")
def relu(node: Node) -> Value:
    """ReLU."""
    return lowering.unary(node.emit, "ReLU", native(node))


@lowers("gelu.default")
def gelu(node: Node) -> Value:
    """GELU, exact or by tanh."""
    mode = {"none": "gelu_erf", "tanh": "gelu_tanh"}[node["approximate"]]
    return lowering.unary(node.emit, "GELU", native(node), {"mode": mode})


@lowers("silu.default")
def silu(node: Node) -> Value:
    """x * sigmoid(x)."""
    return lowering.swish(node.emit, native(node))


@lowers("leaky_relu.default")
def leaky_relu(node: Node) -> Value:
    """A ReLU with a slope for negative elements."""
    return lowering.unary(node.emit, "LeakyReLU", native(node), {"alpha": float(node["negative_slope"])})


@lowers("elu.default")
def elu(node: Node) -> Value:
    """scale * elu(x)."""
    if node["input_scale"] != 1:
        raise NotLowered("an input scale")
    src = native(node)
    found = lowering.unary(node.emit, "Elu", src, {"alpha": float(node["alpha"])})
    return lowering.multiply(node.emit, found, lowering.filled(node["scale"], src))


@lowers("softplus.default")
def softplus(node: Node) -> Value:
    """log(1 + exp(beta * x)) / beta, which is x above a threshold where both agree in the data type."""
    if node["threshold"] < 20:
        raise NotLowered("a low threshold")
    return lowering.unary(node.emit, "SoftPlus", native(node), {"beta": float(node["beta"])})


@lowers("rsqrt.default")
def rsqrt(node: Node) -> Value:
    """1 / sqrt(x)."""
    src = node.value_as("self", node.result_dtype)
    return _inverted(node, lowering.unary(node.emit, "Sqrt", src))


@lowers("reciprocal.default")
def reciprocal(node: Node) -> Value:
    """1 / x."""
    return _inverted(node, node.value_as("self", node.result_dtype))


def _inverted(node: Node, src: Value) -> Value:
    if dtype_of(src) in NATIVE:
        return lowering.unary(node.emit, "Reciprocal", src)
    return lowering.binary(node.emit, "Divide", lowering.filled(1, src), src)


@lowers("neg.default")
def negative(node: Node) -> Value:
    """-x."""
    return lowering.negative(node.emit, node.value("self"))


@lowers("pow.Tensor_Scalar")
def power(node: Node) -> Value:
    """A power of a known exponent; the cheaper op where there is one."""
    src, exponent = node.value_as("self", node.result_dtype), float(node["exponent"])
    if dtype_of(src) not in NATIVE:
        found: Value = node.emit.op("Pow", [src, scalar(exponent, dtype_of(src))], edition="host")
        return found
    cheaper = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal"}.get(exponent)
    if cheaper is not None:
        return lowering.unary(node.emit, cheaper, src)
    if exponent == 1:
        return src
    if exponent == 3:
        return lowering.multiply(node.emit, lowering.unary(node.emit, "Square", src), src)
    return lowering.unary(node.emit, "Pow", src, {"beta": exponent})


@lowers("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensor(node: Node) -> Value:
    """A power whose exponent is a tensor."""
    found: Value = node.emit.op("Pow", common(node, "self", "exponent"), edition="host")
    return found


def scaled(node: Node, value: Value) -> Value:
    """alpha * value."""
    alpha = node["alpha"]
    return value if alpha in (None, 1) else lowering.multiply(node.emit, value, lowering.filled(alpha, value))


@lowers("add.Tensor", "add.Scalar")
def add(node: Node) -> Value:
    """self + alpha * other."""
    first, second = common(node, "self", "other")
    if dtype_of(first) is DataType.boolean:
        return lowering.binary(node.emit, "Or", first, second)
    return lowering.add(node.emit, first, scaled(node, second))


@lowers("sub.Tensor", "sub.Scalar")
def subtract(node: Node) -> Value:
    """self - alpha * other."""
    first, second = common(node, "self", "other")
    return lowering.binary(node.emit, "Subtract", first, scaled(node, second))


@lowers("rsub.Tensor", "rsub.Scalar")
def reverse_subtract(node: Node) -> Value:
    """other - alpha * self."""
    first, second = common(node, "self", "other")
    return lowering.binary(node.emit, "Subtract", second, scaled(node, first))


@lowers("mul.Tensor", "mul.Scalar")
def multiply(node: Node) -> Value:
    """self * other."""
    first, second = common(node, "self", "other")
    if dtype_of(first) is DataType.boolean:
        return lowering.binary(node.emit, "And", first, second)
    return lowering.multiply(node.emit, first, second)


@lowers("div.Tensor", "div.Scalar")
def divide(node: Node) -> Value:
    """self / other, of integers too as a float."""
    first, second = (node.value_as(name, node.result_dtype) for name in ("self", "other"))
    return lowering.binary(node.emit, "Divide", first, second)


@lowers("maximum.default", "minimum.default")
def extreme(node: Node) -> Value:
    """The larger or smaller of two tensors."""
    kind = {"maximum": "Maximum", "minimum": "Minimum"}[base(node)]
    return lowering.binary(node.emit, kind, *common(node, "self", "other"))


@lowers(*(f"{name}.{overload}" for name in COMPARISONS for overload in ("Tensor", "Scalar")))
def comparison(node: Node) -> Value:
    """A comparison with a boolean result."""
    return lowering.binary(node.emit, COMPARISONS[base(node)], *common(node, "self", "other"))


@lowers("ne.Tensor", "ne.Scalar")
def not_equal(node: Node) -> Value:
    """Whether elements differ."""
    same = lowering.binary(node.emit, "Equal", *common(node, "self", "other"))
    return lowering.unary(node.emit, "Not", same)


@lowers(*(f"{name}.default" for name in LOGIC))
def logic(node: Node) -> Value:
    """An op on booleans; numbers are True unless 0."""
    first, second = (cast(node.emit, node.value(name), DataType.boolean) for name in ("self", "other"))
    return lowering.binary(node.emit, LOGIC[base(node)], first, second)


@lowers("logical_not.default")
def logical_not(node: Node) -> Value:
    """Whether elements are 0 or False."""
    return lowering.unary(node.emit, "Not", cast(node.emit, node.value("self"), DataType.boolean))


@lowers(*(f"{name}.{overload}" for name in BITS for overload in ("Tensor", "Scalar")))
def bits(node: Node) -> Value:
    """An op on the bits of integers, or on booleans."""
    first, second = common(node, "self", "other")
    kinds = BITS[base(node)]
    return lowering.binary(node.emit, kinds[dtype_of(first) is not DataType.boolean], first, second)


@lowers("bitwise_not.default")
def bitwise_not(node: Node) -> Value:
    """The inverted bits of integers, or not of booleans."""
    kind = "Not" if node.dtype("self") is DataType.boolean else "BitwiseNot"
    return lowering.unary(node.emit, kind, node.value("self"))


@lowers("isnan.default")
def is_nan(node: Node) -> Value:
    """Whether elements are NaN."""
    return lowering.unary(node.emit, "IsNaN", node.value("self"))


@lowers("clamp.default", "clamp_min.default", "clamp_max.default", "hardtanh.default")
def clamp(node: Node) -> Value:
    """Numbers between two limits."""
    src = node.value_as("self", node.result_dtype)
    low, high = ("min_val", "max_val") if "hardtanh" in node.name else ("min", "max")
    limits = [None if node[name] is None else scalar(node[name], dtype_of(src)) for name in (low, high)]
    return lowering.clamp(node.emit, src, *limits)


@lowers("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(node: Node) -> Value:
    """Numbers between the elements of two tensors."""
    found = node.value_as("self", node.result_dtype)
    for name, kind in (("min", "Maximum"), ("max", "Minimum")):
        if node[name] is not None:
            found = lowering.binary(node.emit, kind, found, node.value_as(name, node.result_dtype))
    return found


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(node: Node) -> Value:
    """The elements of self where the condition is True, else of other."""
    first, second = (node.value_as(name, node.result_dtype) for name in ("self", "other"))
    return lowering.select(node.emit, _condition(node, "condition"), first, second)


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: Node) -> Value:
    """The value where the mask is True, else self."""
    found = node.value_as("value", node.result_dtype)
    return lowering.select(node.emit, _condition(node, "mask"), found, node.value("self"))


def _condition(node: Node, name: str) -> Value:
    return cast(node.emit, node.value(name), DataType.boolean)


@lowers("_to_copy.default")
def to_copy(node: Node) -> Value:
    """A cast."""
    return cast(node.emit, node.value("self"), node.result_dtype)


@lowers("copy.default")
def copy(node: Node) -> Value:
    """src in the data type and shape of self."""
    made = cast(node.emit, node.value("src"), node.result_dtype)
    return expand(node.emit, made, np.array(node.result_shape, np.int64))


@lowers(
    "full.default", "full_like.default", "scalar_tensor.default", "zeros.default", "ones.default", "zeros_like.default",
    "ones_like.default", "new_full.default", "new_zeros.default", "new_ones.default",
)  # fmt: skip
def full(node: Node) -> Value:
    """A tensor with one number."""
    number: Any = 1 if "ones" in node.name else 0 if "zeros" in node.name else node["fill_value"]
    if "scalar_tensor" in node.name:
        number = node["s"]
    if hasattr(number, "shape"):
        raise NotLowered("a number that is a tensor")
    return np.broadcast_to(np.array(number).astype(node.result_dtype.numpy), node.result_shape)


@lowers("arange.start_step", "arange.start", "arange.default")
def arange(node: Node) -> Value:
    """Numbers that count up."""
    start, step = node["start"] or 0, 1 if node["step"] is None else node["step"]
    count = node.result_shape[0]
    exact = np.int64 if type(start) is int and type(step) is int else np.float64
    return (np.arange(count).astype(exact) * step + start).astype(node.result_dtype.numpy)
