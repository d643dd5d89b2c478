"""Lowers nodes that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....lowering import elementwise as lowering
from ....lowering.emitter import Array, Value
from ....lowering.movement import NATIVE, cast, dims_of, expand, scalar
from ....opset.dtypes import DataType
from ....opset.kinds import HOST_UNARY
from ..node import Node, NotLowered, in_f32, lowers
from ..types import data_type
from .random import dropped

# Nodes on one tensor that have the name of their op.
UNARY = sorted((HOST_UNARY | {"IsNaN"}) - {"Negative", "FakeQuantize"})  # which have other names or no node
# Nodes on two tensors.
BINARY = {
    "And": "And",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Div": "Divide",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual",
    "Less": "Less",
    "LessOrEqual": "LessEqual",
    "Or": "Or",
    "Sub": "Subtract",
    "Xor": "Xor",
}
# Nodes whose op takes only the 16-bit and 32-bit floats: the kind, and the attributes with their defaults.
NATIVE_ONLY: dict[str, tuple[str, dict[str, float]]] = {
    "Elu": ("Elu", {"alpha": 1.0}),
    "HardSigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": ("HardSwish", {}),
    "LeakyRelu": ("LeakyReLU", {"alpha": 0.01}),
    "Mish": ("Mish", {}),
    "Softplus": ("SoftPlus", {}),
}
# Activations made of several ops: the function, and the attributes with their defaults.
COMPOSED: dict[str, tuple[Callable[..., Value], dict[str, float]]] = {
    "Celu": (lowering.celu, {"alpha": 1.0}),
    "Selu": (lowering.selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Shrink": (lowering.shrink, {"lambd": 0.5, "bias": 0.0}),
    "Softsign": (lowering.softsign, {}),
    "Swish": (lowering.swish, {"alpha": 1.0}),
    "ThresholdedRelu": (lowering.thresholded_relu, {"alpha": 1.0}),
}


@lowers(*UNARY)
def unary(node: Node) -> Value:
    """One op with the same meaning."""
    return lowering.unary(node.emit, node.proto.op_type, node.value(0))


@lowers(*BINARY)
def binary(node: Node) -> Value:
    """One op with the same meaning."""
    return lowering.binary(node.emit, BINARY[node.proto.op_type], node.value(0), node.value(1))


@lowers(*NATIVE_ONLY)
def native(node: Node) -> Value:
    """One op of the specification; other data types need another way."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")
    kind, defaults = NATIVE_ONLY[node.proto.op_type]
    return lowering.unary(
        node.emit, kind, node.value(0), {name: node.attr(name, value) for name, value in defaults.items()}
    )


@lowers("Add")
def add(node: Node) -> Value:
    """A sum."""
    return lowering.add(node.emit, node.value(0), node.value(1))


@lowers("Mul")
def multiply(node: Node) -> Value:
    """A product."""
    return lowering.multiply(node.emit, node.value(0), node.value(1))


@lowers("Neg")
def negative(node: Node) -> Value:
    """A product with -1."""
    return lowering.negative(node.emit, node.value(0))


@lowers("Relu")
def relu(node: Node) -> Value:
    """ReLU, or a maximum for data types that it does not take."""
    src = node.value(0)
    if node.dtype() in NATIVE:
        return lowering.unary(node.emit, "ReLU", src)
    return lowering.binary(node.emit, "Maximum", src, lowering.filled(0, src))


@lowers("Reciprocal")
def reciprocal(node: Node) -> Value:
    """1 / src."""
    src = node.value(0)
    if node.dtype() in NATIVE:
        return lowering.unary(node.emit, "Reciprocal", src)
    return lowering.binary(node.emit, "Divide", lowering.filled(1, src), src)


@lowers(*COMPOSED, wide=True)
def composed(node: Node) -> Value:
    """An activation made of several ops."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the ops")
    function, defaults = COMPOSED[node.proto.op_type]
    return function(node.emit, node.value(0), *[node.attr(name, value) for name, value in defaults.items()])


@lowers("Gelu")
def gelu(node: Node) -> Value:
    """GELU, exact or by tanh."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")
    mode = {"none": "gelu_erf", "tanh": "gelu_tanh"}[node.attr("approximate", "none")]
    return lowering.unary(node.emit, "GELU", node.value(0), {"mode": mode})


@lowers("PRelu")
def prelu(node: Node) -> Value:
    """A ReLU with a slope for negative elements."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")
    return lowering.prelu(node.emit, node.value(0), node.value(1))


@lowers("Clip")
def clip(node: Node) -> Value:
    """A clamp."""
    return lowering.clamp(node.emit, node.value(0), node.optional(1), node.optional(2))


@lowers("Pow")
def power(node: Node) -> Value:
    """A power; of a known exponent the cheaper op."""
    src, exponent = node.value(0), node.value(1)
    if not isinstance(src, np.ndarray) and isinstance(exponent, np.ndarray):
        number = float(exponent.reshape(-1)[0]) if exponent.size == 1 and node.rank(0) >= exponent.ndim else math.nan
        is_whole = src.dtype.numpy.kind == "f" or exponent.dtype.kind in "iu"  # else the power of a float is cut
        if node.dtype() not in NATIVE and number in (2, 3) and is_whole:
            square = lowering.multiply(node.emit, src, src)
            return square if number == 2 else lowering.multiply(node.emit, square, src)
        if node.dtype() in NATIVE:
            if number == 2:
                return lowering.unary(node.emit, "Square", src)
            if number == 0.5:
                return lowering.unary(node.emit, "Sqrt", src)
            if math.isfinite(number):
                return lowering.unary(node.emit, "Pow", src, {"beta": number})
    return node.emit.op("Pow", [src, exponent], edition="host")


@lowers("Max", "Min")
def several(node: Node) -> Value:
    """A chain of ops on two tensors."""
    return chain(node, {"Max": "Maximum", "Min": "Minimum"}[node.proto.op_type])


@lowers("Sum")
def sum_(node: Node) -> Value:
    """A chain of sums; those of several 16-bit tensors are f32 in between."""
    return chain(node, "Add") if len(node) < 3 else in_f32(node, lambda wide: chain(wide, "Add"))


def chain(node: Node, kind: str) -> Value:
    """One op after the other with each input."""
    value = node.value(0)
    for index in range(1, len(node)):
        value = lowering.binary(node.emit, kind, value, node.value(index))
    return value


@lowers("Mean", wide=True)
def mean(node: Node) -> Value:
    """A sum, divided by the number of tensors."""
    total = chain(node, "Add")
    return lowering.multiply(node.emit, total, lowering.filled(1 / len(node), total))


@lowers("Mod")
def mod(node: Node) -> Value:
    """A remainder."""
    return node.emit.op("Mod", [node.value(0), node.value(1)], {"truncate": bool(node.attr("fmod", 0))})


@lowers("BitShift")
def shift(node: Node) -> Value:
    """A shift to one side."""
    kind = {"LEFT": "ShiftLeft", "RIGHT": "ShiftRight"}[node.attr("direction")]
    return lowering.binary(node.emit, kind, node.value(0), node.value(1))


@lowers("IsInf")
def is_inf(node: Node) -> Value:
    """Whether elements are infinite."""
    attrs = {name: bool(node.attr(name, 1)) for name in ("detect_negative", "detect_positive")}
    return lowering.unary(node.emit, "IsInf", node.value(0), attrs)


@lowers("Where")
def where(node: Node) -> Value:
    """A choice between two tensors."""
    return lowering.select(node.emit, node.value(0), node.value(1), node.value(2))


@lowers("Cast")
def to_type(node: Node) -> Value:
    """A cast to the data type that the attribute names."""
    return _to(node, data_type(node.attr("to"), node.where))


@lowers("CastLike")
def to_type_of(node: Node) -> Value:
    """A cast to the data type of the second tensor."""
    return _to(node, node.dtype(1))


def _to(node: Node, dtype: DataType) -> Value:
    if dtype is DataType.e8m0:
        return _scales(node.array(0), node.attr("round_mode", "up"), bool(node.attr("saturate", 1)))
    return cast(node.emit, node.value(0), dtype, bool(node.attr("saturate", 1)))


def _scales(src: Array, mode: str, saturate: bool) -> Array:
    """Powers of two as e8m0, whose byte is the exponent of the f32 number."""
    bits = src.astype(np.float32).view(np.uint32).reshape(src.shape)
    exponents, rest, half = (bits >> 23) & 255, bits & (2**23 - 1), 2**22
    up = {
        "up": rest > 0,
        "down": rest < 0,
        "nearest": (rest > half) | ((rest == half) & (exponents > 0)),
    }[mode]
    codes = np.minimum(exponents + up, 254 if saturate else 255)
    codes = np.where(exponents == 255, 255, codes).astype(np.uint8)
    return codes.view(DataType.e8m0.numpy)


@lowers("Identity")
def identity(node: Node) -> Value:
    """The tensor itself."""
    return node.inputs[0]  # type: ignore[no-any-return]


@lowers("Dropout")
def dropout(node: Node) -> tuple[Value | None, ...]:
    """The tensor itself outside of training."""
    training = node.known(2)
    if training is not None and training.any():
        return dropped(node)
    src = node.value(0)
    if len(node.proto.output) == 1:
        return (src,)
    return src, expand(node.emit, scalar(True, DataType.boolean), dims_of(node.emit, src))
