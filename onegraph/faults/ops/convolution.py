"""What oneDNN gets wrong of convolutions and of their gradients by data."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import SIDES, convolution_geometry
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ...opset.window import SHAPE_SOURCE, AxisWindow
from ..fault import LIBRARY, NEVER, UNSAFE, Faults, never
from .windows import IMAGE, NCX, POOL, ROW, differs_undilated
from .windows import POOLS as POOLS

FAULTS = Faults[Call](severity=UNSAFE)

# Conditions that fused convolutions share ----------------------------------------------------------------------------


def in_low_precision(call: Call, index: int = 0) -> bool:
    """Whether the first input, or another one, is of bf16 or f16."""
    tensor = call.inputs[index] if call.inputs else None
    return tensor is not None and tensor.dtype in (DataType.bf16, DataType.f16)


def misses_source(call: Call) -> bool:
    """Whether a window of a convolution may have no element of the source."""
    geometry = convolution_geometry(call)
    if geometry is None or geometry.wide is None:
        return False
    for axis, (size, count) in enumerate(zip(geometry.wide, geometry.forward(), strict=True)):
        window = geometry.window(axis)
        if count is None:
            continue
        assert window is not None
        assert size is not None
        last = (count - 1) * window.stride - window.begin
        if window.begin >= window.extent or last >= size or (window.dilation > size and window.begin > 0):
            return True
    return False


def _last_windows(call: Call) -> tuple[AxisWindow, int, int] | None:
    """The windows of a convolution along its last axis, the size of the source there, and how many there are."""
    geometry = convolution_geometry(call)
    count = None if geometry is None else geometry.forward()[-1]
    if geometry is None or count is None:
        return None
    assert geometry.wide is not None
    window, size = geometry.window(-1), geometry.wide[-1]
    assert window is not None
    assert size is not None
    return window, size, count


def ends_behind_source(call: Call) -> bool:
    """Whether the last windows of a convolution along its last axis lie behind the source."""
    if (last := _last_windows(call)) is None:
        return False
    window, size, count = last
    return (count - 1) * window.stride - window.begin >= size


def unread_as_padded(call: Call) -> bool:
    """Whether a convolution leaves as much unread at the end of the last axis as there is padding before it."""
    if (last := _last_windows(call)) is None:
        return False
    window, size, count = last
    return window.begin != 0 and (count - 1) * window.stride + window.extent == size


# Groups, dilations, pads ---------------------------------------------------------------------------------------------

GROUPED_GRADIENT = FAULTS.add(
    "grouped_gradient",
    ops="ConvolutionBackwardData",
    where="groups",
    severity=LIBRARY,
    when=lambda call: call.s64("groups") > 1,
    seen={(3, 2): "refuses partition_compile: invalid_shape"},
    reason="groups > 1 never compiles (invalid_shape); ConvTranspose with the same weights is the same op",
    instead="a ConvTranspose with the same weights",
)


@GROUPED_GRADIENT.example()
def gradient_in_two_groups(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 4, 5, 5)), g.input("w", "f32", (4, 1, 3, 3))
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    return g.op("ConvolutionBackwardData", [d, w], {**IMAGE, **formats, "groups": 2, "dst_shape": [1, 2, 7, 7]})


def reads_undilated(call: Call) -> bool:
    """Whether dilations decide which elements the windows of a ConvTranspose read, and how many there are."""
    geometry = convolution_geometry(call)
    if geometry is None:
        return any(dilation != 1 for dilation in call.s64s("dilations"))
    return any(differs_undilated(geometry, axis) for axis in geometry.axes)


DILATED_GRADIENT = FAULTS.add(
    "dilated_gradient",
    ops="ConvTransposeBackwardData",
    where="dilations",
    severity=LIBRARY,
    when=reads_undilated,
    seen={
        (3, 2): "throws could not create a primitive descriptor for a deconvolution",
        (3, 13): "throws could not create a primitive descriptor",
    },
    reason="dilations are taken for 1: the op throws at compile, or windows read other elements; Convolution with the "
    "same weights is the same op",
    instead="a Convolution with the same weights",
)


@DILATED_GRADIENT.example()
def dilated_gradient(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 2, 9, 9)), g.input("w", "f32", (2, 2, 3, 3))
    attrs = {**IMAGE, **NCX, "weights_format": "IOX", "dilations": [2, 2]}
    return g.op("ConvTransposeBackwardData", [d, w], attrs)


GRADIENT_OUTPUT_PADDING = FAULTS.add(
    "gradient_output_padding",
    ops="ConvTransposeBackwardData ConvTransposeBackwardWeights",
    where="output_padding",
    severity=LIBRARY,
    when=lambda call: call.has("output_padding"),
    seen={(3, 2): "refuses add_op: invalid_graph_op"},
    reason="output_padding is documented for this op, but the library's schema lacks it; leave it out",
    instead="the same op without output_padding",
)


@GRADIENT_OUTPUT_PADDING.example()
def gradient_with_output_padding(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f32", (1, 2, 9, 9)), g.input("w", "f32", (2, 2, 3, 3))
    attrs = {**IMAGE, **NCX, "weights_format": "IOX", "output_padding": [0, 0]}
    return g.op("ConvTransposeBackwardData", [d, w], attrs)


SHAPE_TENSOR = FAULTS.add(
    "shape_tensor",
    ops=frozenset(SHAPE_SOURCE),
    where="inputs",
    severity=LIBRARY,
    when=lambda call: len(call.inputs) > len(call.schema.inputs) - 1 and call.inputs[-1] is not None,
    seen={(3, 2): "refuses", (3, 6): "unsupported"},
    reason="a shape that is given as a tensor never compiles; the attribute of the same name does",
    instead="the attribute, where the contents of the tensor are known",
)


@SHAPE_TENSOR.example()
def weights_shape_as_a_tensor(g: DataGraph) -> LogicalTensor:
    x, d = g.input("x", "f32", (1, 2, 5, 5)), g.input("d", "f32", (1, 2, 5, 5))
    shape = g.constant(np.array([2, 2, 3, 3], np.int32))
    attrs = {**IMAGE, **NCX, "weights_format": "OIX", "pads_begin": [1, 1], "pads_end": [1, 1]}
    return g.op("ConvolutionBackwardWeights", [x, d, shape], attrs)


# Kernels of bf16 and of single channels ------------------------------------------------------------------------------
UNREAD_AS_PADDED = FAULTS.add(
    "unread_as_padded",
    ops="Convolution",
    where="pads_begin",
    when=lambda call: in_low_precision(call) and unread_as_padded(call),
    seen={(3, 2): "overrun | wrong | right | SIGABRT | SIGSEGV"},
    reason="if the last axis has as many unread elements at its end as padding before it, the kernel takes the axis "
    "for "
    "unpadded and allocates no memory for sums in f32: wrong values, and writes beyond a block",
    instead="the same op in f32",
    certain=never,
)


@UNREAD_AS_PADDED.example(on={"no AVX-512": "throws could not create a primitive"})
def three_elements_unread(g: DataGraph) -> LogicalTensor:
    """A window from -3 to 0 and one from 1 to 4: three elements of padding, and three that nobody reads."""
    x, w = g.input("x", "bf16", (1, 8, 16)), g.input("w", "bf16", (4, 16, 16))
    return g.op("Convolution", [x, w], {**ROW, "strides": [4], "pads_begin": [3]})


# Numbers of 32 bits --------------------------------------------------------------------------------------------------


def is_far(call: Call) -> bool:
    """Whether a window is moved, spread or padded by 2**31 elements or more."""
    lists = (call.s64s(name) for name in ("strides", "dilations", "pads_begin", "pads_end") if call.has(name))
    return any(value >= 1 << 31 for values in lists for value in values)


def has_long_axis(call: Call) -> bool:
    """Whether the elements along one axis of a tensor take 2**32 bytes, or all but a block of them."""
    for tensor in call.inputs:
        if tensor is not None and tensor.dtype is not None:
            most = ((1 << 32) - 1024) // tensor.dtype.numpy.itemsize
            if any(dim >= most for dim in known_dims(tensor.shape)):
                return True
    return False


FAR_WINDOWS = FAULTS.add(
    "far_windows",
    ops=frozenset(SIDES) | frozenset(POOLS.split()),
    where="strides",
    when=is_far,
    seen={(3, 2): "throws could not create a descriptor", (3, 6): "SIGFPE", (3, 13): "right"},
    reason="the kernels cut strides, dilations and pads to 32 bits",
    instead="numpy",
    since=(3, 2),
    mended=NEVER,  # pools alone are right in 3.13
)


@FAR_WINDOWS.example()
def pool_of_far_strides(g: DataGraph) -> LogicalTensor:
    return g.op("AvgPool", [g.input("x", "f32", (2, 6, 6, 4))], {**POOL, "exclude_pad": True, "strides": [2**62] * 2})


@FAR_WINDOWS.example({(3, 2): "wrong"}, runs=False)
def far_dilations(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 4, 2**31 + 1, 2)), g.input("w", "f32", (2, 2, 2, 2))
    return g.op("Convolution", [x, w], {**IMAGE, "dilations": [1, 2**31]})


LONG_AXIS = FAULTS.add(
    "long_axis",
    ops=frozenset(SIDES),
    where="shape",
    when=has_long_axis,
    seen={(3, 2): "wrong"},
    reason="bytes along an axis are counted in 32 bits: of a row of 2**32 bytes nothing is computed, and nothing "
    "written",
    instead="numpy",
)


@LONG_AXIS.example(runs=False)
def row_of_2_to_the_32_bytes(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 1, 2**30)), g.input("w", "f32", (3, 1, 1))
    return g.op("Convolution", [x, w], {**ROW, **NCX})


@LONG_AXIS.example(runs=False)
def row_of_bf16(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (1, 1, 2**31 - 256)), g.input("w", "bf16", (3, 1, 1))
    return g.op("Convolution", [x, w], {**ROW, **NCX})
