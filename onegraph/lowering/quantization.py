"""Lowers quantized arithmetic: Quantize and Dequantize where the library has them, else their formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from .._util.records import record
from ..opset.dtypes import DataType
from .elementwise import add, binary, multiply, unary
from .emitter import (
    Array,
    Emitter,
    NotLowered,
    Unsettled,
    Value,
    dtype_of,
    is_known,
    known_rank,
    numbers,
    rank_of,
    shape_of,
)
from .layers import matmul
from .movement import cast, expand, reshape, slice_
from .reduction import reduce
from .windows import Window, convolution

EIGHT_BITS = frozenset([DataType.s8, DataType.u8])
FOUR_BITS = frozenset([DataType.s4, DataType.u4])
F32 = DataType.f32
# Sums of products below this magnitude are exact in f32.
EXACT = 2**24


@record(frozen=True)
class Scale:
    """How numbers stand for others: (number - zero) * scale.

    Attributes:
        scale, zero: one number, one for each index of ``axis``, or one for each block of ``block`` along ``axis``; no
            ``zero`` stands for 0.
        axis: axis of the channels or blocks.
        block: size of a block; 0 is no blocks.
    """

    scale: Value
    zero: Value | None = None
    axis: int = 1
    block: int = 0

    def attrs(self, rank: int) -> Mapping[str, object] | None:
        """The attributes of Quantize and Dequantize; None if the numbers are unknown or have another form."""
        scale, zero = self.scale, self.zero
        if self.block or not isinstance(scale, np.ndarray) or not (zero is None or isinstance(zero, np.ndarray)):
            return None
        zeros = [0] * scale.size if zero is None else zero.reshape(-1).astype(np.int64).tolist()
        kind: dict[str, object] = {"qtype": "per_tensor"}
        if scale.size > 1 or (scale.ndim == 1 and rank > 0 and scale.size != 1):
            kind = {"qtype": "per_channel", "axis": self.axis % rank}
        return {"scales": scale.astype(np.float32).reshape(-1).tolist(), "zps": zeros, **kind}

    def groups(self, codes: Array) -> Mapping[str, object] | None:
        """The attributes of the DynamicDequantize of known codes in blocks; None if they have another form."""
        parts, zero = self.scale, self.zero
        if not self.block or not isinstance(parts, np.ndarray) or not (zero is None or isinstance(zero, np.ndarray)):
            return None
        axis, is_code = self.axis % codes.ndim, dtype_of(codes) in EIGHT_BITS | FOUR_BITS
        sizes = [self.block if place == axis else 1 for place in range(codes.ndim)]
        whole = tuple([dim * size for dim, size in zip(parts.shape, sizes, strict=False)])
        if not is_code or parts.ndim != codes.ndim or whole != codes.shape:
            return None
        return {"qtype": "per_group", "axis": axis, "group_shape": sizes}

    def along(self, emit: Emitter, value: Value, of: Value) -> Value:
        """The scale or zero point ``value``, shaped to broadcast with ``of``."""
        rank, shape = known_rank(of), shape_of(value)
        if shape is None:
            raise Unsettled("the shape of the scale is unknown")
        if self.block and len(shape) == rank:
            return self._repeated(emit, value, of)
        if not shape or rank < 2 or len(shape) != 1:
            return value
        if shape[0] == 1:
            return reshape(emit, value, numbers())
        return reshape(emit, value, numbers(-1, *[1] * (rank - 1 - self.axis % rank)))

    def _repeated(self, emit: Emitter, value: Value, of: Value) -> Value:
        whole, parts = shape_of(of), shape_of(value)
        if whole is None or parts is None or None in whole or None in parts:
            raise Unsettled("unknown dims of blocks")
        axis = self.axis % len(whole)
        dims = [dim or 0 for dim in parts]
        wide = reshape(emit, value, numbers(*dims[: axis + 1], 1, *dims[axis + 1 :]))
        wide = expand(emit, wide, numbers(*dims[: axis + 1], self.block, *dims[axis + 1 :]))
        found = reshape(emit, wide, numbers(*dims[:axis], dims[axis] * self.block, *dims[axis + 1 :]))
        return slice_(emit, found, [0], [whole[axis] or 0], [axis])


def dequantize(emit: Emitter, src: Value, scale: Scale, dtype: DataType = F32) -> Value:
    """(src - zero) * scale; a Dequantize of 8 bits stays in the graph even if src is known."""
    if dtype_of(src) in EIGHT_BITS and dtype_of(scale.scale) is F32 and dtype is F32:
        attrs = scale.attrs(known_rank(src))
        if attrs is not None:
            return emit.op("Dequantize", [src], attrs)
    if isinstance(src, np.ndarray) and dtype_of(scale.scale) is dtype and (groups := scale.groups(src)) is not None:
        # The codes of weights stay what they are: a product reads them packed.
        return emit.op("DynamicDequantize", [src, scale.scale, scale.zero], groups)
    wide = cast(emit, src, F32)
    if scale.zero is not None and not (isinstance(scale.zero, np.ndarray) and not scale.zero.astype(np.float32).any()):
        wide = binary(emit, "Subtract", wide, scale.along(emit, cast(emit, scale.zero, F32), src))
    factor = cast(emit, scale.along(emit, scale.scale, src), F32)
    return cast(emit, multiply(emit, wide, factor), dtype)


def quantize(emit: Emitter, src: Value, scale: Scale, dtype: DataType, saturate: bool = True) -> Value:
    """src / scale + zero, rounded to the nearest number of a data type and kept in its range."""
    if dtype in EIGHT_BITS and dtype_of(src) is F32 and dtype_of(scale.scale) is F32 and not is_known(src):
        attrs = scale.attrs(known_rank(src))
        if attrs is not None:
            return emit.op("Quantize", [src], attrs, dtype=dtype)
    wide = binary(emit, "Divide", cast(emit, src, F32), cast(emit, scale.along(emit, scale.scale, src), F32))
    kind = dtype.numpy
    is_integer = kind.kind in "iu" or dtype.value.startswith(("s4", "u4", "int", "uint"))
    if is_integer:
        wide = unary(emit, "Round", wide)
    if scale.zero is not None:
        wide = add(emit, wide, scale.along(emit, cast(emit, scale.zero, F32), src))
    if is_integer:
        limits: Any = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]
        wide = binary(emit, "Maximum", wide, np.array(int(limits.min), np.float32))
        wide = binary(emit, "Minimum", wide, np.array(int(limits.max), np.float32))
    return cast(emit, wide, dtype, saturate)


def symmetric(weights: Value, scale: Scale) -> tuple[Value, Scale]:
    """Known weights without a zero point as s8, which the library's int8 kernels take; others as they are."""
    zero = scale.zero
    if not isinstance(weights, np.ndarray) or not isinstance(zero, np.ndarray) or zero.size > 1:
        return weights, scale
    moved = weights.astype(np.int32) - zero.astype(np.int32).reshape(())
    if moved.size and (moved.min() < -128 or moved.max() > 127):
        return weights, scale
    return moved.astype(np.int8), Scale(scale.scale, None, scale.axis)


def integer_matmul(emit: Emitter, src: Value, weights: Value, src_zero: Value | None, zero: Value | None) -> Value:
    """The exact product of 8-bit integers without their zero points, as s32.

    The library multiplies with scales of 1 and returns f32, which is exact below 2**24. Longer sums are split.
    """
    shape, inner = shape_of(src), (shape_of(src) or (None,))[-1]
    if shape is None or inner is None or rank_of(weights) is None:
        raise Unsettled("the number of products of a sum is unknown")
    weights, right = symmetric(weights, Scale(np.ones((), np.float32), zero))
    known = isinstance(weights, np.ndarray) and right.zero is None
    if src_zero is not None and not is_known(src_zero) and known and shape_of(src_zero) in ((), (1,)):
        # The product with the zero point is that with the sums of the columns, so that the kernel gets 8 bits.
        product = integer_matmul(emit, src, weights, None, None)
        sums = np.asarray(weights).astype(np.int64).sum(-2, keepdims=True).astype(np.float32)
        moved = multiply(emit, cast(emit, reshape(emit, src_zero, numbers()), F32), sums)
        return as_integers(emit, binary(emit, "Subtract", cast(emit, product, F32), moved))
    whole = _without_zero(emit, src, src_zero, -1)
    axis = max((rank_of(weights) or 2) - 2, 0)
    total: Value | None = None
    for begin, end in _exact_parts(inner, weights, axis):
        first, second = whole, weights
        if end - begin < inner:  # the codes are cut, so that a product reads them packed
            first = slice_(emit, first, [begin], [end], [len(shape) - 1])
            second = slice_(emit, second, [begin], [end], [axis])
        part = as_integers(emit, matmul(emit, first, _without_zero(emit, second, right.zero, None)))
        total = part if total is None else binary(emit, "Add", total, part)
    if total is None:
        raise NotLowered("no products")
    return total


def _without_zero(emit: Emitter, src: Value, zero: Value | None, axis: int | None) -> Value:
    """8-bit integers minus their zero point, as f32; a vector has one for each row (axis -1) or column."""
    if zero is not None and rank_of(zero) == 1 and shape_of(zero) != (1,):
        rows = reshape(emit, zero, numbers(-1, 1)) if axis == -1 else zero
        return binary(emit, "Subtract", cast(emit, src, F32), cast(emit, rows, F32))
    if zero is not None:
        zero = reshape(emit, zero, numbers())
    return dequantize(emit, src, Scale(np.ones((), np.float32), zero))


def _exact_parts(count: int, weights: Value, axis: int) -> list[tuple[int, int]]:
    """Ranges of an axis of this size, over each of which sums of products with 8-bit integers are exact in f32."""
    if isinstance(weights, np.ndarray) and dtype_of(weights) is DataType.s8:
        sizes = np.abs(weights.astype(np.int64)).max(tuple(at for at in range(weights.ndim) if at != axis))
    else:
        sizes = np.full(count, 255)
    found, begin, total = [], 0, 0
    for place, size in enumerate((np.atleast_1d(sizes) * 255).tolist()):
        if total + size >= EXACT:
            found.append((begin, place))
            begin, total = place, 0
        total += size
    return [*found, (begin, count)]


def integer_convolution(
    emit: Emitter,
    src: Value,
    weights: Value,
    src_zero: Value | None,
    zero: Value | None,
    window: Window,
    *,
    groups: int,
) -> Value:
    """The exact convolution of 8-bit integers without their zero points, as s32.

    Raises:
        NotLowered: a sum may leave the range in which f32 is exact.
    """
    weights, right = symmetric(weights, Scale(np.ones((), np.float32), zero))
    shape = shape_of(weights)
    if shape is None or None in shape:
        raise Unsettled("the number of products of a sum is unknown")
    if isinstance(weights, np.ndarray) and right.zero is None:
        largest = int(np.abs(weights.astype(np.int64)).reshape(shape[0] or 1, -1).sum(1).max(initial=0)) * 255
    else:
        largest = int(np.prod([dim or 0 for dim in shape[1:]])) * 255 * 255
    if largest >= EXACT:
        raise NotLowered(f"sums of up to {largest}, which f32 does not hold exactly")
    second = right.zero
    if second is not None and rank_of(second) == 1 and shape_of(second) != (1,):
        second = reshape(emit, second, numbers(-1, *[1] * (len(shape) - 1)))
        kernel = binary(emit, "Subtract", cast(emit, weights, F32), cast(emit, second, F32))
    else:
        kernel = _without_zero(emit, weights, second, None)
    image = _without_zero(emit, src, src_zero, None)
    return as_integers(emit, convolution(emit, image, kernel, None, window, groups=groups))


def as_integers(emit: Emitter, src: Value) -> Value:
    """Integers in f32 as s32; a cast back to f32 takes them without another step."""
    found = cast(emit, src, DataType.s32)
    if not is_known(found):
        emit.same_as[id(found)] = found, src
    return found


def known_bias(bias: Array | None, src: Scale, weights: Scale) -> Array | None:
    """A bias of s32 as f32, by the product of two scales; the scales must be known."""
    if bias is None:
        return None
    if not isinstance(src.scale, np.ndarray) or not isinstance(weights.scale, np.ndarray):
        raise NotLowered("unknown scales of a bias")
    found: Array = (bias.astype(np.float32) * src.scale.reshape(()) * weights.scale.reshape(-1)).astype(np.float32)
    return found


def rounded_to_codes(emit: Emitter, src: Value) -> Value:
    """src in f32, rounded to the 256 numbers from its least to its largest element and 0, as DynamicQuantizeLinear."""
    wide = cast(emit, src, F32)
    axes, zero, steps = [*range(known_rank(src))], np.zeros((), np.float32), np.array(255, np.float32)
    low = binary(emit, "Minimum", reduce(emit, "ReduceMin", wide, axes, keep=False), zero)
    high = binary(emit, "Maximum", reduce(emit, "ReduceMax", wide, axes, keep=False), zero)
    scale = binary(emit, "Divide", binary(emit, "Subtract", high, low), steps)
    scale = binary(emit, "Maximum", scale, np.array(np.finfo(np.float32).tiny))
    point = unary(emit, "Round", binary(emit, "Divide", binary(emit, "Subtract", zero, low), scale))
    codes = add(emit, unary(emit, "Round", binary(emit, "Divide", wide, scale)), point)
    codes = binary(emit, "Minimum", binary(emit, "Maximum", codes, zero), steps)
    return multiply(emit, binary(emit, "Subtract", codes, point), scale)
