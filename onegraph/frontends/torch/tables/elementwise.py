"""Lowers ATen ops that work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...._util.open_sizes import present
from ....lowering import elementwise as lowering
from ....lowering.emitter import Value, dtype_of, shape_of
from ....lowering.movement import NATIVE, rounded, scalar
from ....opset.dtypes import DataType
from ....opset.kinds import HOST_UNARY
from ..node import AtenNode, NotLowered, lowers
from ..types import DTYPES

# Ops on one tensor with the name of an op; those of integers return floats.
UNARY = {kind.lower(): kind for kind in sorted(HOST_UNARY - {"Negative"}) if hasattr(torch.ops.aten, kind.lower())}
NARROW = frozenset([DataType.bf16, DataType.f16])
# Activations of the specification: the op, and its attributes by name of the argument.
ACTIVATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "hardswish": ("HardSwish", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "mish": ("Mish", {}),
}


def native(node: AtenNode, name: str = "self") -> Value:
    """A tensor of a data type that the ops of the specification take."""
    src = node.value(name)
    if dtype_of(src) not in NATIVE:
        raise NotLowered(f"{dtype_of(src)} is no data type of the op")
    return src


def common(node: AtenNode, *names: str) -> list[Value]:
    """Tensors and numbers in the data type that PyTorch computes them in."""
    wanted, *further = [_like(node.fakes[name]) for name in names]
    for like in further:
        pair = wanted, like
        made = torch.result_type(*pair)
        wanted = next((one for one in pair if hasattr(one, "dtype") and one.dtype == made), torch.empty((), dtype=made))
    return [node.value_as(name, DTYPES[wanted.dtype]) for name in names]


def _like(argument: Any) -> Any:
    """A tensor of the data type and rank of one whose sizes may be open; a number, for an open size its present one."""
    return torch.empty([1] * argument.dim(), dtype=argument.dtype) if hasattr(argument, "stride") else present(argument)


def factors(node: AtenNode, *names: str) -> list[Value]:
    """Factors of a product or quotient in the data type that PyTorch computes it in.

    Beside 16-bit tensors, PyTorch computes with numbers, and with tensors of one number, before any rounding: 1e5 times
    a number of f16 is finite. Where a number is none of the 16-bit data type, the factors are f32 here.
    """
    if node.result_dtype not in NARROW:
        return common(node, *names)
    widened = any(_is_rounded(node, name) for name in names)
    return [node.value_as(name, DataType.f32 if widened else node.result_dtype) for name in names]


def _is_rounded(node: AtenNode, name: str) -> bool:
    """Whether an argument is one number that the data type of the result may lack."""
    number_ = node[name]
    if not hasattr(number_, "shape"):
        return bool(scalar(number_, node.result_dtype).astype(np.float64) != number_)
    return shape_of(number_) == () and dtype_of(number_) is not node.result_dtype and node.result_shape != ()


def base(node: AtenNode) -> str:
    """The name of the op without namespace and overload."""
    return node.name.split(".")[1]


@lowers(*(f"{name}.default" for name in UNARY))
def unary(node: AtenNode) -> Value:
    """One op with the same meaning."""
    src, kind = node.value_as("self", node.result_dtype), UNARY[base(node)]
    result = lowering.unary(node.emit, kind, src)
    if kind == "Sign" and dtype_of(src) in NATIVE:  # PyTorch's is 0 for NaN
        result = node.emit.op("ReplaceNaN", [result, scalar(0, dtype_of(src))])
    return result


@lowers(*(f"{name}.default" for name in ACTIVATIONS))
def activation(node: AtenNode) -> Value:
    """One op of the specification."""
    kind, attrs = ACTIVATIONS[base(node)]
    return lowering.unary(node.emit, kind, native(node), attrs)


@lowers("relu.default")
def relu(node: AtenNode) -> Value:
    """ReLU."""
    return lowering.unary(node.emit, "ReLU", native(node))


@lowers("gelu.default")
def gelu(node: AtenNode) -> Value:
    """GELU, exact or by tanh."""
    mode = {"none": "gelu_erf", "tanh": "gelu_tanh"}[node["approximate"]]
    return lowering.unary(node.emit, "GELU", native(node), {"mode": mode})


@lowers("silu.default")
def silu(node: AtenNode) -> Value:
    """x * sigmoid(x)."""
    return lowering.swish(node.emit, native(node))


@lowers("leaky_relu.default")
def leaky_relu(node: AtenNode) -> Value:
    """A ReLU with a slope for negative elements."""
    return lowering.unary(node.emit, "LeakyReLU", native(node), {"alpha": float(node["negative_slope"])})


@lowers("_prelu_kernel.default")
def prelu(node: AtenNode) -> Value:
    """A ReLU with slopes for negative elements."""
    return lowering.prelu(node.emit, native(node), native(node, "weight"))


@lowers("elu.default")
def elu(node: AtenNode) -> Value:
    """scale * elu(x)."""
    if node["input_scale"] != 1:
        raise NotLowered("an input scale")
    src = native(node)
    result = lowering.unary(node.emit, "Elu", src, {"alpha": float(node["alpha"])})
    return lowering.multiply(node.emit, result, lowering.filled(node["scale"], src))


@lowers("softplus.default")
def softplus(node: AtenNode) -> Value:
    """log(1 + exp(beta * x)) / beta, which is x above a threshold where both agree in the data type."""
    if node["threshold"] < 20:
        raise NotLowered("a low threshold")
    return lowering.unary(node.emit, "SoftPlus", native(node), {"beta": float(node["beta"])})


@lowers("rsqrt.default")
def rsqrt(node: AtenNode) -> Value:
    """1 / sqrt(x)."""
    src = node.value_as("self", node.result_dtype)
    return _inverted(node, lowering.unary(node.emit, "Sqrt", src))


@lowers("reciprocal.default")
def reciprocal(node: AtenNode) -> Value:
    """1 / x."""
    return _inverted(node, node.value_as("self", node.result_dtype))


def _inverted(node: AtenNode, src: Value) -> Value:
    if dtype_of(src) in NATIVE:
        return lowering.unary(node.emit, "Reciprocal", src)
    return lowering.binary(node.emit, "Divide", lowering.filled(1, src), src)


@lowers("neg.default")
def negative(node: AtenNode) -> Value:
    """-x."""
    return lowering.negative(node.emit, node.value("self"))


@lowers("pow.Tensor_Scalar")
def power(node: AtenNode) -> Value:
    """A power of a known exponent; the cheaper op where there is one."""
    src, exponent = node.value_as("self", node.result_dtype), float(node["exponent"])
    if dtype_of(src) not in NATIVE:
        return node.emit.op("Pow", [src, scalar(exponent, dtype_of(src))], edition="host")
    cheaper = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal"}.get(exponent)
    if cheaper is not None:
        return lowering.unary(node.emit, cheaper, src)
    if exponent == 1:
        return src
    if exponent == 3:
        return lowering.multiply(node.emit, lowering.unary(node.emit, "Square", src), src)
    return lowering.unary(node.emit, "Pow", src, {"beta": exponent})


@lowers("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensor(node: AtenNode) -> Value:
    """A power whose exponent is a tensor."""
    return node.emit.op("Pow", common(node, "self", "exponent"), edition="host")


def scaled(node: AtenNode, value: Value) -> Value:
    """alpha * value."""
    alpha = node["alpha"]
    return value if alpha in (None, 1) else lowering.multiply(node.emit, value, lowering.filled(alpha, value))


@lowers("add.Tensor", "add.Scalar")
def add(node: AtenNode) -> Value:
    """self + alpha * other."""
    first, second = common(node, "self", "other")
    if dtype_of(first) is DataType.boolean:
        return lowering.binary(node.emit, "Or", first, second)
    return lowering.add(node.emit, first, scaled(node, second))


@lowers("sub.Tensor", "sub.Scalar")
def subtract(node: AtenNode) -> Value:
    """self - alpha * other."""
    first, second = common(node, "self", "other")
    return lowering.binary(node.emit, "Subtract", first, scaled(node, second))


@lowers("rsub.Tensor", "rsub.Scalar")
def reverse_subtract(node: AtenNode) -> Value:
    """other - alpha * self."""
    first, second = common(node, "self", "other")
    return lowering.binary(node.emit, "Subtract", second, scaled(node, first))


@lowers("mul.Tensor", "mul.Scalar")
def multiply(node: AtenNode) -> Value:
    """self * other."""
    first, second = factors(node, "self", "other")
    if dtype_of(first) is DataType.boolean:
        return lowering.binary(node.emit, "And", first, second)
    return rounded(node.emit, lowering.multiply(node.emit, first, second), node.result_dtype)


@lowers("div.Tensor", "div.Scalar")
def divide(node: AtenNode) -> Value:
    """self / other, of integers too as a float."""
    if node.result_dtype in NARROW:
        first, second = factors(node, "self", "other")
    else:
        first, second = (node.value_as(name, node.result_dtype) for name in ("self", "other"))
    return rounded(node.emit, lowering.binary(node.emit, "Divide", first, second), node.result_dtype)


@lowers("maximum.default", "minimum.default")
def extreme(node: AtenNode) -> Value:
    """The larger or smaller of two tensors."""
    kind = {"maximum": "Maximum", "minimum": "Minimum"}[base(node)]
    return lowering.binary(node.emit, kind, *common(node, "self", "other"))


@lowers("addcmul.default", "addcdiv.default")
def add_product(node: AtenNode) -> Value:
    """self + value * tensor1 * tensor2, or self + value * tensor1 / tensor2; of 16-bit tensors with one rounding."""
    names, number = ("self", "tensor1", "tensor2"), node["value"]
    dtype = DataType.f32 if node.result_dtype in NARROW else node.result_dtype
    src, first, second = (node.value_as(name, dtype) for name in names)
    if dtype not in NATIVE:
        raise NotLowered(f"{dtype} is no data type of the ops")
    if number != 1:
        first = lowering.multiply(node.emit, first, scalar(number, dtype))
    kind = "Multiply" if "mul" in node.name else "Divide"
    result = lowering.add(node.emit, src, lowering.binary(node.emit, kind, first, second))
    return rounded(node.emit, result, node.result_dtype)


@lowers("lerp.Scalar")
def interpolate(node: AtenNode) -> Value:
    """self + weight * (end - self), computed from the nearer end; of 16-bit tensors with one rounding."""
    emit, weight = node.emit, node["weight"]
    if node.result_dtype not in NATIVE:
        raise NotLowered(f"{node.result_dtype} is no data type of the ops")
    first, second = (node.value_as(name, DataType.f32) for name in ("self", "end"))
    apart = lowering.binary(emit, "Subtract", second, first)
    if abs(weight) < 0.5:
        result = lowering.add(emit, first, lowering.multiply(emit, apart, lowering.filled(weight, apart)))
    else:
        result = lowering.add(emit, second, lowering.multiply(emit, apart, lowering.filled(weight - 1, apart)))
    return rounded(emit, result, node.result_dtype)
