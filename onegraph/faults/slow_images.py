"""Fused ops on images that oneDNN computes right with a reference kernel: 1.5 to 600 times as long as in parts."""

from __future__ import annotations

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.convolution_geometry import convolution_geometry
from ..opset.window import channel_axis
from .fault import SLOW, Faults
from .ops.windows import IMAGE, POOL, VOLUME
from .post_ops import dtype_of, is_int8, post_ops
from .slow_operands import APART
from .use import POOLS, Fused, Use

FAULTS = Faults[Fused](severity=SLOW, instead=APART)


def _follows_conv_transpose(fused: Fused) -> bool:
    mains = [post.main for post in post_ops(fused)]
    biased = {use.inputs[0] for use in fused.of("BiasAdd", "BatchNormInference")}
    mains += [main for main in fused.of("ConvTranspose") if main.outputs[0] in biased]
    return any(main.kind == "ConvTranspose" and not is_int8(main, fused) for main in mains)


SLOW_CONV_TRANSPOSE = FAULTS.add(
    "slow_conv_transpose",
    ops="ConvTranspose",
    when=_follows_conv_transpose,
    seen={(3, 2): "slow"},
    reason="oneDNN adds the bias of a ConvTranspose, and runs the ops behind it, element by element",
    instead="the ConvTranspose, and the ops behind it in kernels of their own",
)


@SLOW_CONV_TRANSPOSE.example({(3, 2): "right"})
def conv_transpose_and_relu(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 5, 5, 4)), g.input("w", "f32", (3, 3, 6, 4))
    return g.relu(g.op("ConvTranspose", ends, IMAGE))


def _pools_int8(fused: Fused) -> str:
    """A pool between Dequantize and Quantize, of channels first, or with two scales."""
    for pool in fused.of("AvgPool", "MaxPool"):
        source = next((use for use in fused.of("Dequantize") if use.outputs == pool.inputs), None)
        target = next(iter(fused.of("Quantize")), None)
        if source is None or target is None or dtype_of(source, 0) is not target.dtype:
            continue
        pooled_int8 = f"oneDNN has a reference kernel only for {pool.kind} of int8"
        if pool.call.string("data_format") == "NCX":
            return f"{pooled_int8} with channels first"
        if pool.kind == "MaxPool" and _scaling(source) != _scaling(target):
            return f"{pooled_int8} between two scales"
    return ""


def _scaling(use: Use) -> tuple[object, ...]:
    return tuple(use.call.f32s("scales")), tuple(use.call.s64s("zps") or ())


SLOW_POOL = FAULTS.add(
    "slow_pool",
    ops="AvgPool MaxPool",
    when=_pools_int8,
    seen={(3, 2): "slow"},
    reason="A pool of int8 with channels first takes a reference kernel, as does a MaxPool between two scales",
    instead="the pool in f32",
)


@SLOW_POOL.example({(3, 2): "right"})
def pool_of_int8_with_channels_first(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (1, 4, 6, 6)), scales=[0.5], zps=[0])
    pooled = g.op("MaxPool", src, {**POOL, "data_format": "NCX"})
    return g.quantize(pooled, dtype="u8", scales=[0.5], zps=[0])


def _folds_variables(fused: Fused) -> bool:
    """Whether a BatchNormInference is folded into weights anew in each run, because one of both is no constant."""
    norms, products = fused.of("BatchNormInference"), fused.of("Convolution", "ConvTranspose")
    needed = {number for use in (*norms, *products) for number in use.inputs[1:]}
    return bool(norms and products) and not fused.constants.issuperset(needed)


SLOW_FOLDING = FAULTS.add(
    "slow_folding",
    ops="BatchNormInference",
    when=_folds_variables,
    seen={(3, 2): "slow"},
    reason="oneDNN computes the weights in each run, in ten small kernels, unless they and the normalization are "
    "constant",
)


@SLOW_FOLDING.example({(3, 2): "right"})
def convolution_and_normalization_by_variables(g: DataGraph) -> LogicalTensor:
    image = g.op("Convolution", [g.input("x", "f32", (1, 6, 6, 4)), g.input("w", "f32", (3, 3, 4, 8))], IMAGE)
    vectors = [g.square(g.input(f"v{index}", "f32", (8,))) for index in range(4)]
    return g.op("BatchNormInference", [image, *vectors], {"epsilon": 1e-5})


@SLOW_FOLDING.example({(3, 2): "right"})
def convolution_by_variables_and_normalization(g: DataGraph) -> LogicalTensor:
    image = g.op("Convolution", [g.input("x", "f32", (1, 6, 6, 4)), g.input("w", "f32", (3, 3, 4, 8))], IMAGE)
    vectors = [g.constant(np.full(8, 1.5, np.float32)) for _ in range(4)]
    return g.op("BatchNormInference", [image, *vectors], {"epsilon": 1e-5})


def _adds_late(fused: Fused) -> str:
    """A Convolution of few channels in each group that adds a residual behind another op."""
    for post in post_ops(fused):
        main = post.main
        if post.adds and post.place > 0 and main.kind == "Convolution" and not is_int8(main, fused):
            source = main.shape(0)[channel_axis(len(main.result), main.call.string("data_format"))]
            if main.call.s64("groups") > 1 or source <= FEW_CHANNELS:
                return "oneDNN has a reference kernel only for a Convolution of few channels with a residual so late"
    return ""


FEW_CHANNELS = 4
SLOW_RESIDUAL = FAULTS.add(
    "slow_late_residual",
    ops="Convolution",
    when=_adds_late,
    seen={(3, 2): "slow", (3, 6): "right"},
    reason="A Convolution of few channels, or of groups, adds a residual fast only before all other ops",
)


@SLOW_RESIDUAL.example({(3, 2): "right"})
def convolution_of_colours_and_a_residual_behind_tanh(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 6, 6, 3)), g.input("w", "f32", (3, 3, 3, 16))
    return g.add(g.tanh(g.op("Convolution", ends, IMAGE)), g.input("y", "f32", (1, 4, 4, 16)))


SLOW_INTERPOLATE = FAULTS.add(
    "slow_interpolate",
    ops="Interpolate",
    when=lambda fused: any(post.main.kind == "Interpolate" for post in post_ops(fused)),
    seen={(3, 2): "slow"},
    reason="oneDNN runs the ops behind an Interpolate element by element",
)


@SLOW_INTERPOLATE.example({(3, 2): "right"})
def image_of_twice_the_size_and_gelu(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}
    return g.gelu(g.op("Interpolate", g.input("x", "f32", (1, 4, 4, 4)), attrs))


SLOW_PLAIN_POOL = FAULTS.add(
    "slow_pool_with_channels_first",
    ops="AvgPool MaxPool",
    when=lambda fused: any(
        post.main.kind in POOLS and post.main.call.string("data_format") == "NCX" for post in post_ops(fused)
    ),
    seen={(3, 2): "slow"},
    reason="Many pools with channels first are plain C++, which runs the ops behind them element by element",
)


@SLOW_PLAIN_POOL.example({(3, 2): "right"})
def pool_of_rows_and_a_number(g: DataGraph) -> LogicalTensor:
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "kernel": [2], "data_format": "NCX"}
    return g.add(g.op("MaxPool", g.input("x", "f32", (1, 4, 9)), attrs), g.input("y", "f32", (1,)))


def _is_depthwise(fused: Fused) -> bool:
    """Whether a Convolution of volumes, or a ConvTranspose, in int8 has one channel in each group."""
    return any(
        main.call.s64("groups") == main.result[channel_axis(len(main.result), main.call.string("data_format"))]
        for main in fused.of("Convolution", "ConvTranspose")
        if (len(main.result) == 5 or main.kind == "ConvTranspose") and is_int8(main, fused)
    )


SLOW_DEPTHWISE = FAULTS.add(
    "slow_depthwise_int8",
    ops="Convolution ConvTranspose",
    when=_is_depthwise,
    seen={(3, 2): "slow", (3, 6): "right"},
    reason="A Convolution of volumes, or a ConvTranspose, in int8 with a channel in each group has no fast kernel",
    instead="the op in floats",
)


@SLOW_DEPTHWISE.example({(3, 2): "right"}, on={"no VNNI": "wrong | right"})
def volumes_of_int8_channel_by_channel(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (1, 4, 4, 4, 8)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (2, 2, 2, 1, 8)), scales=[0.5], zps=[0])
    return g.op("Convolution", [src, weights], {**VOLUME, "groups": 8})


def _spreads_slowly(main: Use) -> bool:
    """Whether a ConvTranspose has windows for which its int8 kernels have no form."""
    geometry = convolution_geometry(main.call)
    if geometry is None:
        return False
    windows = [*zip(geometry.strides, geometry.dilations, strict=True)]
    if geometry.is_padded_beyond_windows() or any(min(window) > 1 for window in windows):
        return True
    assert geometry.wide_channels is not None
    assert geometry.narrow_channels is not None
    channels = geometry.wide_channels, geometry.narrow_channels
    is_odd = any(count // geometry.groups % 4 for count in channels)
    return geometry.groups > 1 and is_odd and max(geometry.strides) > 1


SLOW_INT8_SPREAD = FAULTS.add(
    "slow_int8_spread",
    ops="ConvTranspose",
    when=lambda fused: any(is_int8(main, fused) and _spreads_slowly(main) for main in fused.of("ConvTranspose")),
    seen={(3, 2): "slow", (3, 6): "right"},
    reason="An int8 ConvTranspose whose windows have strides and gaps along an axis, or are padded beyond the window, "
    "or have strides and groups of channels that are no multiple of 4, mostly takes a reference kernel, 10 to 400 "
    "times slower",
    instead="the op in floats",
)


@SLOW_INT8_SPREAD.example({(3, 2): "right"}, on={"no VNNI": "wrong | right"})
def every_other_pixel_of_int8_with_gaps(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (1, 4, 4, 8)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (2, 2, 8, 8)), scales=[0.5], zps=[0])
    return g.op("ConvTranspose", [src, weights], {**IMAGE, "strides": [2, 2], "dilations": [2, 2]})
