"""Lowers ATen ops on complex tensors, which are real tensors with one more axis for the two parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ....lowering import movement
from ....lowering.elementwise import binary, clamp, filled, multiply, negative, unary
from ....lowering.emitter import Value, dtype_of, known_rank
from ....lowering.fourier import parts, product, real_of_half, transformed
from ....lowering.layers import matmul
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import LOWERINGS, PARTS_OF, AtenNode, lowers_parts
from .movement import reshape
from .quotients import angle_of

POWERS = (0.0, -0.5, -1.0)  # of the count of elements, by PyTorch's normalization


def _is_complex(fake: Any) -> bool:
    return type(fake) is complex or (hasattr(fake, "stride") and fake.is_complex())


def _dtype(node: AtenNode) -> DataType:
    """The data type of the parts of the first result."""
    return PARTS_OF.get(node.result.dtype) or node.result_dtype


def _operand(node: AtenNode, name: str) -> tuple[bool, Value]:
    """Whether an argument is complex, and its value in the data type of the result; a real one has a last axis of 1."""
    value, dtype = node[name], _dtype(node)
    is_complex = _is_complex(node.fakes[name])
    if not hasattr(value, "shape"):
        number = [value.real, value.imag] if is_complex else [value]
        return is_complex, np.array(number, dtype.numpy)
    value = movement.cast(node.emit, value, dtype)
    return is_complex, value if is_complex else reshape(node, value, [*node.shape(name), 1])


def _joined(node: AtenNode, real: Value, imaginary: Value) -> Value:
    """Complex numbers of their parts, which have a last axis of size 1, and may have to be broadcast."""
    shape = [*node.result.shape, 1]
    wide = [movement.expand(node.emit, one, shape) for one in (real, imaginary)]
    return movement.concat(node.emit, wide, len(shape) - 1)


def _widened(node: AtenNode, name: str) -> Value:
    """An argument as complex numbers."""
    is_complex, value = _operand(node, name)
    if is_complex:
        return value
    shape: Any = value.shape
    return movement.concat(node.emit, [value, node.filled(shape, 0, dtype_of(value))], len(shape) - 1)


@lowers_parts("view_as_real.default", "view_as_complex.default")
def same(node: AtenNode) -> Value:
    """The parts are kept as they are."""
    return node.value("self")


@lowers_parts("_fft_r2c.default", "_fft_c2c.default")
def transform(node: AtenNode) -> Value:
    """A transform along axes, the last one first; of real numbers, half of that axis may be wanted."""
    is_real = "r2c" in node.name
    shape = node.shape("self") if is_real else node.shape("self")[:-1]
    axes = [axis % len(shape) for axis in node["dim"]]
    scale = _scale(node, [shape[axis] for axis in axes])
    sign = -1 if is_real or node["forward"] else 1
    result = node.value("self")
    for axis in reversed(axes):
        half = is_real and bool(node["onesided"])
        result = transformed(node.emit, result, axis, sign, scale, is_real=is_real, half=half)
        is_real, scale = False, 1
    return result


def _scale(node: AtenNode, dims: Sequence[int]) -> float:
    return float(math.prod(dims) ** POWERS[node["normalization"]])


@lowers_parts("_fft_c2r.default")
def inverse_transform(node: AtenNode) -> Value:
    """Real numbers, of whose transform half is given along the last axis."""
    result, axes = node.value("self"), [axis % len(node.result_shape) for axis in node["dim"]]
    scale = _scale(node, [node.result_shape[axis] for axis in axes])
    for axis in axes[:-1]:
        result = transformed(node.emit, result, axis, 1, 1, is_real=False, half=False)
    return real_of_half(node.emit, result, axes[-1], node["last_dim_size"], scale)


@lowers_parts("complex.default")
def joined(node: AtenNode) -> Value:
    """Numbers of their parts."""
    return _joined(node, _operand(node, "real")[1], _operand(node, "imag")[1])


@lowers_parts("polar.default")
def polar(node: AtenNode) -> Value:
    """Numbers of their absolute values and angles."""
    size, angle = (_operand(node, name)[1] for name in ("abs", "angle"))
    turns = [binary(node.emit, "Multiply", size, unary(node.emit, kind, angle)) for kind in ("Cos", "Sin")]
    return _joined(node, *turns)


@lowers_parts("exp.default")
def exp(node: AtenNode) -> Value:
    """The power of e."""
    real, imaginary = parts(node.emit, node.value("self"))
    size = unary(node.emit, "Exp", real)
    return _joined(
        node, *(binary(node.emit, "Multiply", size, unary(node.emit, kind, imaginary)) for kind in ("Cos", "Sin"))
    )


@lowers_parts("abs.default")
def absolute(node: AtenNode) -> Value:
    """The absolute value; numbers are scaled, so that no square is too large or too small."""
    emit, src = node.emit, node.value("self")
    size = _size(node, src)
    norm = reduce(emit, "ReduceL2", binary(emit, "Divide", src, size), [known_rank(src) - 1], True)
    return reshape(node, binary(emit, "Multiply", norm, size), node.result_shape)


def _size(node: AtenNode, src: Value) -> Value:
    """The larger of the absolute values of the parts, which is neither 0 nor infinite."""
    limits: Any = np.finfo(dtype_of(src).numpy)
    larger = binary(node.emit, "Maximum", *(unary(node.emit, "Abs", one) for one in parts(node.emit, src)))
    return clamp(node.emit, larger, filled(float(limits.tiny), larger), filled(float(limits.max), larger))


@lowers_parts("angle.default")
def angle(node: AtenNode) -> Value:
    """The angle of each number."""
    real, imaginary = parts(node.emit, node.value("self"))
    return reshape(node, angle_of(node.emit, imaginary, real), node.result_shape)


@lowers_parts("_conj.default", "_conj_physical.default", "conj_physical.default")
def conjugate(node: AtenNode) -> Value:
    """The conjugates."""
    src = node.value("self")
    return binary(node.emit, "Multiply", src, np.array([1, -1], dtype_of(src).numpy))


@lowers_parts("neg.default")
def minus(node: AtenNode) -> Value:
    """Both parts with the other sign."""
    return negative(node.emit, node.value("self"))


@lowers_parts("add.Tensor", "sub.Tensor")
def add(node: AtenNode) -> Value:
    """Sums and differences of both parts."""
    first, second = (_widened(node, name) for name in ("self", "other"))
    if node["alpha"] not in (None, 1):
        second = multiply(node.emit, second, filled(node["alpha"], second))
    return binary(node.emit, "Add" if "add" in node.name else "Subtract", first, second)


@lowers_parts("mul.Tensor", "mul.Scalar")
def times(node: AtenNode) -> Value:
    """The product; that with a real number is one of each part."""
    operands = [_operand(node, name) for name in ("self", "other")]
    (one_is_complex, first), (other_is_complex, second) = operands
    if one_is_complex and other_is_complex:
        return product(node.emit, first, second)
    return binary(node.emit, "Multiply", first, second)


@lowers_parts("div.Tensor", "div.Scalar", "reciprocal.default")
def divide(node: AtenNode) -> Value:
    """The quotient: by a real number of each part, else by the product with the scaled conjugate of the divisor."""
    emit = node.emit
    name = "self" if "reciprocal" in node.name else "other"
    is_complex, second = _operand(node, name)
    first = np.array([1, 0], dtype_of(second).numpy) if name == "self" else _widened(node, "self")
    if not is_complex:
        return binary(emit, "Divide", first, second)
    size = _size(node, second)
    scaled = binary(emit, "Divide", second, size)
    turned = binary(emit, "Multiply", scaled, np.array([1, -1], dtype_of(second).numpy))
    square = reduce(emit, "ReduceSum", multiply(emit, scaled, scaled), [known_rank(second) - 1], True)
    quotient = binary(emit, "Divide", product(emit, first, turned), square)
    return binary(emit, "Divide", quotient, size)


@lowers_parts("mm.default", "bmm.default")
def products(node: AtenNode) -> Value:
    """Products of matrices: those of the parts."""
    emit, names = node.emit, ("self", "mat2")
    first, second = (
        [reshape(node, one, [*node.shape(name)[:-1]]) for one in parts(emit, node.value(name))] for name in names
    )
    (a, b), (c, d) = first, second
    real = binary(emit, "Subtract", matmul(emit, a, c), matmul(emit, b, d))
    imaginary = binary(emit, "Add", matmul(emit, a, d), matmul(emit, b, c))
    shape = [*node.result.shape, 1]
    return _joined(node, reshape(node, real, shape), reshape(node, imaginary, shape))


@lowers_parts("_to_copy.default", "prims.convert_element_type.default")
def to_copy(node: AtenNode) -> Value:
    """A cast, from and to real numbers too."""
    name = "self" if "aten" in node.name else "a"
    if node.result.is_complex():
        return _widened(node, name)
    real, _ = parts(node.emit, node.value(name))
    return reshape(node, movement.cast(node.emit, real, node.result_dtype), node.result_shape)


# Ops that move elements or add them up, with the arguments that name axes, which are counted from the end.
MOVES = {
    "permute.default": "dims", "transpose.int": "dim0 dim1", "slice.Tensor": "dim", "select.int": "dim",
    "split.Tensor": "dim", "split_with_sizes.default": "dim", "unbind.int": "dim", "cat.default": "dim",
    "stack.default": "dim", "flip.default": "dims", "roll.default": "dims", "index_select.default": "dim",
    "slice_scatter.default": "dim", "select_scatter.default": "dim", "sum.dim_IntList": "dim", "mean.dim": "dim",
    "view.default": "", "_unsafe_view.default": "", "reshape.default": "", "unsqueeze.default": "",
    "squeeze.default": "", "squeeze.dim": "", "squeeze.dims": "", "expand.default": "", "alias.default": "",
    "clone.default": "", "detach.default": "", "lift_fresh_copy.default": "", "constant_pad_nd.default": "",
    "repeat.default": "", "zeros.default": "", "zeros_like.default": "", "new_zeros.default": "",
}  # fmt: skip


@lowers_parts("t.default")
def turn(node: AtenNode) -> Value:
    """The axes of a matrix exchanged."""
    rank = len(node.result.shape)
    return movement.transpose(node.emit, node.value("self"), [*reversed(range(rank)), rank])


@lowers_parts(*MOVES)
def move(node: AtenNode) -> Value:
    """The same op on the parts: behind the axes, there is one more."""
    name = node.name.removeprefix("aten.")
    values, like = dict(node._values), _as_parts(node.like)
    rank = len(node.shape("self")) - 1 if hasattr(node["self"], "shape") else len(node.result.shape)
    for argument in MOVES[name].split():
        dims = values.get(argument)
        if dims is None and argument == "dim" and name in ("sum.dim_IntList", "mean.dim"):
            dims = [*range(rank)]
        if dims is not None:
            values[argument] = dims % rank if type(dims) is int else [dim % rank for dim in dims]
    if "permute" in name:
        values["dims"] = [*values["dims"], rank]
    elif "pad" in name:
        values["pad"] = [0, 0, *values["pad"]]
    elif "repeat" in name:
        values["repeats"] = [*values["repeats"], 1]
    fakes = {key: _as_parts(one) for key, one in node.fakes.items()}
    return LOWERINGS[node.name](AtenNode(node.name, values, fakes, like, node.read, node.emit))  # type: ignore[no-any-return]


def _as_parts(fake: Any) -> Any:
    if type(fake) in (list, tuple):
        return type(fake)(map(_as_parts, fake))
    return torch.view_as_real(fake.resolve_conj()) if _is_complex(fake) and hasattr(fake, "stride") else fake
