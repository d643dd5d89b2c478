"""Attributes of convolutions and pools that the examples start from, and windows that kernels copy wrong."""

from __future__ import annotations

from ...opset import kinds
from ...opset.convolution_geometry import ConvolutionGeometry
from ...opset.window import AxisWindow

FORWARD = "Convolution ConvTranspose"
DATA_GRADIENTS = "ConvolutionBackwardData ConvTransposeBackwardData"
WEIGHT_GRADIENTS = "ConvolutionBackwardWeights ConvTransposeBackwardWeights"
CONVOLUTIONS = f"{FORWARD} {DATA_GRADIENTS} {WEIGHT_GRADIENTS}"
POOLS = " ".join(sorted(kinds.in_category("pooling")))
Attrs = dict[str, object]

NCX: Attrs = {"data_format": "NCX"}
ROW: Attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
IMAGE: Attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
VOLUME: Attrs = {"strides": [1] * 3, "pads_begin": [0] * 3, "pads_end": [0] * 3, "dilations": [1] * 3}
POOL: Attrs = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
AVERAGE: Attrs = {**POOL, "exclude_pad": True}


def copies_wrong(geometry: ConvolutionGeometry) -> bool:
    """Whether a kernel that copies the source goes wrong: one column of windows with strides, or a padded single plane.

    With strides on the last axis and one column in the result, it copies too few elements of the next rows, or too
    many. Of a source one deep with padding before it, it copies elements that are not there.
    """
    kernel, pads = geometry.kernel, geometry.pads_begin
    if len(geometry.strides) < 2 or kernel is None or pads is None or kernel[-1] == 1:
        return False
    if geometry.strides[-1] != 1 and geometry.forward()[-1] == 1:
        return True
    return len(kernel) == 3 and geometry.wide is not None and geometry.wide[0] == 1 and kernel[0] != 1 and pads[0] > 0


def differs_undilated(geometry: ConvolutionGeometry, axis: int) -> bool:
    """Whether the windows along an axis would read other elements with dilation 1."""
    window = geometry.window(axis)
    size = None if geometry.wide is None else geometry.wide[axis]
    if window is None or size is None:
        return geometry.dilations[axis] != 1
    if 1 in (window.kernel, window.dilation):
        return False
    count = window.forward(size)
    if int((size + window.begin + window.end - window.kernel) / window.stride) + 1 != count:
        return True
    starts = range(-window.begin, count * window.stride - window.begin, window.stride)
    moved = ((start + place, start + place * window.dilation) for start in starts for place in range(1, window.kernel))
    return any(0 <= place < size for pair in moved for place in pair)


def misses_source(window: AxisWindow, size: int, count: int) -> bool:
    """Whether one of ``count`` windows has no element in a source of ``size`` elements."""
    last = (count - 1) * window.stride - window.begin
    if last >= size or window.begin > (window.kernel - 1) * window.dilation:  # the first window ends before the source
        return True
    # Windows that begin before the source reach it at this place, which repeats after as many windows as the dilation.
    starts = range(-window.begin, last + 1, window.stride)[: window.dilation]
    return any(start % window.dilation >= size for start in starts)


def leaves_gaps(window: AxisWindow, size: int, count: int) -> bool:
    """Whether one of ``size`` elements lies in none of ``count`` windows."""
    first: dict[int, list[int]] = {}  # where each element of the first window is, by its distance in strides
    for place in range(-window.begin, window.extent - window.begin, window.dilation):
        first.setdefault(place % window.stride, []).append(place)
    if len([rest for rest in first if rest < size]) < min(window.stride, size):
        return True
    for rest, places in first.items():
        covered = rest  # the first place at this distance that no element has covered so far
        for place in places:
            covered = max(covered, place + count * window.stride) if place <= covered else covered
        if covered < size:
            return True
    return False
