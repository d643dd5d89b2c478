"""Writes the host ops of models that detect objects."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....opset.dtypes import DataType
from ....opset.schema import Call
from .body import NodeValue
from .table import composes, known_dims_of, writes


@writes("host NonMaxSuppression")
def non_max_suppression(call: Call, boxes: NodeValue, scores: NodeValue, *limits: NodeValue) -> NodeValue:
    wide = [one if one.dtype is DataType.f32 else one.cast(DataType.f32) for one in (boxes, scores)]
    flat = [limit.op("Reshape", boxes.body.numbers(1)) for limit in limits]
    center = int(call.flag("center"))
    return wide[0].op("NonMaxSuppression", wide[1], *flat, dtype=DataType.s64, center_point_box=center)


@writes("host RoiAlign")
def roi_align(call: Call, src: NodeValue, boxes: NodeValue, images: NodeValue) -> NodeValue:
    half = call.flag("half_pixel")
    return src.op(
        "RoiAlign",
        boxes,
        images,
        output_height=call.s64("rows"),
        output_width=call.s64("columns"),
        sampling_ratio=call.s64("samples"),
        spatial_scale=call.f32("scale"),
        mode=call.string("mode"),
        coordinate_transformation_mode="half_pixel" if half else "output_half_pixel",
    )


def _window(call: Call) -> dict[str, Any]:
    return {
        "strides": call.s64s("strides"),
        "dilations": call.s64s("dilations"),
        "pads": (*call.s64s("pads_begin"), *call.s64s("pads_end")),
    }


@writes("host MaxPoolPlaces")
def max_pool_places(call: Call, src: NodeValue) -> tuple[NodeValue, ...]:
    attrs = {**_window(call), "kernel_shape": call.s64s("kernel"), "storage_order": int(call.flag("column_major"))}
    return src.body.nodes_results("MaxPool", [src], [src.dtype, DataType.s64], "", **attrs)


@composes("host MaxUnpool")
def max_unpool(call: Call, src: NodeValue, indices: NodeValue, shape: NodeValue) -> NodeValue:
    zeros = src.body.scalar(0, src.dtype).op("Expand", shape)
    flat = zeros.reshape(-1).op("ScatterElements", indices.reshape(-1), src.reshape(-1), axis=0)
    return flat.op("Reshape", shape, allowzero=1)


@writes("host DeformColumns")
def deform_columns(call: Call, src: NodeValue, offsets: NodeValue, mask: NodeValue | None = None) -> NodeValue:
    """A DeformConv whose weights take one element of each window."""
    batch, channels, taps, windows = known_dims_of(call, call.shapes[0], "src and offsets")
    weights = np.tile(np.eye(taps, dtype=src.dtype.numpy), (channels, 1)).reshape(-1, 1, *call.s64s("kernel"))
    attrs: dict[str, Any] = {**_window(call), "kernel_shape": call.s64s("kernel"), "group": channels}
    made = src.op(
        "DeformConv",
        src.body.constant(weights),
        offsets,
        None,
        mask,
        offset_group=call.s64("offset_groups"),
        **attrs,
    )
    return made.reshape(batch, channels, prod(call.s64s("kernel")), windows)


@writes("host GridSample")
def grid_sample(call: Call, src: NodeValue, grid: NodeValue) -> NodeValue:
    attrs: dict[str, Any] = {"mode": call.string("mode"), "padding_mode": call.string("padding")}
    return src.op("GridSample", grid, align_corners=int(call.flag("align_corners")), **attrs)


@writes("host Compress")
def compress(call: Call, src: NodeValue, condition: NodeValue) -> NodeValue:
    return src.op("Compress", condition, axis=call.s64("axis"))
