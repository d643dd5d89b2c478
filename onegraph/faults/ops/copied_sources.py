"""What oneDNN gets wrong of convolutions whose kernels copy the source, or go over parts of it in threads."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ..fault import NEVER, UNSAFE, Faults, never
from .convolution import ends_behind_source, in_low_precision
from .windows import IMAGE, NCX, VOLUME, copies_wrong, misses_source

FAULTS = Faults[Call](severity=UNSAFE)
SPREADING = frozenset(["ConvTranspose", "ConvolutionBackwardData"])  # which sum over the narrow tensor

BIAS_BEHIND_SOURCE = FAULTS.add(
    "bias_behind_source",
    ops="Convolution",
    where="bias",
    when=lambda call: call.input("bias") is not None and ends_behind_source(call),
    seen={(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"},
    reason="with several threads and a bias, a part of the last axis that lies behind the source ends in a signal",
    instead="another op for the bias, or numpy",
    mended=NEVER,  # 3.13 needs many threads
    certain=never,  # by the number of threads
)


@BIAS_BEHIND_SOURCE.example()
def bias_of_windows_behind_the_source(g: DataGraph) -> LogicalTensor:
    """Of five windows in a row, two lie behind the source: with two threads, one has nothing else."""
    x, w, bias = g.input("x", "f32", (1, 3, 3, 2)), g.input("w", "f32", (3, 1, 2, 4)), g.input("b", "f32", (4,))
    return g.op("Convolution", [x, w, bias], {**IMAGE, "pads_end": [0, 2]})


def one_channel_strided(call: Call) -> bool:
    """Whether a convolution of one channel has strides on the last axis, and one column out or a source one deep.

    In bf16, with a source one deep, it needs no strides; and there, convolutions of more channels are concerned, too.
    """
    geometry = convolution_geometry(call)
    if geometry is not None and in_low_precision(call) and copies_wrong(geometry):
        return True
    if geometry is None or geometry.wide_channels != geometry.groups or len(geometry.strides) < 2:
        return False
    if geometry.dilations[-1] > 1 or geometry.kernel is None or geometry.kernel[-1] == 1:
        return False
    strided = geometry.strides[-1] != 1
    if len(geometry.strides) == 3 and geometry.wide is not None and geometry.wide[0] == 1:
        return strided or in_low_precision(call)
    return strided and geometry.forward()[-1] == 1


ONE_CHANNEL_STRIDED = FAULTS.add(
    "one_channel_strided",
    ops="Convolution ConvTransposeBackwardData",
    where="strides",
    when=one_channel_strided,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="where the result has one column, with strides on the last axis, the kernel takes strides times windows for "
    "the distance between rows of the copied source (LDA in brg_blocking_t::estimate_brgemm_ur); and of a source one "
    "deep it copies planes that are not there: wrong values, and writes beyond a block; with one channel in a group, "
    "and in bf16 with AMX with any number",
    instead="numpy; of more channels the same op in f32",
    certain=never,  # by the rows of a block, which follow from caches and threads, and by what lies in memory
)


@ONE_CHANNEL_STRIDED.example(on={"no AVX-512": "right"})
def one_channel_and_one_column(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (2, 1, 4, 3)), g.input("w", "f32", (8, 1, 3, 3))
    return g.op("Convolution", [x, w], {**IMAGE, **NCX, "weights_format": "OIX", "strides": [1, 2]})


@ONE_CHANNEL_STRIDED.example(
    {(3, 2): "right"},
    on={
        "AMX": "right | wrong | overrun | SIGSEGV | SIGABRT",
        "no AVX-512": "throws could not create a primitive",
    },
)
def one_column_of_eight_channels(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (3, 7, 3, 8)), g.input("w", "bf16", (4, 3, 8, 16))
    return g.op("Convolution", [x, w], {**IMAGE, "strides": [1, 2]})


@ONE_CHANNEL_STRIDED.example(on={"no AVX-512": "throws could not create a primitive | right"})
def one_channel_of_a_source_one_deep(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (2, 1, 1, 6, 6)), g.input("w", "bf16", (3, 1, 3, 3, 3))
    pads = {"pads_begin": [1, 0, 0], "pads_end": [1, 0, 0]}
    return g.op("Convolution", [x, w], {**VOLUME, **NCX, **pads, "weights_format": "OIX"})


def beside_source(call: Call) -> bool:
    """Whether a window of a convolution has no element in the source along the last axis."""
    geometry = convolution_geometry(call)
    window = geometry.window(-1) if geometry is not None else None
    size = geometry.wide[-1] if geometry is not None and geometry.wide is not None else None
    if window is None or size is None:
        return False
    return misses_source(window, size, window.forward(size))


_BESIDE = (
    "for windows without an element in the source along the last axis, the kernel calls code that it has not made, or "
    "reads beside the source, by the number of windows in its blocks"
)
BESIDE_SOURCE = FAULTS.add(
    "windows_beside_source",
    ops="Convolution ConvTransposeBackwardData",
    where="pads_begin",
    when=lambda call: in_low_precision(call) and beside_source(call),
    seen={(3, 2): "right", (3, 3): "SIGSEGV", (3, 6): "SIGSEGV", (3, 11): "SIGSEGV", (3, 13): "right"},
    reason=_BESIDE,
    instead="the same op in f32",
    certain=never,  # by the number of windows in a block, which follows from the CPU and the threads
)


@BESIDE_SOURCE.example(on={"no AVX-512": "throws could not create a primitive"})
def windows_of_one_element_beside_the_source(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (1, 1, 1)), g.input("w", "bf16", (1, 1, 33))
    return g.op("Convolution", [x, w], {"strides": [2], "pads_begin": [1], "pads_end": [1], "dilations": [2]})


@BESIDE_SOURCE.example(
    {(3, 2): "right", (3, 3): "SIGSEGV | right", (3, 13): "right"},
    on={"no FP16": "throws could not create a primitive | right"},
)
def separate_channels_beside_the_source(g: DataGraph) -> LogicalTensor:
    d, w = g.input("d", "f16", (2, 1, 6)), g.input("w", "f16", (1, 1, 6))
    attrs = {"strides": [2], "pads_begin": [1], "pads_end": [1], "dilations": [1], "groups": 6}
    return g.op("ConvTransposeBackwardData", [d, w], {**attrs, "weights_format": "XOI"})


FLOATS_BESIDE_SOURCE = FAULTS.add(
    "floats_beside_source",
    ops="Convolution",
    where="pads_begin",
    when=lambda call: not in_low_precision(call) and beside_source(call),
    seen={(3, 2): "right", (3, 3): "SIGSEGV", (3, 5): "SIGSEGV", (3, 6): "right"},
    reason=_BESIDE,
    instead="numpy",
    certain=never,
)


@FLOATS_BESIDE_SOURCE.example()
def long_padding_behind_the_source(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 1, 1)), g.input("w", "f32", (1, 1, 1))
    return g.op("Convolution", [x, w], {"strides": [2], "pads_begin": [1], "pads_end": [3], "dilations": [1]})


def one_column_of_halves(call: Call) -> bool:
    """Whether a convolution in f16 sums over many channels, whose number is no multiple of 16, and gives one column."""
    geometry = convolution_geometry(call)
    if geometry is None or geometry.kernel is None or len(geometry.kernel) < 2 or geometry.kernel[-1] != 1:
        return False
    if call.inputs[0] is None or call.inputs[0].dtype is not DataType.f16:
        return False
    spread = call.schema.kind in SPREADING
    made = geometry.backward() if spread else geometry.forward()
    summed = geometry.narrow_channels if spread else geometry.wide_channels
    return (
        made[-1] == 1 and summed is not None and summed > 32 * geometry.groups and summed // geometry.groups % 16 != 0
    )


ONE_COLUMN_OF_HALVES = FAULTS.add(
    "one_column_of_halves",
    ops="Convolution ConvTransposeBackwardData ConvTranspose ConvolutionBackwardData",
    where="src",
    when=one_column_of_halves,
    seen={(3, 2): "right", (3, 3): "wrong", (3, 8): "wrong", (3, 9): "right"},
    reason="in f16, where the result has one column and windows have several rows of one, more than 32 channels, in no "
    "multiple of 16, are summed with some of the next row: wrong values, or NaN",
    instead="the same op in f32",
    certain=lambda call: call.schema.kind not in SPREADING and _sums_rows(call),
)


def _sums_rows(call: Call) -> bool:
    """Whether every window of an image has several rows; of volumes, it depends on the blocks."""
    geometry = convolution_geometry(call)
    kernel = None if geometry is None else geometry.kernel
    return geometry is not None and kernel is not None and len(kernel) == 2 and geometry.dilations[0] == 1 != kernel[0]


@ONE_COLUMN_OF_HALVES.example(on={"no FP16": "throws could not create a primitive"})
def two_rows_of_33_channels(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f16", (1, 2, 1, 33)), g.input("w", "f16", (2, 1, 33, 1))
    return g.op("Convolution", [x, w], IMAGE)
