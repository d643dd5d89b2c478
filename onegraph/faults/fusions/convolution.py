"""Fused convolutions in f32."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ..fault import NEVER, UNSAFE, Faults
from ..ops.convolution import ends_behind_source, unread_as_padded
from ..ops.windows import IMAGE, ROW
from ..use import CONVOLUTIONS, DEQUANTIZATIONS, FOLDED, Fused, Use

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
SINGLE_CHANNELS = "oneDNN crashes on a Convolution of single channels in one kernel with one before it"


def _is_depthwise(use: Use) -> bool:
    """Whether each group of a convolution has one channel of the source."""
    return use.shape(1)[1 if use.call.string("weights_format") == "OIX" else -2] == 1


DEPTHWISE = FAULTS.add(
    "depthwise_behind_convolution",
    ops="Convolution",
    when=lambda fused: any(_is_depthwise(use) for use in fused.of("Convolution")[1:]),
    seen={(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "SIGSEGV"},
    reason=SINGLE_CHANNELS,
)


@DEPTHWISE.example()
def block_of_a_mobilenet(g: DataGraph) -> LogicalTensor:
    """A convolution of one pixel and one of single channels, both with a bias."""
    x, w, v = g.input("x", "f32", (1, 6, 6, 4)), g.input("w", "f32", (1, 1, 4, 8)), g.input("v", "f32", (3, 3, 1, 8))
    wide = g.op("Convolution", [x, w, g.input("a", "f32", (8,))], IMAGE)
    window = {**IMAGE, "pads_begin": [1, 1], "pads_end": [1, 1], "groups": 8}
    return g.op("Convolution", [wide, v, g.input("b", "f32", (8,))], window)


def _narrows_to_single_channels(fused: Fused) -> bool:
    """Whether residual blocks have a convolution that the library takes for one of single channels.

    The two convolutions of a partition that is nothing else are right.
    """
    return len(fused.uses) > 2 and any(_gives_single_channels(use) for use in fused.of("Convolution")[1:])


def _gives_single_channels(use: Use) -> bool:
    """Whether a convolution has a window of 3 by 3, and as many groups as channels of the source and of the result."""
    shape = use.shape(1)
    if use.call.string("weights_format") == "XIO":
        shape = (shape[-1], shape[-2], *shape[:-2])
    return shape == (use.call.s64("groups"), 1, 3, 3)


STAGE_OF_SINGLE_CHANNELS = FAULTS.add(
    "stage_of_single_channels",
    ops="Convolution",
    when=_narrows_to_single_channels,
    seen={(3, 2): "SIGSEGV"},
    reason=SINGLE_CHANNELS,
)


@STAGE_OF_SINGLE_CHANNELS.example()
def stage_of_single_channels(g: DataGraph) -> LogicalTensor:
    """A stage of a ResNet whose blocks narrow what they read to one channel."""

    def part(source: LogicalTensor, narrow: int, wide: int, size: int) -> LogicalTensor:
        shapes = (size, size, narrow, wide), (wide,)
        weights, bias = (g.input(f"p{len(g.inputs)}", "f32", shape) for shape in shapes)
        window = {**IMAGE, "pads_begin": [size // 2] * 2, "pads_end": [size // 2] * 2}
        return g.op("Convolution", [source, weights, bias], window)

    x, channels = g.input("x", "f32", (1, 5, 5, 3)), 3
    for block in range(3):
        inner = g.relu(part(g.relu(part(x, channels, 1, 1)), 1, 1, 3))
        x, channels = g.relu(g.add(part(inner, 1, 8, 1), x if block else part(x, 3, 8, 1))), 8
    return x


FUSED_BIAS_BEHIND_SOURCE = FAULTS.add(
    "fused_bias_behind_source",
    ops="Convolution",
    when=lambda fused: fused.some(FOLDED) and any(ends_behind_source(use.call) for use in fused.of("Convolution")),
    seen={(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"},
    reason="oneDNN crashes on a Convolution with a bias whose last windows lie behind the source",
    mended=NEVER,
)


@FUSED_BIAS_BEHIND_SOURCE.example()
def bias_add_of_windows_behind_the_source(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 3, 3, 2)), g.input("w", "f32", (3, 1, 2, 4))
    return g.bias_add(g.op("Convolution", [x, w], {**IMAGE, "pads_end": [0, 2]}), g.input("b", "f32", (4,)))


def _normalizes_in_another_format(fused: Fused) -> bool:
    ops_with_format = fused.of("BatchNormInference", *CONVOLUTIONS)
    return len({use.call.string("data_format") for use in ops_with_format}) > 1


FOREIGN_CHANNELS = FAULTS.add(
    "foreign_channels",
    ops=CONVOLUTIONS,
    when=lambda fused: fused.has("BatchNormInference") and _normalizes_in_another_format(fused),
    seen={(3, 2): "wrong"},
    reason="oneDNN takes the channels of a BatchNormInference for those of the convolution before it",
)


@FOREIGN_CHANNELS.example()
def batch_norm_along_another_axis(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 4, 8, 3)), g.input("w", "f32", (1, 1, 3, 4))
    vectors = [[1, 2, 3, 4], [1, 0, 1, 0], [0, 1, 0, 1], [1, 4, 9, 16]]
    constants = [g.constant(np.array(values, np.float32)) for values in vectors]
    return g.batch_norm_inference(g.op("Convolution", [x, w], IMAGE), *constants, epsilon=0.5, data_format="NCX")


FUSED_UNREAD_AS_PADDED = FAULTS.add(
    "fused_unread_as_padded",
    ops="Convolution",
    when=lambda fused: (
        fused.some(DEQUANTIZATIONS | {"Add"}) and any(unread_as_padded(use.call) for use in fused.of("Convolution"))
    ),
    seen={(3, 2): "wrong | right"},  # by what lies behind its scratch memory
    reason="oneDNN computes a Convolution that is added to or quantized wrong where as much is unread at its end as "
    "there is "
    "padding before it",
)


@FUSED_UNREAD_AS_PADDED.example()
def unread_end_and_a_residual(g: DataGraph) -> LogicalTensor:
    """A window from -3 to 0 and one from 1 to 4: three elements of padding, and three that nobody reads."""
    x, w = g.input("x", "f32", (1, 8, 16)), g.input("w", "f32", (4, 16, 16))
    product = g.op("Convolution", [x, w], {**ROW, "strides": [4], "pads_begin": [3]})
    return g.add(product, g.input("y", "f32", (1, 2, 16)))


@FUSED_UNREAD_AS_PADDED.example({(3, 2): "overrun | wrong | SIGABRT | right"}, on={"no VNNI": "wrong | right"})
def unread_end_of_int8(g: DataGraph) -> LogicalTensor:
    x = g.dequantize(g.input("x", "u8", (1, 9, 8, 16)), scales=[1.0], zps=[0])
    w = g.dequantize(g.input("w", "s8", (3, 4, 16, 16)), scales=[1.0], zps=[0])
    product = g.op("Convolution", [x, w], {**IMAGE, "strides": [1, 4], "pads_begin": [1, 3]})
    return g.quantize(product, scales=[256.0], zps=[0], dtype="s8")


MISALIGNED_SUM = FAULTS.add(
    "misaligned_sum",
    ops="Convolution",
    when=lambda fused: (
        not fused.avx2 and fused.has("Add") and any(use.call.s64("groups") > 1 for use in fused.of("Convolution"))
    ),
    seen={(3, 2): "SIGSEGV | right"},  # a signal on a CPU without AVX2, where the memory is not aligned
    reason="oneDNN adds to a Convolution of single channels as if all memory were aligned on a CPU without AVX2",
)


@MISALIGNED_SUM.example({(3, 2): "right"}, on={"no AVX2": "SIGSEGV | right"})
def sum_behind_single_channels(g: DataGraph) -> LogicalTensor:
    window = {**IMAGE, "pads_begin": [1, 1], "pads_end": [1, 1], "groups": 5}
    ends = g.input("x", "f32", (1, 6, 7, 5)), g.input("w", "f32", (3, 3, 1, 5))
    return g.add(g.op("Convolution", ends, window), g.input("y", "f32", (1, 6, 7, 5)))
