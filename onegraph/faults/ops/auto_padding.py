"""What oneDNN gets wrong of ``auto_pad`` in the gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.schema import Call
from ...opset.window import extent, split_padding
from ..fault import UNSAFE, Faults
from .windows import NCX, ROW

FAULTS = Faults[Call](where="auto_pad", severity=UNSAFE, instead="the same op with the pads that auto_pad stands for")


def _begins(call: Call, *, of_wide: bool) -> list[int] | None:
    """The pads in front by ``same_*`` of a Convolution over the wide side, or the narrow one; None if unknown."""
    geometry = convolution_geometry(call)
    sizes = None if geometry is None else geometry.wide if of_wide else geometry.narrow
    if geometry is None or sizes is None or geometry.kernel is None or geometry.pads_begin is None:
        return None
    begins = []
    for size, kernel, stride, dilation in zip(
        sizes, geometry.kernel, geometry.strides, geometry.dilations, strict=True
    ):
        if size is None or kernel is None:
            return None
        total = extent(kernel, dilation) - (size % stride or stride)
        begins.append(split_padding(total, call.string("auto_pad"))[0])
    return begins


def _padded_as(call: Call, *, of_wide: bool) -> bool:
    """Whether ``same_*`` of a Convolution over the wide side, or over the narrow one, pads in front otherwise."""
    if not call.string("auto_pad").startswith("same_"):
        return False
    begins, geometry = _begins(call, of_wide=of_wide), convolution_geometry(call)
    return geometry is None or begins != [*(geometry.pads_begin or ())]


def _shows(call: Call, *, of_wide: bool) -> bool:
    """Whether other padding changes the result: with one of the two, windows read the wide side along each axis."""
    return _padded_as(call, of_wide=of_wide) and (
        _reads_anything(call) or _reads_anything(call, _begins(call, of_wide=of_wide))
    )


def _reads_anything(call: Call, begins: Sequence[int] | None = None) -> bool:
    """Whether along each axis a window reads an element of the wide side, with these pads in front or its own."""
    geometry = convolution_geometry(call)
    if geometry is None or geometry.wide is None or geometry.narrow is None:
        return False
    windows = [geometry.window(axis) for axis in geometry.axes]
    nones: list[None] = [None] * len(windows)
    return all(
        window is not None
        and any(
            0
            <= start * window.stride + tap * window.dilation - (window.begin if begin is None else begin)
            < (wide or 0)
            for start in range(narrow or 0)
            for tap in range(window.kernel)
        )
        for window, wide, narrow, begin in zip(windows, geometry.wide, geometry.narrow, begins or nones, strict=True)
    )


def other_count(call: Call) -> bool:
    """Whether ``same_*`` of a Convolution over the wide side has another number of windows than the narrow side."""
    geometry = convolution_geometry(call)
    if not call.string("auto_pad").startswith("same_") or geometry is None:
        return False
    if geometry.wide is None or geometry.narrow is None:
        return False
    sizes = zip(geometry.wide, geometry.narrow, geometry.strides, strict=True)
    return any(wide is not None and narrow not in (None, -(-wide // stride)) for wide, narrow, stride in sizes)


PADDING_OF_BOTH_SIZES = FAULTS.add(
    "padding_of_both_sizes",
    ops="ConvolutionBackwardData",
    when=lambda call: other_count(call) or _padded_as(call, of_wide=True),
    seen={(3, 2): "wrong | throws could not create a primitive descriptor"},
    reason="the padding of auto_pad is computed from dst_shape alone, where the page computes it from both sizes and "
    "output_padding",
    certain=lambda call: other_count(call) or _shows(call, of_wide=True),
)


@PADDING_OF_BOTH_SIZES.example({(3, 2): "throws could not create a primitive descriptor"})
def two_elements_fewer_than_windows(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 2, 6)), g.input("w", "f32", (2, 2, 3))
    attrs = {**ROW, **NCX, "auto_pad": "same_lower", "strides": [2], "weights_format": "OIX", "dst_shape": [1, 2, 9]}
    return g.op("ConvolutionBackwardData", [d, w], attrs)


@PADDING_OF_BOTH_SIZES.example({(3, 2): "wrong"})
def gradient_padded_at_the_end(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 2, 3)), g.input("w", "f32", (2, 2, 2))
    attrs = {**ROW, **NCX, "auto_pad": "same_upper", "weights_format": "OIX", "dst_shape": [1, 2, 3]}
    return g.op("ConvolutionBackwardData", [d, w], {**attrs, "output_padding": [1]})


GRADIENT_AUTO_PAD = FAULTS.add(
    "gradient_auto_pad",
    ops="ConvTransposeBackwardWeights",
    when=lambda call: _padded_as(call, of_wide=False),
    seen={(3, 2): "wrong"},
    reason="the padding of auto_pad is computed from src in place of diff_dst; pads_begin and pads_end are right",
    certain=lambda call: _shows(call, of_wide=False),
)


@GRADIENT_AUTO_PAD.example()
def gradient_with_auto_pad(g: DataGraph) -> LogicalTensor:
    x, d = g.input("x", "f32", (1, 1, 3)), g.input("d", "f32", (1, 1, 6))
    attrs = {**ROW, **NCX, "auto_pad": "same_upper", "strides": [2], "weights_format": "IOX"}
    return g.op("ConvTransposeBackwardWeights", [x, d], {**attrs, "weights_shape": [1, 1, 3]})


def counts_another_window(call: Call) -> bool:
    """Whether ``same_*`` of a ConvTranspose, whose result is a multiple of the strides, meets another size."""
    geometry = convolution_geometry(call)
    if not call.string("auto_pad").startswith("same_") or geometry is None or geometry.wide is None:
        return False
    sizes = zip(geometry.wide, geometry.strides, geometry.forward(), strict=True)
    return any(wide is not None and narrow != -(-wide // stride) for wide, stride, narrow in sizes)


GRADIENT_OF_NO_MULTIPLE = FAULTS.add(
    "gradient_of_no_multiple",
    ops="ConvTransposeBackwardData",
    when=counts_another_window,
    seen={(3, 2): "wrong"},
    reason="with same_*, a diff_dst whose size is no multiple of the strides gives one element more than the windows "
    "that the "
    "padding of a ConvTranspose has room for",
)


@GRADIENT_OF_NO_MULTIPLE.example()
def gradient_of_seven_elements_two_apart(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 2, 7)), g.input("w", "f32", (2, 2, 2))
    attrs = {**ROW, **NCX, "auto_pad": "same_upper", "strides": [2], "weights_format": "IOX"}
    return g.op("ConvTransposeBackwardData", [d, w], attrs)
