"""Finds the few elements of the result of a convolution that show whether its weights or gradients are all finite.

What is NaN or infinite makes each sum of products NaN or infinite that it takes part in. A pixel whose window lies
inside of the image has all weights, and a place of the window that lies inside for all pixels has all pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..opset.convolution_geometry import SIDES, ConvolutionGeometry, convolution_geometry
from ..opset.kinds import base_kinds
from ..opset.traits import Trait
from ..opset.window import AxisWindow
from .ir.step import Step
from .ir.value import Value

# Ops behind a convolution that leave what is not finite as it is, or make it NaN.
TRANSPARENT = base_kinds(Trait.ADDS) | base_kinds(Trait.CASTS)
Span = tuple[int, int]  # the first element, and how many


def witnesses(step: Step, result: Value) -> Sequence[Value]:
    """Parts of the result of a convolution, one of them not finite if an element of its weights or gradients is not.

    Args:
        step: the convolution.
        result: its result, maybe behind ops that are ``TRANSPARENT``.
    """
    assert step.part is not None
    geometry, kind = convolution_geometry(step.part.call), step.kind
    if geometry is None or geometry.pads_begin is None or geometry.kernel is None:
        return ()
    if SIDES[kind][2] is None:
        return _of_gradient(geometry, result)
    spatial = result.shape[1:-1] if geometry.data_format == "NXC" else result.shape[2:]
    find = _inside if SIDES[kind][1] is None else _inside_transposed
    spans = [find(geometry, axis, size) for axis, size in enumerate(spatial)]
    channels = (0, result.shape[-1 if geometry.data_format == "NXC" else 1])
    return [_cut(result, [(0, 1), *spans, channels] if geometry.data_format == "NXC" else [(0, 1), channels, *spans])]


def _sizes(geometry: ConvolutionGeometry, axis: int) -> tuple[AxisWindow, int, int]:
    """The window along an axis, and the elements of wide and of narrow, of which that of the result may be unknown."""
    window = geometry.window(axis)
    assert window is not None
    wide, narrow = (None if sizes is None else sizes[axis] for sizes in (geometry.wide, geometry.narrow))
    return window, wide or 0, narrow or 0


def _inside(geometry: ConvolutionGeometry, axis: int, size: int) -> Span:
    """Pixels of narrow whose windows lie inside of wide; all pixels if there is none."""
    window, extent, _ = _sizes(geometry, axis)
    first = -(-max(window.begin, 0) // window.stride)
    last = first * window.stride - window.begin + (window.kernel - 1) * window.dilation
    return (first, 1) if first < size and last < extent else (0, size)


def _inside_transposed(geometry: ConvolutionGeometry, axis: int, size: int) -> Span:
    """Pixels of wide, as many as a stride has, to which narrow has an element at each place of the window."""
    window, _, count = _sizes(geometry, axis)
    first = max((window.kernel - 1) * window.dilation - window.begin, 0)
    last = first + window.stride - 1
    is_inside = last < size and last + window.begin <= (count - 1) * window.stride
    return (first, window.stride) if is_inside else (0, size)


def _of_gradient(geometry: ConvolutionGeometry, result: Value) -> Sequence[Value]:
    """Of a gradient by weights: all channels of narrow for one of wide, and the reverse."""
    is_last, n = geometry.weights_format.startswith("X"), len(geometry.strides)
    window = [_met(geometry, axis) for axis in range(n)]
    meetings = [_meeting(geometry, axis) for axis in range(n)]
    first, second = (n + 1, n) if is_last else (0, 1)  # the axes of the channels of narrow and of wide
    narrow, wide = (0, result.shape[first]), (0, result.shape[second])
    placed = [[narrow, (0, 1), *window], [(0, 1), wide, *meetings]]
    parts = []
    for outer, inner, *spans in placed:
        parts.append(_cut(result, [*spans, inner, outer] if is_last else [outer, inner, *spans]))
    groups, group_channels = (
        geometry.groups,
        result.shape[first] // geometry.groups,
    )  # one channel of narrow for each group
    strides = [*parts[1].strides]
    strides[first] *= group_channels
    shape = [*parts[1].shape]
    shape[first] = groups
    return [parts[0], parts[1]._replace(shape=tuple(shape), strides=tuple(strides))]


def _met(geometry: ConvolutionGeometry, axis: int) -> Span:
    """A place of the window that lies inside of wide for all elements of narrow; all places if there is none."""
    window, size, count = _sizes(geometry, axis)
    place = -(-max(window.begin, 0) // window.dilation)
    if place >= window.kernel:
        return 0, window.kernel
    last = (count - 1) * window.stride - window.begin + place * window.dilation
    return (place, 1) if last < size else (0, window.kernel)


def _meeting(geometry: ConvolutionGeometry, axis: int) -> Span:
    """A place of the window that meets all elements of wide; all places if there is none."""
    window, size, count = _sizes(geometry, axis)
    place, remainder = divmod(max(window.begin, 0), window.dilation)
    is_met = not remainder and window.stride == 1 and window.begin >= 0 and place < window.kernel
    return (place, 1) if is_met and size <= count else (0, window.kernel)


def _cut(value: Value, spans: Sequence[Span]) -> Value:
    """A part of a value."""
    offset = value.offset + sum(first * stride for (first, _), stride in zip(spans, value.strides, strict=True))
    return value._replace(shape=tuple([count for _, count in spans]), offset=offset)
