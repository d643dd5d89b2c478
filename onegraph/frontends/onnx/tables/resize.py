"""Lowers nodes that resize images."""

from __future__ import annotations

import numpy as np

from ....lowering import resize as lowering
from ....lowering import sampling
from ....lowering.emitter import Value
from ....lowering.resize import Axis, Sampling
from ..node import Node, NotLowered, Unsettled, lowers


@lowers("Resize")
def resize(node: Node) -> Value:
    """Axes resized to sizes or by scales."""
    shape, axes = node.dims(), node.attr("axes") or [*range(node.rank())]
    axes = [axis % len(shape) for axis in axes]
    dims = [shape[axis] for axis in axes]
    first = node.opset < 11  # op set 10 has the scales alone, and one way of sampling
    scales, sizes, crop = (
        (node.settled(1), None, None) if first else (node.settled(2), node.integers(3), node.settled(1))
    )
    if sizes is not None:
        open_ = [axis for axis, dim, size in zip(axes, dims, sizes, strict=True) if dim is None]
        if open_:
            raise Unsettled("unknown dims")
        counts, factors = lowering.settled_sizes(dims, sizes, node.attr("keep_aspect_ratio_policy", "stretch"))
    elif scales is not None:
        factors = [float(scale) for scale in scales]
        counts = [int((dim or 0) * factor) for dim, factor in zip(dims, factors, strict=True)]
    else:
        raise NotLowered("neither sizes nor scales")
    mode = "asymmetric" if first else node.attr("coordinate_transformation_mode", "half_pixel")
    bounds = [0.0] * len(axes) + [1.0] * len(axes) if crop is None or not crop.size else [float(one) for one in crop]
    found = {
        axis: Axis(dim, count, factor, begin, end)
        for axis, dim, count, factor, begin, end in zip(
            axes, dims, counts, factors, bounds[: len(axes)], bounds[len(axes) :], strict=True
        )
        if dim is not None
    }
    if mode == "tf_crop_and_resize":
        found = {axis: one for axis, one in found.items() if (one.size, one.begin, one.end) != (one.count, 0, 1)}
    sampling = Sampling(
        node.attr("mode", "nearest"),
        mode,
        "floor" if first else node.attr("nearest_mode", "round_prefer_floor"),
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
        node.attr("extrapolation_value", 0.0),
    )
    changed = {axis: factor for axis, factor in zip(axes, factors, strict=True) if factor != 1}
    if any(shape[axis] is None for axis in changed):
        return lowering.enlarged(node.emit, node.value(0), changed, sampling)
    return lowering.resize(node.emit, node.value(0), found, sampling)


@lowers("Upsample")
def upsample(node: Node) -> Value:
    """Axes enlarged by scales, which are an attribute before op set 9."""
    scales = np.array(node.attr("scales")) if node.has("scales") else node.settled(1)
    shape = node.dims()
    if scales is None:
        raise NotLowered("no scales")
    sampling = Sampling(node.attr("mode", "nearest"), "asymmetric", "floor")
    axes = [*enumerate(zip(shape, scales.tolist(), strict=True))]
    changed = {place: scale for place, (_, scale) in axes if scale != 1}
    if any(shape[place] is None for place in changed):
        return lowering.enlarged(node.emit, node.value(0), changed, sampling)
    sizes = {place: shape[place] or 0 for place in changed}
    found = {place: Axis(sizes[place], int(sizes[place] * scale), scale) for place, scale in changed.items()}
    return lowering.resize(node.emit, node.value(0), found, sampling)


@lowers("GridSample")
def grid_sample(node: Node) -> Value:
    """Images sampled at the places of a grid."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(found := node.attr("mode", "linear"), found)
    return sampling.grid_sample(
        node.emit,
        node.value(0),
        node.value(1),
        mode,
        node.attr("padding_mode", "zeros"),
        align_corners=bool(node.attr("align_corners", 0)),
    )
