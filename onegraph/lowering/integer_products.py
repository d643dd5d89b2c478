"""Lowers exact products and convolutions of 8-bit integers, which ONNX defines with s32 sums.

The library multiplies codes of 8 bits with scales of 1, and returns f32, which is exact below 2**24. So the codes of
src and of known weights are multiplied as they are, in int8 kernels, and zero points are corrected behind the product:

    (src - a) @ (weights - b) = src @ weights - b * (src @ ones) - a * (ones @ (weights - b))

Known weights become s8, which the kernels take, and their zero points vanish where the difference has 8 bits. The last
product is known. Sums that may leave the range of f32 are cut into parts, which are added in s32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from .._util.open_sizes import is_open
from .._util.records import record
from ..opset.dtypes import DataType
from ..opset.shapes import known, known_dims
from .elementwise import binary, multiply
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
from .movement import cast, concat, expand, reshape, slice_, split
from .quantization import F32, Scale, dequantize
from .reduction import reduce
from .windows import Window, convolution, spatial

EXACT = 2**24  # f32 has all integers below
MOST = 256  # no 8-bit integer, and no difference of two, has a larger absolute value
ONE = np.ones((), np.float32)


@record(frozen=True)
class Product:
    """How tensors are multiplied.

    Attributes:
        depth: the axes of src and of the weights along which a product can be cut into parts that are added.
        columns: the axis of the weights that the columns of the result have.
        multiply: the product of two f32 tensors.
        src_sums: codes of src without a zero point times ones in the place of known weights.
        weight_sums: ones in the place of src times known integers; None if it depends on unknown dims.
        by_column: one number for each column, shaped to broadcast with the result.
        varies: whether ``weight_sums`` needs sizes that change, so that no number stands for the sums.
    """

    depth: tuple[int, int]
    columns: int
    multiply: Callable[[Emitter, Value, Value], Value]
    src_sums: Callable[[Emitter, Value, Value | None, Array], Value]
    weight_sums: Callable[[Array], Array]
    by_column: Callable[[Array], Array]
    varies: bool = False


class IntegerWeights(NamedTuple):
    """Known weights: s8 codes, and their zero points by column, of which none is 0 if there are any."""

    codes: Array
    zeros: Array | None

    def numbers(self, columns: int) -> Array:
        """The integers that the codes stand for."""
        wide = self.codes.astype(np.int64)
        return wide if self.zeros is None else wide - _along(self.zeros, wide.ndim, columns)


def _along(values: Array, rank: int, axis: int) -> Array:
    """One number, or one for each index of an axis, shaped to broadcast with a tensor of this rank."""
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape) if values.size > 1 else values.reshape(())


def _signed(weights: Array, zero: Array | None, columns: int) -> IntegerWeights:
    """Known weights as s8; their zero points vanish where the differences have 8 bits."""
    zeros = np.zeros(1, np.int64) if zero is None else zero.astype(np.int64).ravel()
    moved = weights.astype(np.int64) - _along(zeros, weights.ndim, columns)
    if not moved.size or (moved.min() >= -128 and moved.max() <= 127):
        return IntegerWeights(moved.astype(np.int8), None)
    shift = 128 if weights.dtype == np.uint8 else 0
    return IntegerWeights((weights.astype(np.int64) - shift).astype(np.int8), zeros - shift)


def integer_product(
    emit: Emitter, src: Value, weights: Value, src_zero: Value | None, zero: Value | None, product: Product
) -> Value:
    """The exact product of 8-bit integers without their zero points, as s32.

    Raises:
        NotLowered: there is nothing to add up.
        Unsettled: dims are unknown that it depends on.
    """
    shapes = shape_of(src), shape_of(weights)
    if shapes[0] is None or shapes[1] is None or shapes[1][product.depth[1]] is None:
        raise Unsettled("the number of products of a sum is unknown")
    is_vector = zero is None or (isinstance(zero, np.ndarray) and zero.size in (1, shapes[1][product.columns]))
    if not isinstance(weights, np.ndarray) or not (zero is None or isinstance(zero, np.ndarray)) or not is_vector:
        return _of_unknown(emit, src, weights, src_zero, zero, product)
    signed = _signed(weights, zero, product.columns)
    parts = _exact_parts(signed, product)
    if not parts:
        raise NotLowered("no products")
    total: Value | None = None
    for begin, end in parts:
        first, axis = src, product.depth[0] % len(shapes[0])
        codes = signed.codes
        if len(parts) > 1:
            first = slice_(emit, first, [begin], [end], [axis])
            codes = np.ascontiguousarray(codes.take(range(begin, end), product.depth[1]))
        part = as_integers(emit, _part(emit, first, IntegerWeights(codes, signed.zeros), src_zero, product))
        total = part if total is None else binary(emit, "Add", total, part)
    assert total is not None
    return total


def _part(emit: Emitter, src: Value, weights: IntegerWeights, src_zero: Value | None, product: Product) -> Value:
    """The product by known weights as f32, which holds it and each of its terms."""
    is_inside = src_zero is None or ((is_known(src_zero) or product.varies) and shape_of(src_zero) in ((), (1,)))
    point = None if src_zero is None or not is_inside else reshape(emit, src_zero, numbers())
    image = _image(emit, src, point)
    kernel = dequantize(emit, weights.codes, Scale(ONE))
    product_part = product.multiply(emit, image, kernel)
    if weights.zeros is not None:
        sums = product.src_sums(emit, src, point, weights.codes)
        zeros = weights.zeros.astype(np.float32)
        product_part = binary(emit, "Subtract", product_part, multiply(emit, sums, product.by_column(zeros)))
    if not is_inside:
        assert src_zero is not None
        sums = product.weight_sums(weights.numbers(product.columns)).astype(np.float32)
        product_part = binary(emit, "Subtract", product_part, multiply(emit, _by_row(emit, src_zero), sums))
    return product_part


def _image(emit: Emitter, src: Value, point: Value | None) -> Value:
    """Codes without their zero point, which a run may compute, as f32."""
    if point is None or is_known(point):
        return dequantize(emit, src, Scale(ONE, point))
    ends = [src, np.ones(1, np.float32), reshape(emit, point, numbers(1))]
    return emit.op("DynamicDequantize", ends, {"qtype": "per_tensor"})


def _by_row(emit: Emitter, zero: Value) -> Value:
    """The zero point of src as f32, or those of its rows."""
    shape = shape_of(zero)
    is_one = shape in ((), (1,))
    if is_one or rank_of(zero) == 1:
        zero = reshape(emit, zero, numbers() if is_one else numbers(-1, 1))
    return cast(emit, zero, F32)


def _exact_parts(weights: IntegerWeights, product: Product) -> list[tuple[int, int]]:
    """Ranges of the depth, over each of which f32 holds all terms of the product exactly."""
    operands, rank = [weights.codes.astype(np.int64), weights.numbers(product.columns)], weights.codes.ndim
    if weights.zeros is not None:
        operands.append(np.broadcast_to(np.abs(_along(weights.zeros, rank, product.columns)), weights.codes.shape))
    axes = product.columns % rank, product.depth[1] % rank
    summed = tuple([axis for axis in range(rank) if axis not in axes])
    # Positive and negative numbers by depth and column: src has no negative ones, or none larger than 128.
    sides = [side.sum(summed) for codes in operands for side in (np.maximum(codes, 0), np.maximum(-codes, 0))]
    sizes = np.stack([side if axes[0] > axes[1] else side.T for side in sides], -1) * MOST
    ranges, begin, total = list[tuple[int, int]](), 0, np.zeros(sizes.shape[1:], np.int64)
    for place, size in enumerate(sizes):
        if place > begin and (total + size).max(initial=0) >= EXACT:
            ranges.append((begin, place))
            begin, total = place, np.zeros_like(total)
        total = total + size
    return [*ranges, (begin, len(sizes))] if len(sizes) else ranges


def _of_unknown(
    emit: Emitter, src: Value, weights: Value, src_zero: Value | None, zero: Value | None, product: Product
) -> Value:
    """The product by weights that a run gives, in f32."""
    shape = shape_of(weights)
    assert shape is not None
    axis, rank = product.depth[1] % len(shape), len(shape)
    inner = [dim for place, dim in enumerate(shape) if place not in (axis, product.columns % rank)]
    if None in inner and product.depth[0] > 0:
        raise Unsettled("the number of products of a sum is unknown")
    depth, channel_size = known_dims(shape)[axis], prod(known_dims(tuple(inner))) if product.depth[0] > 0 else 1
    most = (EXACT - 1) // (_most(src, src_zero) * _most(weights, zero) * max(channel_size, 1))
    if not most or not depth:
        raise NotLowered("sums that f32 does not hold exactly" if depth else "no products")
    total: Value | None = None
    for begin in range(0, depth, most):
        first, second, end = src, weights, min(begin + most, depth)
        if end - begin < depth:
            first = slice_(emit, first, [begin], [end], [product.depth[0] % known_rank(src)])
            second = slice_(emit, second, [begin], [end], [axis])
        image = _without_zero(emit, first, None if src_zero is None else (src_zero, -2))
        kernel = _without_zero(emit, second, None if zero is None else (zero, product.columns))
        part = as_integers(emit, product.multiply(emit, image, kernel))
        total = part if total is None else binary(emit, "Add", total, part)
    assert total is not None
    return total


def _most(codes: Value, zero: Value | None) -> int:
    """The largest absolute value of codes without their zero point."""
    return MOST // 2 if zero is None and dtype_of(codes) is DataType.s8 else MOST - 1


def _without_zero(emit: Emitter, src: Value, zero: tuple[Value, int] | None) -> Value:
    """8-bit integers minus their zero point, or those along an axis, as f32."""
    if zero is not None and rank_of(zero[0]) != 0 and shape_of(zero[0]) != (1,):
        points, axis = zero
        if rank_of(points) == 1:
            rank = known_rank(src)
            points = reshape(emit, points, numbers(-1, *[1] * (rank - 1 - axis % rank)))
        return binary(emit, "Subtract", cast(emit, src, F32), cast(emit, points, F32))
    return dequantize(emit, src, Scale(ONE, None if zero is None else reshape(emit, zero[0], numbers())))


def as_integers(emit: Emitter, src: Value) -> Value:
    """Integers in f32 as s32; a cast back to f32 takes them without another step."""
    integers_ = cast(emit, src, DataType.s32)
    if not is_known(integers_):
        emit.same_as[id(integers_)] = integers_, src
    return integers_


# Two kinds of products ------------------------------------------------------------------------------------------------


def integer_matmul(emit: Emitter, src: Value, weights: Value, src_zero: Value | None, zero: Value | None) -> Value:
    """The exact product of 8-bit integers (..., rows, depth) and (..., depth, columns), as s32."""
    if rank_of(src) == 1 or rank_of(weights) == 1:
        return _of_vectors(emit, src, weights, src_zero, zero)
    product = Product(
        (-1, -2),
        -1,
        multiply=matmul,
        src_sums=lambda emit, src, point, codes: _row_sums(emit, src, point, codes.shape[-2]),
        weight_sums=lambda numbers: numbers.sum(-2, keepdims=True),
        by_column=lambda values: values,
    )
    return integer_product(emit, src, weights, src_zero, zero, product)


def _row_sums(emit: Emitter, src: Value, point: Value | None, depth: int) -> Value:
    """The sums of rows without their zero point. Another reader of the Dequantize would keep it out of the product."""
    sums = reduce(emit, "ReduceSum", cast(emit, src, F32), [known_rank(src) - 1], keep=True)
    if point is None:
        return sums
    return binary(emit, "Subtract", sums, multiply(emit, cast(emit, point, F32), np.array(depth, np.float32)))


def _of_vectors(emit: Emitter, src: Value, weights: Value, src_zero: Value | None, zero: Value | None) -> Value:
    """The product where one of the tensors has no rows or no columns, as in numpy.matmul."""
    left, right = shape_of(src), shape_of(weights)
    if not known(left) or not known(right):
        raise Unsettled("the dims of a product with a vector are unknown")
    rows = src if len(left) > 1 else reshape(emit, src, numbers(1, -1))
    columns = weights if len(right) > 1 else reshape(emit, weights, numbers(-1, 1))
    sums = integer_matmul(emit, rows, columns, src_zero, zero)
    batch, ends = max(left[:-2], right[:-2], key=len), [*left[-2:-1], *right[-1:]]
    ends = ends if len(right) > 1 else ends[:-1]
    return reshape(emit, sums, numbers(*batch, *ends))


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
    """The exact convolution of 8-bit integers, as s32: src (N, C, X), weights (O, I, X)."""
    shape = shape_of(weights)
    if not known(shape):
        raise Unsettled("the number of products of a sum is unknown")
    kernel = shape[2:]
    is_padded = any(window.begin) or any(window.end) or window.auto_pad.startswith("SAME")

    def sums_of_src(emit: Emitter, src: Value, point: Value | None, codes: Array) -> Value:
        image = _image(emit, src, point)
        kernel_of_ones = np.ones((1 if groups == 1 else len(codes), *codes.shape[1:]), np.int8)
        return convolution(emit, image, dequantize(emit, kernel_of_ones, Scale(ONE)), None, window, groups=groups)

    def sums_of_weights(numbers: Array) -> Array:
        taps = numbers.sum(1)
        if not is_padded:
            return np.asarray(taps.reshape(len(taps), -1).sum(1).reshape(len(taps), *[1] * len(kernel)))
        dims = spatial(src)
        if dims is None:
            raise Unsettled("the windows beyond the ends depend on unknown dims")
        return _inside(taps, dims, window.settled(dims, kernel))

    product = Product(
        (1, 1),
        0,
        multiply=lambda emit, image, kernel: convolution(emit, image, kernel, None, window, groups=groups),
        src_sums=sums_of_src,
        weight_sums=sums_of_weights,
        by_column=lambda values: _along(values, len(kernel) + 1, 0),
        varies=is_padded and is_open(spatial(src) or ()),
    )
    if groups == 1 or _is_one_part(weights, zero, product):
        return integer_product(emit, src, weights, src_zero, zero, product)
    size = shape[0] // groups
    images, kernels = split(emit, src, [shape[1]] * groups, 1), split(emit, weights, [size] * groups, 0)
    if zero is None or shape_of(zero) in ((), (1,)):
        zeros = [zero] * groups
    else:
        # One of an unknown number may be that of all columns.
        zeros = [*split(emit, expand(emit, zero, [shape[0]]), [size] * groups, 0)]
    parts = [
        integer_convolution(emit, image, kernel, src_zero, point, window, groups=1)
        for image, kernel, point in zip(images, kernels, zeros, strict=True)
    ]
    return concat(emit, parts, 1)


def _is_one_part(weights: Value, zero: Value | None, product: Product) -> bool:
    """Whether all terms of a product are exact without cutting its depth."""
    if isinstance(weights, np.ndarray) and (zero is None or isinstance(zero, np.ndarray)):
        return len(_exact_parts(_signed(weights, zero, product.columns), product)) == 1
    return prod(known_dims(shape_of(weights))[1:]) * (MOST - 1) ** 2 < EXACT


def _inside(taps: Array, dims: Sequence[int], window: Window) -> Array:
    """The sum of the taps (columns, window) that lie inside an image, for each of its windows."""
    for axis, (size, length) in enumerate(zip(dims, taps.shape[1:], strict=True)):
        step, apart, begin = window.strides[axis], window.dilations[axis], window.begin[axis]
        count = (size + begin + window.end[axis] - (length - 1) * apart - 1) // step + 1
        places = np.arange(count)[:, None] * step - begin + np.arange(length) * apart
        is_inside = (places >= 0) & (places < size)
        taps = np.asarray(np.tensordot(taps, is_inside.astype(np.int64), ([1], [1])))
    return taps
