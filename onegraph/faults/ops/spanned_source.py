"""What oneDNN gets wrong of convolutions with windows around the source, or with elements in no window."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ..fault import UNSAFE, Faults, never
from .convolution import in_low_precision
from .windows import IMAGE, NCX, ROW, VOLUME, leaves_gaps

FAULTS = Faults[Call]()


def spans_source(call: Call) -> bool:
    """Whether a window has elements before and behind the source along an axis, and none in it; not of rows."""
    geometry = convolution_geometry(call)
    if geometry is None:
        return False
    sizes, counts = geometry.wide or geometry.backward(), geometry.narrow or geometry.forward()
    for axis, (size, count) in enumerate(zip(sizes[:-1], counts[:-1], strict=True)):
        window = geometry.window(axis)
        if window is None or size is None or count is None or window.dilation <= size:
            continue
        for start in range(-window.begin, min(0, count * window.stride - window.begin), window.stride):
            inside = start % window.dilation  # the first place at or behind the beginning of the source
            if inside >= size and start + window.extent > size:
                return True
    return False


SPANNED_SOURCE = FAULTS.add(
    "spanned_source",
    ops="Convolution ConvolutionBackwardData ConvTranspose ConvTransposeBackwardData",
    where="dilations",
    severity=UNSAFE,
    when=lambda call: in_low_precision(call) and spans_source(call),
    seen={(3, 2): "SIGSEGV", (3, 6): "SIGSEGV", (3, 13): "SIGSEGV"},
    reason="in 16 bits with AMX, windows with elements before and behind the source and none in it read other memory",
    instead="the same op in f32",
    certain=never,  # with AMX alone
)


@SPANNED_SOURCE.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive", "AMX": "SIGSEGV"})
def volumes_of_two_rows_between_the_elements_of_windows(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (1, 8, 2, 6, 16)), g.input("w", "bf16", (1, 2, 2, 16, 16))
    attrs = {**VOLUME, "dilations": [1, 5, 1], "pads_begin": [0, 2, 0], "pads_end": [0, 3, 0]}
    return g.op("Convolution", ends, attrs)


def in_no_window(call: Call) -> bool:
    """Whether an element of the result of a ConvTranspose lies in no window along an axis."""
    geometry = convolution_geometry(call)
    if geometry is None or geometry.narrow is None:
        return True
    for axis, (size, count) in enumerate(zip(geometry.backward(), geometry.narrow, strict=True)):
        if size is None:
            return True
        window = geometry.window(axis)
        assert window is not None  # as the size follows from the window and from the number of windows
        assert count is not None
        if leaves_gaps(window, size, count):
            return True
    return False


def biased_gaps(call: Call) -> bool:
    """Whether a ConvTranspose of bf16 has a bias, no dilations, and elements of the result in no window."""
    geometry = convolution_geometry(call)
    if geometry is not None and max(geometry.dilations) > 1:
        return False  # computed by another kernel
    return call.input("bias") is not None and call.output_type(0) is DataType.bf16 and in_no_window(call)


BIASED_GAPS = FAULTS.add(
    "biased_gaps",
    ops="ConvTranspose",
    where="bias",
    severity=UNSAFE,
    when=biased_gaps,
    seen={(3, 2): "right", (3, 6): "right", (3, 11): "right", (3, 13): "wrong"},
    reason="in bf16, elements that lie in no window may get 0 in place of their bias",
    instead="the same op in f32",
    certain=never,  # of some sizes
)


GAPS_ON = {"AMX": "wrong | right", "no FP16": "wrong | right", "no AVX-512": "throws could not create a primitive"}


@BIASED_GAPS.example(on=GAPS_ON)
def bias_of_rows_in_no_window(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (5, 6, 4, 4)), g.input("w", "bf16", (6, 2, 1, 2)), g.input("b", "bf16", (2,))
    attrs = {**IMAGE, **NCX, "strides": [3, 3], "pads_begin": [3, 0], "pads_end": [3, 0], "weights_format": "IOX"}
    return g.op("ConvTranspose", ends, attrs)


@BIASED_GAPS.example(on=GAPS_ON)
def bias_of_columns_in_no_window(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (2, 6, 6, 1)), g.input("w", "bf16", (6, 1, 1, 3)), g.input("b", "bf16", (3,))
    attrs = {**IMAGE, **NCX, "strides": [3, 2], "pads_begin": [0, 1], "pads_end": [0, 1], "weights_format": "IOX"}
    return g.op("ConvTranspose", ends, {**attrs, "groups": 3})


@BIASED_GAPS.example(on=GAPS_ON)
def bias_of_elements_in_no_window(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (2, 9, 2)), g.input("w", "bf16", (1, 16, 2)), g.input("b", "bf16", (16,))
    return g.op("ConvTranspose", ends, {**ROW, "strides": [4], "weights_format": "XOI"})
