"""Lowers convolutions and pools: what moves a window over the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._util.records import record
from ..opset.dtypes import DataType
from ..opset.shapes import known, known_dims
from .elementwise import add, multiply, unary
from .emitter import Array, Emitter, Unsettled, Value, dtype_of, numbers, shape_of
from .movement import NATIVE, padded, part, reshape, transpose


@record(frozen=True)
class Window:
    """The geometry of a window, with one number for each spatial axis.

    Attributes:
        strides, dilations: distances of the windows, and of the elements of one window.
        begin, end: padding before and after each axis.
        auto_pad: ``None``, ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``; all but ``None`` replace the padding.
    """

    strides: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    dilations: Sequence[int]
    auto_pad: str = "None"

    def attrs(self, **more: object) -> dict[str, object]:
        """The attributes of an op with this window over (N, C, X)."""
        return {
            "strides": [*self.strides],
            "pads_begin": [*self.begin],
            "pads_end": [*self.end],
            "auto_pad": self.auto_pad,
            "data_format": "NCX",
            **more,
        }

    def settled(self, dims: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> Window:
        """The same window with explicit padding for spatial axes of these sizes.

        With ``ceil``, a last window that is partly behind the padding counts, unless it starts behind the elements.
        """
        begin, end = [], []
        for axis, (size, length) in enumerate(zip(dims, kernel, strict=True)):
            step, reach = self.strides[axis], (length - 1) * self.dilations[axis] + 1
            first, last = self.begin[axis], self.end[axis]
            if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
                total = max((-(-size // step) - 1) * step + reach - size, 0)
                small, large = total // 2, total - total // 2
                first, last = (small, large) if self.auto_pad == "SAME_UPPER" else (large, small)
            elif self.auto_pad == "VALID":
                first = last = 0
            if ceil:
                count = -(-(size + first + last - reach) // step) + 1
                count -= (count - 1) * step >= size + first
                last = max((count - 1) * step + reach - size - first, 0)
            begin.append(first)
            end.append(last)
        return replace(self, begin=begin, end=end, auto_pad="None")


def spatial(value: Value) -> list[int] | None:
    """The sizes of the spatial axes of (N, C, X); None if one is unknown."""
    dims = shape_of(value)
    dims = None if dims is None else dims[2:]
    return [*dims] if known(dims) else None


def _spatial_for(value: Value, why: str, needed: bool) -> list[int] | None:
    """:func:`spatial`, and Unsettled if a size is unknown that the lowering needs."""
    dims = spatial(value)
    if dims is None and needed:
        raise Unsettled(f"{why} depends on unknown dims")
    return dims


def convolution(
    emit: Emitter, src: Value, weights: Value, bias: Value | None, window: Window, *, groups: int = 1
) -> Value:
    """A convolution of src (N, C, X) with weights (O, I, X)."""
    if (frames := _of_frames(emit, src, weights, bias, window, groups)) is not None:
        return frames
    attrs = window.attrs(dilations=[*window.dilations], groups=groups, weights_format="OIX")
    return emit.op("Convolution", [src, weights, bias], attrs)


def _of_frames(
    emit: Emitter, src: Value, weights: Value, bias: Value | None, window: Window, groups: int
) -> Value | None:
    """A convolution of volumes with a channel in each group, as a sum of convolutions of their frames.

    The library has fast kernels with a channel in each group for images alone. None for other convolutions.
    """
    shape = known_dims(shape_of(src))  # 0 where it is unknown
    if len(shape) != 5 or 0 in shape or not isinstance(weights, np.ndarray) or window.strides[0] != 1:
        return None
    batch, channels, *dims = shape
    if not 1 != groups == channels == len(weights):
        return None
    if len(weights.shape) != 5 or min(window.strides) < 1 or min(window.dilations) < 1:
        return None
    window = window.settled(dims, weights.shape[2:])
    depth, apart, pads = weights.shape[2], window.dilations[0], (*window.begin, *window.end)
    count = dims[0] + window.begin[0] + window.end[0] - apart * (depth - 1)
    if count < 1 or not 0 <= min(pads) <= max(pads) <= max(dims):  # the op has better errors
        return None
    src = transpose(emit, src, (0, 2, 3, 4, 1))
    src = padded(emit, src, [0, window.begin[0], 0, 0, 0], [0, window.end[0], 0, 0, 0])
    inner = Window(window.strides[1:], window.begin[1:], window.end[1:], window.dilations[1:])
    attrs = {**inner.attrs(dilations=[*inner.dilations], groups=groups, weights_format="OIX"), "data_format": "NXC"}
    total: Value | None = None
    for place in range(depth):
        frames = part(emit, src, 1, place * apart, place * apart + count)
        frames = reshape(emit, frames, numbers(batch * count, *dims[1:], channels))
        ends = [frames, np.ascontiguousarray(weights[:, :, place]), None if place else bias]
        convolved = emit.op("Convolution", ends, attrs)
        total = convolved if total is None else add(emit, convolved, total)
    assert total is not None
    divided = reshape(emit, total, numbers(batch, count, *known_dims(shape_of(total))[1:]))
    return transpose(emit, divided, (0, 4, 1, 2, 3))


def convolution_transpose(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None,
    window: Window,
    *,
    output_padding: Sequence[int],
    groups: int = 1,
) -> Value:
    """A transposed convolution of src (N, C, X) with weights (I, O, X)."""
    attrs = window.attrs(
        dilations=[*window.dilations], groups=groups, weights_format="IOX", output_padding=[*output_padding]
    )
    return emit.op("ConvTranspose", [src, weights, bias], attrs)


def max_pool(emit: Emitter, src: Value, kernel: Sequence[int], window: Window, *, ceil: bool) -> Value:
    """The largest element of each window of src (N, C, X); 8-bit integers and float64 too.

    Raises:
        Unsettled: ``ceil`` is set or src is float64, and the spatial dims are unknown. ONNX and oneDNN count windows
            differently if ``ceil`` is set.
    """
    is_wide = dtype_of(src) is DataType.float64
    dims = _spatial_for(src, "the number of windows", ceil or is_wide)
    if dims is not None:
        window = window.settled(dims, kernel, ceil)
    if is_wide:
        return max_pool_places(emit, src, kernel, window)[0]
    attrs = window.attrs(kernel=[*kernel], dilations=[*window.dilations], rounding_type="floor")
    if dtype_of(src) in NATIVE:
        return emit.op("MaxPool", [src], attrs)
    # The library pools 8-bit integers between a Dequantize and a Quantize, which a scale of 1 makes exact.
    scale = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
    pooled = emit.op("MaxPool", [emit.op("Dequantize", [src], scale)], attrs)
    return emit.op("Quantize", [pooled], scale, dtype=dtype_of(src))


def max_pool_places(
    emit: Emitter, src: Value, kernel: Sequence[int], window: Window, column_major: bool = False
) -> tuple[Value, ...]:
    """The largest element of each window of src (N, C, X), and its place among all elements of src.

    Args:
        emit: adds the op.
        src: images with one to three spatial axes.
        kernel: the size of a window.
        window: its geometry, with explicit padding.
        column_major: whether places count the first spatial axis fastest.
    """
    attrs = {
        "kernel": [*kernel],
        "strides": [*window.strides],
        "pads_begin": [*window.begin],
        "pads_end": [*window.end],
        "dilations": [*window.dilations],
        "column_major": column_major,
    }
    return emit.ends("MaxPoolPlaces", [src], attrs)


def average_pool(
    emit: Emitter,
    src: Value,
    kernel: Sequence[int],
    window: Window,
    *,
    ceil: bool = False,
    exclude_pad: bool = True,
) -> Value:
    """The mean of each window of src (N, C, X), with the padding as elements unless ``exclude_pad``.

    Elements behind the padding, which ``ceil`` may add, never count.

    Raises:
        Unsettled: ``ceil`` is set or the window has gaps, and the spatial dims are unknown.
    """
    dilated = any(step != 1 for step in window.dilations)
    dims = _spatial_for(src, "the number of elements of a window", ceil or dilated)
    full_window = window
    if dims is not None:
        full_window = window.settled(dims, kernel, ceil)
        window = window.settled(dims, kernel)
    counts_end = [*full_window.end] != [*window.end] and not exclude_pad
    if not dilated and not counts_end:
        attrs = full_window.attrs(
            kernel=[*kernel],
            rounding_type="floor",
            exclude_pad=exclude_pad,
        )
        return emit.op("AvgPool", [src], attrs)
    assert dims is not None
    total = window_sum(emit, src, kernel, full_window)
    pads = ([0] * len(dims), [0] * len(dims)) if exclude_pad else (window.begin, window.end)
    counts = _counts(dims, kernel, full_window, pads)
    return multiply(emit, total, (1 / counts).astype(dtype_of(src).numpy))


def window_sum(emit: Emitter, src: Value, kernel: Sequence[int], window: Window) -> Value:
    """The sum of each window of src (N, C, X), as a convolution of each channel with ones.

    Raises:
        Unsettled: the number of channels is unknown.
    """
    shape = shape_of(src)
    channels = None if shape is None else shape[1]
    if channels is None:
        raise Unsettled("the number of channels is unknown")
    kernel_of_ones = np.ones((channels, 1, *kernel), dtype_of(src).numpy)
    return convolution(emit, src, kernel_of_ones, None, window, groups=channels)


def _counts(
    dims: Sequence[int], kernel: Sequence[int], window: Window, pads: tuple[Sequence[int], Sequence[int]]
) -> Array:
    """The number of elements in each window that are in src or in ``pads`` around it."""
    counts: Array = np.ones((1, 1), np.float64)
    for axis, (size, length) in enumerate(zip(dims, kernel, strict=True)):
        step, apart, begin = window.strides[axis], window.dilations[axis], window.begin[axis]
        count = (size + begin + window.end[axis] - (length - 1) * apart - 1) // step + 1
        places = np.arange(count)[:, None] * step - begin + np.arange(length) * apart
        inside = (places >= -pads[0][axis]) & (places < size + pads[1][axis])
        counts = counts[..., None] * inside.sum(1)
    return counts


def lp_pool(emit: Emitter, src: Value, kernel: Sequence[int], window: Window, power: int, *, ceil: bool) -> Value:
    """The p-norm of each window of src (N, C, X).

    Raises:
        Unsettled: ``ceil`` is set and the spatial dims are unknown, or the number of channels is unknown.
    """
    dims = _spatial_for(src, "the number of windows", ceil)
    full_window = window if dims is None else window.settled(dims, kernel, ceil)
    base = unary(emit, "Square", src) if power == 2 else unary(emit, "Abs", src)
    if power > 2:
        base = unary(emit, "Pow", base, {"beta": float(power)})
    total = window_sum(emit, base, kernel, full_window)
    return root(emit, total, power)


def root(emit: Emitter, src: Value, power: int) -> Value:
    """The p-th root."""
    if power == 1:
        return src
    return unary(emit, "Sqrt", src) if power == 2 else unary(emit, "Pow", src, {"beta": 1 / power})
