"""What oneDNN gets wrong of convolutions whose kernels copy the source, or go over parts of it in threads."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.schema import Call
from ..fault import NEVER, UNSAFE, Faults, never
from .convolution import ends_behind_source, in_low_precision
from .windows import IMAGE, NCX, VOLUME, copies_wrong

FAULTS = Faults[Call](severity=UNSAFE)

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
    found = convolution_geometry(call)
    if found is not None and in_low_precision(call) and copies_wrong(found):
        return True
    if found is None or found.wide_channels != found.groups or len(found.strides) < 2:
        return False
    if found.dilations[-1] > 1 or found.kernel is None or found.kernel[-1] == 1:
        return False
    strided = found.strides[-1] != 1
    if len(found.strides) == 3 and found.wide is not None and found.wide[0] == 1:
        return strided or in_low_precision(call)
    return strided and found.forward()[-1] == 1


ONE_CHANNEL_STRIDED = FAULTS.add(
    "one_channel_strided",
    ops="Convolution ConvTransposeBackwardData",
    where="strides",
    when=one_channel_strided,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="with one channel in a group and strides on the last axis the kernel copies too few or too many elements of "
    "the "
    "source where the result has one column or the source is one deep, then in bf16 without strides, too; with AMX, in "
    "bf16 also those of more channels: wrong values, and writes beyond a block",
    instead="numpy; of more channels the same op in f32",
    certain=never,  # by what lies in memory
)


@ONE_CHANNEL_STRIDED.example()
def one_channel_and_one_column(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (2, 1, 4, 3)), g.input("w", "f32", (8, 1, 3, 3))
    return g.op("Convolution", [x, w], {**IMAGE, **NCX, "weights_format": "OIX", "strides": [1, 2]})


@ONE_CHANNEL_STRIDED.example({(3, 2): "right"}, on={"AMX": "right | wrong | overrun | SIGSEGV | SIGABRT"})
def one_column_of_eight_channels(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (3, 7, 3, 8)), g.input("w", "bf16", (4, 3, 8, 16))
    return g.op("Convolution", [x, w], {**IMAGE, "strides": [1, 2]})


@ONE_CHANNEL_STRIDED.example(on={"no AVX-512": "throws could not create a primitive | right"})
def one_channel_of_a_source_one_deep(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (2, 1, 1, 6, 6)), g.input("w", "bf16", (3, 1, 3, 3, 3))
    pads = {"pads_begin": [1, 0, 0], "pads_end": [1, 0, 0]}
    return g.op("Convolution", [x, w], {**VOLUME, **NCX, **pads, "weights_format": "OIX"})


def single_dilated(call: Call) -> bool:
    """Whether a convolution in bf16 or f16 has padding before the last axis, and dilations along it of one element."""
    found = convolution_geometry(call)
    if found is None or found.kernel is None or not in_low_precision(call):
        return False
    padded = found.pads_begin is not None and found.pads_begin[-1] > 0
    return padded and found.kernel[-1] == 1 and found.dilations[-1] > 1


SINGLE_DILATED = FAULTS.add(
    "single_dilated",
    ops="Convolution ConvTransposeBackwardData",
    where="dilations",
    when=single_dilated,
    seen={(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"},
    reason="in bf16, where windows of one element are dilated along the last axis and lie in the padding before and "
    "behind "
    "it, the kernel reads behind the source: a signal where no memory is there",
    instead="the same op in f32",
    certain=never,
)


@SINGLE_DILATED.example(on={"no AVX-512": "throws could not create a primitive"})
def dilated_windows_of_one_element(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "bf16", (1, 1, 1)), g.input("w", "bf16", (1, 1, 33))
    return g.op("Convolution", [x, w], {"strides": [2], "pads_begin": [1], "pads_end": [1], "dilations": [2]})
