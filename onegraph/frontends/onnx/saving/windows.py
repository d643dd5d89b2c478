"""Writes the ops with sliding windows: convolutions, pools, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ....opset.dtypes import DataType
from ....opset.ops.pooling import PoolGeometry, pool_geometry
from ....opset.schema import Call
from ....opset.signature import Shape
from ....opset.window import channels, given_shape, spatial
from .body import NodeValue
from .quantization import coded_bias
from .table import channels_back, channels_first, composes, known_dims_of, writes

AUTO_PAD = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID", "none": "NOTSET"}


def padded(src: NodeValue, begin: Sequence[int], end: Sequence[int], fill: float = 0.0) -> NodeValue:
    """Activations (N, C, X) with elements before and after each spatial axis; negative numbers cut."""
    if not any((*begin, *end)):
        return src
    pads = src.body.numbers(0, 0, *begin, 0, 0, *end)
    return src.op("Pad", pads, src.body.scalar(fill, src.dtype))


def _spatial_last(weights: NodeValue, weights_format: str, rank: int) -> NodeValue:
    if not weights_format.startswith("X"):
        return weights
    return weights.transpose((rank - 1, rank - 2, *range(rank - 2)))


def _spatial_back(weights: NodeValue, weights_format: str, rank: int) -> NodeValue:
    if not weights_format.startswith("X"):
        return weights
    return weights.transpose((*range(2, rank), 1, 0))


def _geometry(call: Call) -> ConvolutionGeometry:
    geometry = convolution_geometry(call)
    if geometry is None:
        known_dims_of(call, None, call.schema.inputs[0].name)
    assert geometry is not None
    return geometry


def _convolved(
    call: Call,
    geometry: ConvolutionGeometry,
    src: NodeValue,
    weights: NodeValue,
    bias: NodeValue | None,
    cut: Sequence[int],
) -> NodeValue:
    """The narrow tensor; ``cut`` elements at the end of each axis of src are not read."""
    rank = len(geometry.axes) + 2
    attrs: dict[str, Any] = {
        "strides": geometry.strides,
        "dilations": geometry.dilations,
        "group": geometry.groups,
    }
    data = channels_first(src, geometry.data_format, rank)
    if geometry.pads_begin is None:
        if max(geometry.dilations) > 1:  # ONNX Runtime has no such node
            known_dims_of(call, None, "the padding")
        attrs["auto_pad"] = AUTO_PAD[call.string("auto_pad")]
    else:
        assert geometry.pads_end is not None
        pads = [*geometry.pads_begin, *(end - one for end, one in zip(geometry.pads_end, cut, strict=True))]
        if min(pads) < 0:
            data = padded(data, pads[: rank - 2], pads[rank - 2 :])
        else:
            attrs["pads"] = pads
    kernel = _spatial_last(weights, geometry.weights_format, rank)
    result = data.op("Conv", kernel, coded_bias(bias, data, kernel), **attrs)
    return channels_back(result, geometry.data_format, rank)


@writes("Convolution")
def convolution(call: Call, src: NodeValue, weights: NodeValue, bias: NodeValue | None = None) -> NodeValue:
    geometry = _geometry(call)
    return _convolved(call, geometry, src, weights, bias, [0] * len(geometry.axes))


@composes("ConvTransposeBackwardData")
def conv_transpose_backward_data(call: Call, diff_dst: NodeValue, weights: NodeValue) -> NodeValue:
    geometry = _geometry(call)
    known_dims_of(call, geometry.pads_begin, "the padding")  # a Conv has a window for elements at the end, too
    return _convolved(call, geometry, diff_dst, weights, None, geometry.output_padding)


def _transposed(
    geometry: ConvolutionGeometry, src: NodeValue, weights: NodeValue, bias: NodeValue | None, added: Sequence[int]
) -> NodeValue:
    """The wide tensor, with ``added`` elements at the end of each axis."""
    rank = len(geometry.axes) + 2
    begin, end = geometry.pads_begin, geometry.pads_end
    assert begin is not None
    assert end is not None
    attrs: dict[str, Any] = {
        "strides": geometry.strides,
        "dilations": geometry.dilations,
        "group": geometry.groups,
    }
    data = channels_first(src, geometry.data_format, rank)
    kernel = _spatial_last(weights, geometry.weights_format, rank)
    fits = all(
        0 <= one < max(pair)
        for one, pair in zip(added, zip(geometry.strides, geometry.dilations, strict=True), strict=True)
    )
    if fits and min((*begin, *end)) >= 0:
        made = data.op("ConvTranspose", kernel, bias, pads=(*begin, *end), output_padding=added, **attrs)
    else:  # the whole result is computed, and cut or extended
        whole = data.op("ConvTranspose", kernel, **attrs)
        made = padded(whole, [-one for one in begin], [one - cut for one, cut in zip(added, end, strict=True)])
        made = made if bias is None else made + bias.reshape(-1, *[1] * (rank - 2))
    return channels_back(made, geometry.data_format, rank)


@writes("ConvTranspose")
def conv_transpose(call: Call, src: NodeValue, weights: NodeValue, bias: NodeValue | None = None) -> NodeValue:
    geometry = _geometry(call)
    known_dims_of(call, geometry.pads_begin, "the padding")
    return _transposed(geometry, src, weights, bias, geometry.output_padding)


@composes("ConvolutionBackwardData")
def convolution_backward_data(
    call: Call, diff_dst: NodeValue, weights: NodeValue, dst_shape: object = None
) -> NodeValue:
    geometry = _geometry(call)
    known_dims_of(call, geometry.pads_begin, "the padding")
    known_dims_of(call, geometry.kernel, "the weights")
    wide = known_dims_of(call, geometry.wide, "diff_src")
    narrow = known_dims_of(call, geometry.narrow, "diff_dst")
    windows = [geometry.window(axis) for axis in geometry.axes]
    added = [
        size - window.transposed(count)
        for size, window, count in zip(wide, windows, narrow, strict=True)
        if window is not None
    ]
    return _transposed(geometry, diff_dst, weights, None, added)


def _gradient_of_weights(call: Call, wide: NodeValue, narrow: NodeValue) -> NodeValue:
    """The gradient of the weights: a convolution of the wide tensor with the narrow one, in which batch and channels
    change places, and so do strides and dilations."""
    geometry = _geometry(call)
    rank, groups = len(geometry.axes) + 2, geometry.groups
    kernel = known_dims_of(call, geometry.kernel, "the weights")
    sizes = known_dims_of(call, geometry.wide, "the source")
    counts = known_dims_of(call, geometry.narrow, "diff_dst")
    begin = known_dims_of(call, geometry.pads_begin, "the padding")
    batch, outer = known_dims_of(call, (geometry.batch, geometry.wide_channels), "the source")
    data, filters = (channels_first(one, geometry.data_format, rank) for one in (wide, narrow))
    axes = range(2, rank)
    part = outer // groups
    # (N, G * I, X) becomes (I, G * N, X).
    data = data.reshape(batch, groups, part, *sizes).transpose((2, 1, 0, *(axis + 1 for axis in axes)))
    data = data.reshape(part, groups * batch, *sizes)
    # The end is padded or cut so that there are as many results as kernel elements.
    end = [
        (kernel[axis] - 1) * geometry.dilations[axis]
        + (counts[axis] - 1) * geometry.strides[axis]
        + 1
        - sizes[axis]
        - begin[axis]
        for axis in geometry.axes
    ]
    attrs: dict[str, Any] = {"strides": geometry.dilations, "dilations": geometry.strides, "group": groups}
    weights = filters.transpose((1, 0, *axes))
    made = padded(data, begin, end).op("Conv", weights, **attrs)
    return _spatial_back(made.transpose((1, 0, *axes)), geometry.weights_format, rank)


@composes("ConvolutionBackwardWeights")
def convolution_backward_weights(
    call: Call, src: NodeValue, diff_dst: NodeValue, weights_shape: object = None
) -> NodeValue:
    return _gradient_of_weights(call, src, diff_dst)


@composes("ConvTransposeBackwardWeights")
def conv_transpose_backward_weights(
    call: Call, src: NodeValue, diff_dst: NodeValue, weights_shape: object = None
) -> NodeValue:
    return _gradient_of_weights(call, diff_dst, src)


# Pools ---------------------------------------------------------------------------------------------------------------


def _pool(call: Call) -> PoolGeometry:
    geometry = pool_geometry(call)
    if geometry is None:
        known_dims_of(call, None, call.schema.inputs[0].name)
    assert geometry is not None
    return geometry


def _lists(call: Call, geometry: PoolGeometry) -> dict[str, Any]:
    attrs: dict[str, Any] = {"kernel_shape": call.s64s("kernel"), "strides": call.s64s("strides")}
    if call.schema.has_attribute("dilations"):
        attrs["dilations"] = call.s64s("dilations", len(geometry.sizes))
    return attrs


def _ends(geometry: PoolGeometry) -> list[tuple[int, int]] | None:
    """The padding of each axis with which rounding down gives the number of windows; None if a size is unknown."""
    ends = []
    for axis, (window, size, count) in enumerate(zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)):
        covering = geometry.covering(axis)
        if covering is None:
            return None
        assert window is not None
        assert size is not None
        ends.append((window.begin, max(window.end if window.forward(size) == count else covering.end, covering.end)))
    return ends


def _known_ends(call: Call, geometry: PoolGeometry) -> tuple[list[int], list[int]]:
    """The padding before and after the elements of each axis."""
    ends = _ends(geometry)
    if ends is None:
        known_dims_of(call, None, "diff_dst")
    assert ends is not None
    return [one for one, _ in ends], [one for _, one in ends]


def _pooled(call: Call, src: NodeValue, kind: str, fill: float, **more: Any) -> NodeValue:
    geometry = _pool(call)
    rank, attrs = len(geometry.sizes) + 2, _lists(call, geometry)
    data = channels_first(src, geometry.data_format, rank)
    ends = _ends(geometry)
    if ends is None and call.string("auto_pad") != "none":
        skips = any(step > window for step, window in zip(call.s64s("strides"), call.s64s("kernel"), strict=True))
        if skips and call.string("auto_pad") != "valid":
            # ONNX Runtime then computes negative padding.
            known_dims_of(call, None, "src")
        attrs["auto_pad"] = AUTO_PAD[call.string("auto_pad")]
    elif ends is None:
        attrs["ceil_mode"] = is_ceil = int(call.string("rounding_type") == "ceil")
        if is_ceil and more.get("count_include_pad"):
            # ONNX divides by fewer elements where a window reaches beyond the padding.
            known_dims_of(call, None, "src")
        pads = [*zip(call.s64s("pads_begin"), call.s64s("pads_end"), strict=True)]
        if _is_refused(pads, call.s64s("kernel")):
            data = padded(data, [one for one, _ in pads], [one for _, one in pads], fill)
        else:
            attrs["pads"] = (*call.s64s("pads_begin"), *call.s64s("pads_end"))
    elif _is_refused(ends, call.s64s("kernel")):
        # Nodes take no negative padding, and none as large as the kernel.
        data = padded(data, [one for one, _ in ends], [one for _, one in ends], fill)
    else:
        attrs["pads"] = (*(one for one, _ in ends), *(one for _, one in ends))
    return channels_back(data.op(kind, **attrs, **more), geometry.data_format, rank)


def _is_refused(ends: Sequence[tuple[int, int]], kernel: Sequence[int]) -> bool:
    return any(not 0 <= one < size for pair, size in zip(ends, kernel, strict=True) for one in pair)


@writes("AvgPool")
def avg_pool(call: Call, src: NodeValue) -> NodeValue:
    included = not call.flag("exclude_pad")
    return _pooled(call, src, "AveragePool", 0.0, count_include_pad=int(included))


@writes("MaxPool")
def max_pool(call: Call, src: NodeValue) -> NodeValue:
    return _pooled(call, src, "MaxPool", -math.inf)


def _sizes(call: Call, geometry: PoolGeometry, shape: Shape, data_format: str) -> tuple[int, ...]:
    """The shape of the source as (N, C, X)."""
    dims = known_dims_of(call, shape, "the source")
    return known_dims_of(call, (dims[0], channels(dims, data_format), *spatial(dims, data_format)), "the source")


@composes("MaxPoolBackward")
def max_pool_backward(call: Call, src: NodeValue, diff_dst: NodeValue) -> NodeValue:
    geometry = _pool(call)
    rank, body = len(geometry.sizes) + 2, src.body
    shape = _sizes(call, geometry, call.shape("src"), geometry.data_format)
    begin, end = _known_ends(call, geometry)
    # The padding is part of the tensor here; what a window of padding alone gives to it is cut off at the end.
    data = padded(channels_first(src, geometry.data_format, rank), begin, end, -math.inf)
    wide = (*shape[:2], *(size + b + e for size, b, e in zip(shape[2:], begin, end, strict=True)))
    _, places = body.nodes_results("MaxPool", [data], [data.dtype, DataType.s64], "", **_lists(call, geometry))
    gradient = channels_first(diff_dst, geometry.data_format, rank).reshape(-1)
    zeros = body.scalar(0.0, src.dtype).op("Expand", body.numbers(math.prod(wide)))
    spread = zeros.op("ScatterElements", places.reshape(-1), gradient, axis=0, reduction="add").reshape(*wide)
    return channels_back(padded(spread, [-one for one in begin], [-one for one in end]), geometry.data_format, rank)


@composes("AvgPoolBackward")
def avg_pool_backward(call: Call, diff_dst: NodeValue, src_shape: object = None) -> NodeValue:
    geometry = _pool(call)
    rank, body = len(geometry.sizes) + 2, diff_dst.body
    shape = given_shape(call)
    gradient = call.shape("diff_dst")
    known_dims_of(call, shape, "diff_src")
    known_dims_of(call, gradient, "diff_dst")
    sizes = _sizes(call, geometry, shape, geometry.data_format)
    counts = _sizes(call, geometry, gradient, geometry.data_format)
    kernel = call.s64s("kernel")
    begin, end = _known_ends(call, geometry)
    # Every channel is an image of its own, so that one filter of ones spreads all of them.
    images = channels_first(diff_dst, geometry.data_format, rank).reshape(-1, 1, *counts[2:])
    ones = body.scalar(1.0, diff_dst.dtype)
    filters = ones.op("Expand", body.numbers(1, 1, *kernel))
    strides = call.s64s("strides")
    if call.flag("exclude_pad"):
        source = padded(ones.op("Expand", body.numbers(1, 1, *sizes[2:])), begin, end)
        divisor = source.op("Conv", filters, strides=strides)
    else:
        divisor = body.scalar(float(math.prod(kernel)), diff_dst.dtype)
    spread = (images / divisor).op("ConvTranspose", filters, strides=strides)
    reach = [(count - 1) * step + size for count, step, size in zip(counts[2:], strides, kernel, strict=True)]
    cut = [size + b - whole for size, b, whole in zip(sizes[2:], begin, reach, strict=True)]
    made = padded(spread, [-one for one in begin], cut).reshape(*sizes)
    return channels_back(made, geometry.data_format, rank)
