"""Lowers quantized arithmetic: Quantize and Dequantize where the library has them, else their formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from .._util.records import record
from ..opset.dtypes import DataType
from ..opset.shapes import known
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
    shape_of,
)
from .layout import Order, moved
from .movement import cast, expand, reshape, slice_, transpose

EIGHT_BITS = frozenset([DataType.s8, DataType.u8])
FOUR_BITS = frozenset([DataType.s4, DataType.u4])
SIXTEEN_BITS = frozenset([DataType.int16, DataType.uint16])
F32 = DataType.f32


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
        zeros = [0] * scale.size if zero is None else zero.ravel().astype(np.int64).tolist()
        kind: dict[str, object] = {"qtype": "per_tensor"}
        if scale.size != 1 and rank > 0:
            kind = {"qtype": "per_channel", "axis": self.axis % rank}
        return {"scales": scale.astype(np.float32).ravel().tolist(), "zps": zeros, **kind}

    def of_codes(self, codes: Array) -> Mapping[str, object] | None:
        """The attributes of the DynamicDequantize of known codes; None if they have another form."""
        parts, zero = self.scale, self.zero
        if not isinstance(parts, np.ndarray) or not (zero is None or isinstance(zero, np.ndarray)) or not codes.ndim:
            return None
        axis = self.axis % codes.ndim
        if dtype_of(codes) not in EIGHT_BITS | FOUR_BITS:
            return None
        if not self.block:
            if codes.ndim != len(("depth", "columns")):
                return None
            if parts.size == 1:
                return {"qtype": "per_tensor"}
            return {"qtype": "per_channel", "axis": axis} if parts.shape == codes.shape[axis : axis + 1] else None
        sizes = [self.block if place == axis else 1 for place in range(codes.ndim)]
        whole = tuple([dim * size for dim, size in zip(parts.shape, sizes, strict=False)])
        if parts.ndim != codes.ndim or whole != codes.shape:
            return None
        return {"qtype": "per_group", "axis": axis, "group_shape": sizes}

    def along(self, emit: Emitter, value: Value, of: Value) -> Value:
        """The scale or zero point ``value``, shaped to broadcast with ``of``."""
        rank, shape = known_rank(of), shape_of(value)
        if shape is None:
            raise Unsettled("the shape of the scale is unknown")
        if self.block and len(shape) == rank:
            return self._repeated(emit, value, of)
        if len(shape) != 1 or rank == 1:
            return value
        if shape[0] == 1 or not rank:
            return reshape(emit, value, numbers())
        return reshape(emit, value, numbers(-1, *[1] * (rank - 1 - self.axis % rank)))

    def _repeated(self, emit: Emitter, value: Value, of: Value) -> Value:
        whole, dims = shape_of(of), shape_of(value)
        if not known(whole) or not known(dims):
            raise Unsettled("unknown dims of blocks")
        axis = self.axis % len(whole)
        wide = reshape(emit, value, numbers(*dims[: axis + 1], 1, *dims[axis + 1 :]))
        wide = expand(emit, wide, numbers(*dims[: axis + 1], self.block, *dims[axis + 1 :]))
        repeated = reshape(emit, wide, numbers(*dims[:axis], dims[axis] * self.block, *dims[axis + 1 :]))
        return slice_(emit, repeated, [0], [whole[axis]], [axis])


def dequantize(emit: Emitter, src: Value, scale: Scale, dtype: DataType = F32) -> Value:
    """(src - zero) * scale; a Dequantize of 8 bits stays in the graph even if src is known."""
    if dtype_of(src) in EIGHT_BITS and dtype_of(scale.scale) is F32 and dtype is F32:
        src, scale = symmetric(src, scale)
        attrs = scale.attrs(known_rank(src))
        if attrs is not None:
            return emit.op("Dequantize", [src], attrs)
        if shape_of(scale.scale) in ((), (1,)) and not is_known(src) and not is_known(scale.scale):
            scalars = [None if part is None else reshape(emit, part, numbers(1)) for part in (scale.scale, scale.zero)]
            return emit.op("DynamicDequantize", [src, *scalars], {"qtype": "per_tensor"})
    if isinstance(src, np.ndarray) and dtype_of(scale.scale) is dtype and (form := scale.of_codes(src)) is not None:
        # The codes of weights stay what they are: a product reads them packed.
        parts = scale.scale, scale.zero
        ends = [each if scale.block or each is None else reshape(emit, each, numbers(-1)) for each in parts]
        return emit.op("DynamicDequantize", [src, *ends], form)
    if (multiples := _multiples(emit, src, scale)) is not None:
        return cast(emit, multiples, dtype)
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
        if shape_of(scale.scale) in ((), (1,)) and not is_known(scale.scale):
            parts = [None if part is None else reshape(emit, part, numbers(1)) for part in (scale.scale, scale.zero)]
            return emit.op("DynamicQuantize", [src, *parts], {"qtype": "per_tensor"}, dtype=dtype)
    zero = None if scale.zero is None else scale.along(emit, cast(emit, scale.zero, F32), src)
    codes = codes_of(emit, src, scale.along(emit, scale.scale, src), zero, dtype, saturate)
    if dtype in SIXTEEN_BITS and not is_known(codes):
        emit.codes[id(codes)] = codes, src, scale
    return codes


def codes_of(
    emit: Emitter, src: Value, scale: Value, zero: Value | None, dtype: DataType, saturate: bool = True
) -> Value:
    """src / scale + zero in a data type, where scale and zero broadcast to src."""
    wide = binary(emit, "Divide", cast(emit, src, F32), cast(emit, scale, F32))
    kind = dtype.numpy
    is_integer = kind.kind in "iu" or dtype.value.startswith(("s4", "u4", "int", "uint"))
    if is_integer:
        wide = unary(emit, "Round", wide)
    if zero is not None:
        wide = add(emit, wide, zero)
    if is_integer:
        limits: Any = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]
        wide = binary(emit, "Maximum", wide, np.array(int(limits.min), np.float32))
        wide = binary(emit, "Minimum", wide, np.array(int(limits.max), np.float32))
    return cast(emit, wide, dtype, saturate)


def _multiples(emit: Emitter, codes: Value, scale: Scale) -> Value | None:
    """The numbers that 16-bit codes stand for, of the f32 from which they were made; None for other codes.

    So one step rounds to multiples of the scale, and nobody reads the codes.
    """
    known = emit.codes.get(id(codes))
    if known is None or dtype_of(known[1]) is not F32:
        return None
    attrs, bias_attrs = scale.attrs(known_rank(codes)), known[2].attrs(known_rank(codes))
    if attrs is None or attrs != bias_attrs or attrs["qtype"] != "per_tensor":
        return None
    (step,), (zero,) = (np.array(attrs[name]).tolist() for name in ("scales", "zps"))
    limits = np.iinfo(str(dtype_of(codes).numpy))
    if not 0 < step < np.inf:
        return None
    ends = {"low": float(int(limits.min) - zero), "high": float(int(limits.max) - zero)}
    return emit.op("FakeQuantize", [known[1]], {"step": step, **ends})


def dynamic_quantize(
    emit: Emitter, src: Value, dtype: DataType, *, low: int = 0, high: int = 255, least: float = 0.0
) -> tuple[Value, ...]:
    """Codes for the range of src, their scale and the code of 0."""
    attrs = {"low": low, "high": high, "least": least}
    inner, order = untransposed(emit, cast(emit, src, F32))
    codes, *ends = emit.ends("DynamicQuantizeLinear", [inner], attrs, dtype=dtype)
    return (transposed(emit, codes, order), *ends)


def untransposed(emit: Emitter, src: Value) -> tuple[Value, Order | None]:
    """What is transposed to ``src``, and the order of its axes; ``src`` itself and None without a transpose."""
    return moved(emit, src) or (src, None)


def transposed(emit: Emitter, src: Value, order: Order | None) -> Value:
    """src with its axes in another order, if there is one."""
    return src if order is None else transpose(emit, src, order)


def symmetric(weights: Value, scale: Scale) -> tuple[Value, Scale]:
    """Known weights without a zero point as s8, which the library's int8 kernels take; others as they are."""
    zero = scale.zero
    if not isinstance(weights, np.ndarray) or not isinstance(zero, np.ndarray) or scale.block or zero.ndim > 1:
        return weights, scale
    if weights.dtype == np.int8 and not zero.any():
        return weights, scale
    points = zero.astype(np.int32).ravel()[:1].reshape(())
    if zero.size > 1:
        points = zero.astype(np.int32).reshape(zero.size, *[1] * (weights.ndim - 1 - scale.axis % weights.ndim))
    moved = weights.astype(np.int32) - points
    if moved.size and (moved.min() < -128 or moved.max() > 127):
        return weights, scale
    return moved.astype(np.int8), Scale(scale.scale, None, scale.axis)


def known_bias(bias: Array | None, src: Scale, weights: Scale) -> Array | None:
    """A bias of s32 as f32, by the product of two scales; the scales must be known."""
    if bias is None:
        return None
    if not isinstance(src.scale, np.ndarray) or not isinstance(weights.scale, np.ndarray):
        raise NotLowered("unknown scales of a bias")
    codes: Array = (bias.astype(np.float32) * src.scale.reshape(()) * weights.scale.ravel()).astype(np.float32)
    return codes
