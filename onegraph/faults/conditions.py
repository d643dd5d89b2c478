"""When the library gets an op wrong: what the quirks ask of a call in base words."""

from __future__ import annotations

from math import factorial, gcd, prod

from ..opset.convolution_geometry import convolution_geometry as convolution_geometry
from ..opset.dtypes import DataType
from ..opset.ops.binary import slope_target
from ..opset.ops.normalization import begin_axis
from ..opset.ops.pooling import pool_geometry
from ..opset.ops.reduction import reduced_axes
from ..opset.schema import Call
from ..opset.shapes import compatible, known_dims, normalize_axis
from ..opset.window import Dim, Window, channel_axis, spatial

EXACT = 2**24  # up to which f32 holds every integer
# Ops that may be of integers.
INTEGRAL = frozenset(["Add", "GreaterEqual", "Subtract"])
SMALL_FACTORS = factorial(1000)  # every prime factor up to 1000
FEW = 4  # windows along an axis; one and two were seen to be computed wrong


def empty(call: Call) -> bool:
    """Whether a tensor that comes in has an axis of size 0."""
    return any(tensor is not None and tensor.shape is not None and 0 in tensor.shape for tensor in call.inputs)


def known_reduction(call: Call) -> tuple[int | None, ...]:
    """The sizes of the axes that a reduction goes over; none where they are not known."""
    axes, shape = reduced_axes(call), call.shape("src")
    return () if axes is None or shape is None else tuple(shape[axis] for axis in axes)


def rounded_wrong(call: Call) -> bool:
    """A pool that the library rounds up, and then clamps or divides otherwise than it says."""
    if call.string("rounding_type") != "ceil":
        return False
    same = call.string("auto_pad").startswith("same_")
    return same or (call.schema.kind == "AvgPool" and not call.flag("exclude_pad"))


def is_far(call: Call) -> bool:
    """Whether a window is moved, spread or padded by 2**31 elements or more."""
    lists = (call.s64s(name) for name in ("strides", "dilations", "pads_begin", "pads_end") if call.has(name))
    return any(value >= 1 << 31 for values in lists for value in values)


def misses_source(call: Call) -> bool:
    """Whether a window of a convolution may have no element of the source."""
    found = convolution_geometry(call)
    if found is None or found.wide is None:
        return False
    for axis, (size, count) in enumerate(zip(found.wide, found.forward(), strict=True)):
        window = found.window(axis)
        if window is None or size is None or count is None:
            continue
        last = (count - 1) * window.stride - window.begin
        if window.begin >= window.extent or last >= size or (window.dilation > size and window.begin > 0):
            return True
    return False


def ends_behind_source(call: Call) -> bool:
    """Whether the last windows of a convolution along its last axis lie behind the source."""
    found = convolution_geometry(call)
    window = found.window(-1) if found is not None else None
    if found is None or found.wide is None or window is None:
        return False
    count, size = found.forward()[-1], found.wide[-1]
    return count is not None and size is not None and (count - 1) * window.stride - window.begin >= size


def in_padding_alone(call: Call) -> bool:
    """Whether a window of a pool has no element of the source."""
    found = pool_geometry(call)
    if found is None:
        return False
    for window, size, count in zip(found.windows, found.sizes, found.counts, strict=True):
        if window is None:
            continue
        last = None if count is None else (count - 1) * window.stride - window.begin
        if window.begin >= window.extent or (last is not None and size is not None and last >= size):
            return True
        if size is not None and window.dilation > size and steps_over(window, size, count):
            return True
    return False


def steps_over(window: Window, size: int, count: Dim) -> bool:
    """Whether a window that starts in the padding has its elements before and behind the source alone."""
    starts = range(-window.begin, 0, window.stride)[:count]
    return len(starts) > 1 << 16 or any(start % window.dilation >= size for start in starts)


def overlapping(call: Call) -> bool:
    """Whether windows of a pool have elements in common."""
    found = pool_geometry(call)
    windows = () if found is None else found.windows
    return any(w is not None and w.kernel * gcd(w.stride, w.dilation) > w.stride for w in windows)


def slope_by_reference(call: Call) -> bool:
    """Whether the slope is neither one for each element nor one for each channel."""
    shape, slope = call.shape("src"), call.shape("slope")
    if shape is None or slope is None or not 2 <= len(shape) <= 4:
        return False
    axis = channel_axis(len(shape), call.string("data_format"))
    channels = tuple(dim if place == axis else 1 for place, dim in enumerate(shape))
    target = slope_target(call, slope, shape)
    return target != shape and (target != channels or channels[axis] == 1)


def in_low_precision(call: Call, index: int = 0) -> bool:
    """Whether the first input, or another one, is of bf16 or f16."""
    found = call.inputs[index] if call.inputs else None
    return found is not None and found.dtype in (DataType.bf16, DataType.f16)


def few_windows(call: Call) -> bool:
    """Whether a gradient in bf16 or f16 goes over few windows, further apart than one element, with padding."""
    src, diff_dst = call.shape("src"), call.shape("diff_dst")
    if src is None or diff_dst is None or not in_low_precision(call):
        return False
    padded = call.attr("auto_pad") != "none" or any((*call.s64s("pads_begin"), *call.s64s("pads_end")))
    fmt = call.string("data_format")
    sizes = zip(call.s64s("strides"), spatial(src, fmt), spatial(diff_dst, fmt), strict=False)
    return padded and any(stride > 1 and min(one or 0, other or 0) <= FEW for stride, one, other in sizes)


def strides_beyond_source(call: Call) -> bool:
    """Whether the strides of a convolution of few channels in bf16 or f16 are longer than the last axis of its source.

    Padding in front counts as part of the source.
    """
    found = convolution_geometry(call)
    if found is None or found.wide is None or found.groups > 1 or not in_low_precision(call):
        return False
    size, begin = found.wide[-1], found.pads_begin[-1] if found.pads_begin is not None else 0
    few = found.wide_channels is not None and found.wide_channels < 16
    return few and size is not None and size + begin < found.strides[-1]


def unread_as_padded(call: Call) -> bool:
    """Whether a convolution leaves as much unread at the end of the last axis as there is padding before it."""
    found = convolution_geometry(call)
    window = found.window(-1) if found is not None else None
    if found is None or found.wide is None or window is None or window.begin == 0:
        return False
    count, size = found.forward()[-1], found.wide[-1]
    return count is not None and size is not None and (count - 1) * window.stride + window.extent == size


def dilated_groups(call: Call) -> bool:
    """Whether the gradient of a convolution in groups has dilations on another axis than the last."""
    return call.s64("groups") > 1 and any(dilation > 1 for dilation in call.s64s("dilations")[:-1])


def no_window_inside(call: Call) -> bool:
    """Whether a gradient of three axes has padding in front, and no window in the source alone, where that is wrong.

    In bf16 that is the first or second axis. In f32 it is the first, with strides or with few windows.
    """
    found = convolution_geometry(call)
    first = call.inputs[0] if call.inputs else None
    if found is None or found.wide is None or len(found.strides) < 3:
        return False
    low = first is not None and first.dtype is not DataType.f32
    for axis, size in enumerate(found.wide[: 2 if low else 1]):
        window = found.window(axis)
        if window is None or size is None or window.begin == 0:
            continue
        inside = -window.begin % window.stride  # where the first window starts that starts in the source
        right_in_f32 = window.stride == 1 and window.begin <= window.forward(size)
        if inside + window.extent > size and (low or not right_in_f32):
            return True
    return False


def deep_at_both_ends(call: Call) -> bool:
    """Whether a window over depth, with strides, reaches behind the source right after one that reaches before it."""
    found = convolution_geometry(call)
    window = None if found is None or len(found.strides) != 3 else found.window(0)
    if found is None or window is None or found.wide is None or window.stride == 1:
        return False
    size, count = found.wide[0], found.narrow[0] if found.narrow is not None else None
    if size is None or count is None:
        return False
    first = max(1, (size + window.begin - window.extent) // window.stride + 1)  # but the first, that reaches behind
    return first < count and (first - 1) * window.stride < window.begin


def one_channel_strided(call: Call) -> bool:
    """Whether a convolution of one channel has strides on the last axis, and one column out or a source one deep.

    In bf16, with a source one deep, it needs no strides.
    """
    found = convolution_geometry(call)
    if found is None or found.wide_channels != found.groups or len(found.strides) < 2:
        return False
    if found.dilations[-1] > 1 or found.kernel is None or found.kernel[-1] == 1:
        return False
    strided = found.strides[-1] != 1
    if len(found.strides) == 3 and found.wide is not None and found.wide[0] == 1:
        return strided or in_low_precision(call)
    return strided and found.forward()[-1] == 1


def single_dilated(call: Call) -> bool:
    """Whether a convolution in bf16 or f16 has padding before the last axis, and dilations along it of one element."""
    found = convolution_geometry(call)
    if found is None or found.kernel is None or not in_low_precision(call):
        return False
    padded = found.pads_begin is not None and found.pads_begin[-1] > 0
    return padded and found.kernel[-1] == 1 and found.dilations[-1] > 1


def axis_below_last(call: Call) -> bool:
    """Whether a normalization goes over more than the last axis."""
    rank, begin = call.rank("src"), begin_axis(call)
    return rank is not None and begin != rank - 1


def broadcast_gamma(call: Call) -> bool:
    """Whether gamma is anything but one factor for each element of the last axis."""
    shape, gamma = call.shape("src"), call.shape("gamma")
    if not shape or gamma is None:
        return False
    return not compatible(gamma, (*[1] * (len(gamma) - 1), shape[-1]))


def one_narrow_scale(call: Call) -> bool:
    """Whether all is multiplied by one scale, which is not f32; of a single channel too."""
    scales = call.input("scales")
    if scales is None or scales.dtype is DataType.f32:
        return False
    return call.string("qtype") == "per_tensor" or (scales.shape is not None and set(scales.shape) <= {1})


def one_column(call: Call) -> bool:
    """Whether the last spatial axis of the source has size 1."""
    shape = call.shape("src")
    return shape is not None and spatial(shape, call.string("data_format"))[-1:] == (1,)


def over_one(call: Call) -> bool:
    """Whether a MatMul of rank 4 or more sums over an axis of size 1."""
    src, weights = call.shape("src"), call.shape("weights")
    if src is None or weights is None or max(len(src), len(weights)) < 4 or len(src) < 2:
        return False
    return src[-2 if call.flag("transpose_a") else -1] == 1


def batches_of_one_matrix(call: Call) -> bool:
    """Whether a MatMul of rank 4 is of batches along the first axis alone, with one matrix for all of them."""
    src, weights = call.shape("src"), call.shape("weights")
    if src is None or weights is None or len(src) != 4 or len(weights) > 4 or src[0] == 1 or src[1] != 1:
        return False
    turned = call.flag("transpose_a")
    if len(weights) == 2 and not turned:  # seen as one matrix by another
        return False
    return set(weights[:-2]) <= {1} and src[-1 if turned else -2] != 1


def bias_of_many_axes(call: Call) -> bool:
    """Whether the bias of a MatMul has more axes than the matrix that the library makes of its operands."""
    src, weights, bias = call.rank("src"), call.rank("weights"), call.rank("bias")
    if src is None or weights is None or bias is None:
        return False
    return (src > 2 and weights == 2 and bias > 2) or (1 in (src, weights) and bias > 1)


def wide_integers(call: Call) -> bool:
    """Whether integers come in that f32 may not hold, nor what becomes of them."""
    tensors = [tensor for tensor in call.inputs if tensor is not None and tensor.dtype is DataType.s32]
    bounds = [tensor.bound for tensor in tensors if tensor.bound is not None]
    return len(bounds) < len(tensors) or sum(bounds) > EXACT


def untyped_stats(call: Call) -> bool:
    """Statistics of a bf16 source that are not f32, with no gamma to say their type."""
    src = call.input("src")
    bf16 = src is not None and src.dtype is DataType.bf16
    as_f32 = call.output_type(1) is DataType.f32
    return bf16 and call.input("gamma") is None and call.flag("keep_stats") and not as_f32


def per_channel(call: Call) -> bool:
    """Whether a quantization has a scale for each channel."""
    return call.string("qtype") == "per_channel"


def per_group(call: Call) -> bool:
    """Whether a quantization has a scale for each group."""
    return call.string("qtype") == "per_group"


def has_long_side(call: Call) -> bool:
    """Whether there are 2**31 - 1 or more rows, columns or places of an image, in whatever order the axes are."""
    for tensor in call.inputs:
        dims = known_dims(None if tensor is None else tensor.shape)
        sides = (dims[:-1], dims[-1:], dims[1:-1], dims[2:])
        if any(prod(side) >= (1 << 31) - 1 for side in sides):
            return True
    return False


def has_large_factor(call: Call) -> bool:
    """Whether the size of an axis has a prime factor of 2**31 - 1 or more."""
    sizes = [dim or 0 for tensor in call.inputs if tensor is not None for dim in tensor.shape or ()]
    return any(_without_small_factors(size) >= (1 << 31) - 1 for size in sizes if size >= (1 << 31) - 1)


def _without_small_factors(size: int) -> int:
    """What is left of a number that is divided by what it has in common with all numbers up to 1000."""
    while (common := gcd(size, SMALL_FACTORS)) > 1:
        size //= common
    return size


def has_long_axis(call: Call) -> bool:
    """Whether the elements along one axis of a tensor take 2**32 bytes, or all but a block of them."""
    for tensor in call.inputs:
        if tensor is not None and tensor.dtype is not None:
            longest = max(known_dims(tensor.shape), default=0)
            if longest * tensor.dtype.numpy.itemsize >= (1 << 32) - 1024:
                return True
    return False


def has_long_rows(call: Call) -> bool:
    """Whether the last axis of the source is longer than 2**24."""
    shape = call.shape("src")
    return shape is not None and len(shape) > 0 and (shape[-1] or 0) > 1 << 24


def sums_one_by_one(call: Call) -> bool:
    """Whether more than 2**24 numbers make one of the results: a statistic, a row along the axis, a pixel, a weight."""
    shapes = [t.shape for t in call.inputs[:2] if t is not None and t.shape is not None]
    if not shapes or any(dim is None for shape in shapes for dim in shape):
        return False
    sizes, kind = [[dim or 0 for dim in shape] for shape in shapes], call.schema.kind
    first = sizes[0]
    if kind in ("SoftMax", "LogSoftmax"):
        axis = normalize_axis(call.s64("axis"), len(first))
        return axis is not None and first[axis] > EXACT and prod(first[axis + 1 :]) > 1
    if kind == "InterpolateBackward":
        return len(sizes) == 2 and prod(sizes[1]) > prod(first) * EXACT
    if kind == "ConvTransposeBackwardWeights" and call.s64("groups") == 1:
        return False
    channels = first[-1 if call.string("data_format") == "NXC" else 1] if len(first) > 1 else 0
    return prod(first) > channels * EXACT
