"""One op on each element of tensors of any data type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onegraph.compiler.kernels.elements import why_not
from onegraph.compiler.kernels.native import compiled, packed
from onegraph.opset.dtypes import DataType
from tests.helpers.drawn import Array
from tests.helpers.kernels import values_of

from ..draw import Draw
from ..entry import draws
from ..numbers import check, dims, laid, random_bits, repeated

INTEGERS = ("s8", "u8", "int16", "uint16", "s32", "uint32", "s64", "uint64")
FLOATS = ("f32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3e38, -2.5, 0.5, 1.5, 2.0**31, -(2.0**31), 2.0**63, 300.7)


def quotient(a: Array, b: Array) -> Array:
    """Rounded towards 0; that of an integer by 0 is the integer, and that of the lowest one by -1 wraps around."""
    if a.dtype.kind == "f":
        return a / b
    a, divisor = np.broadcast_arrays(a, np.where(b == 0, 1, b).astype(a.dtype))
    below, rest = a // divisor, a % divisor
    is_cut = (rest != 0) & ((a < 0) != (divisor < 0))
    return below + is_cut.astype(a.dtype)


def rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of f32 in float64."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


OPS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Add": (np.add, NUMBERS),
    "Subtract": (np.subtract, NUMBERS),
    "Multiply": (np.multiply, NUMBERS),
    "Maximum": (np.maximum, NUMBERS),
    "Minimum": (np.minimum, NUMBERS),
    "Negative": (np.negative, NUMBERS),
    "Divide": (quotient, NUMBERS),
    "Mod": (np.mod, NUMBERS),
    "Abs": (np.abs, NUMBERS),
    "Sign": (np.sign, NUMBERS),
    "Floor": (np.floor, FLOATS),
    "Ceil": (np.ceil, FLOATS),
    "Round": (np.rint, FLOATS),
    "Sqrt": (np.sqrt, FLOATS),
    "Sin": (rounded(np.sin), ("f32",)),
    "Cos": (rounded(np.cos), ("f32",)),
    "BitwiseAnd": (np.bitwise_and, INTEGERS),
    "BitwiseOr": (np.bitwise_or, INTEGERS),
    "BitwiseXor": (np.bitwise_xor, INTEGERS),
    "BitwiseNot": (np.invert, INTEGERS),
    "ShiftLeft": (np.left_shift, INTEGERS),
    "ShiftRight": (np.right_shift, INTEGERS),
    "IsNaN": (np.isnan, FLOATS),
    "IsInf": (np.isinf, FLOATS),
    "Equal": (np.equal, NUMBERS),
    "Greater": (np.greater, NUMBERS),
    "GreaterEqual": (np.greater_equal, NUMBERS),
    "Less": (np.less, NUMBERS),
    "LessEqual": (np.less_equal, NUMBERS),
    "And": (np.logical_and, ("boolean",)),
    "Or": (np.logical_or, ("boolean",)),
    "Xor": (np.logical_xor, ("boolean",)),
    "Not": (np.logical_not, ("boolean",)),
    "Where": (np.where, (*NUMBERS, "boolean")),
    "Cast": (np.positive, (*NUMBERS, "boolean")),
}
ONE_OPERAND = (
    *("Negative", "Not", "Cast", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "IsNaN", "IsInf", "BitwiseNot"),
    *("Sin", "Cos"),
)


def converted(x: Array, kind: np.dtype[Any]) -> Array:
    """A number in another type: of a float beyond 32 bits, or beyond 64 for s64, the lowest one, cut to the type."""
    if x.dtype.kind != "f" or kind.kind in "fb":
        return x.astype(kind)
    end = 2.0**63 if kind.itemsize == 8 else 2.0**31
    is_inside = (x >= -end) & (x < end)
    return np.where(is_inside, np.trunc(np.where(is_inside, x, 0)), -end).astype(np.int64).astype(kind)


def operand(draw: Draw, shape: list[int], dtype: str) -> Array:
    """Numbers of any bits, small ones, and those at the limits of the type."""
    kind = DataType[dtype].numpy
    if kind == np.bool_ or draw.flag(0.3):
        return laid(draw, random_bits(draw, shape, kind))
    if kind.kind == "f":
        numbers = draw.rng.normal(0, draw.of([1, 30, 1e4]), shape)
        special = draw.rng.random(shape) < draw.of([0, 0.1])
        return laid(draw, np.where(special, draw.rng.choice(SPECIAL, shape), numbers).astype(kind))
    limits = np.iinfo(kind)
    small = draw.rng.integers(-9, 9, shape).astype(kind)
    ends = np.array([limits.min, limits.max, 0, limits.max // 2 + 1, limits.max - 1], kind)
    return laid(draw, np.where(draw.rng.random(shape) < 0.2, draw.rng.choice(ends, shape), small))


@draws("elements")
def elements(draw: Draw) -> None:
    op = draw.of([*OPS])
    compute, dtypes = OPS[op]
    dtype, shape, truncate = draw.of(dtypes), dims(draw), op == "Mod" and draw.flag()
    arrays = [operand(draw, repeated(draw, shape), dtype) for _ in range(1 if op in ONE_OPERAND else 2)]
    if op == "Where":
        arrays = [operand(draw, repeated(draw, shape), "boolean"), *arrays]
    target = DataType[draw.of([*NUMBERS, "boolean"])] if op == "Cast" else None
    if target and why_not(op, DataType[dtype], target):
        target = DataType.float64
    compute = np.fmod if truncate else compute
    wanted = converted(arrays[0], target.numpy) if target else compute(*arrays)
    wanted = np.broadcast_to(wanted, shape)
    found = random_bits(draw, shape, wanted.dtype)
    ends, layout = values_of([*arrays, found]), [*shape]
    for value in ends[:-1]:
        layout += [0] * (len(shape) - len(value.shape))
        layout += [0 if dim == 1 else stride for dim, stride in zip(value.shape, value.strides, strict=True)]
    numbers = {"op": op, "source": dtype, "target": ends[-1].dtype.value, "truncate": truncate, "rank": len(shape)}
    plain = [value._replace(dtype=DataType.u8, shape=(1,), strides=(1,)) for value in ends]
    draw.path, draw.said = (
        op,
        f"{op} {dtype} {[(array.shape, array.strides) for array in arrays]} to {wanted.dtype} {shape}",
    )
    kernel = compiled("elements", plain[:-1], plain[-1:], packed("elements", {**numbers, "layout": layout}))
    draw.run_kernel(kernel, *arrays, found)
    is_right = (found == wanted) | ((found != found) & (wanted != wanted))
    if op in ("Sin", "Cos"):
        is_right |= np.abs(found.astype(np.float64) - wanted) <= 1.01 * np.spacing(np.abs(wanted))
    elif wanted.dtype.kind == "f" and op not in ("Maximum", "Minimum"):
        is_right &= (np.signbit(found) == np.signbit(wanted)) | np.isnan(wanted)
    check(is_right, found, wanted, draw)
