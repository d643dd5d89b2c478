"""Lowers nodes that resize images."""

from __future__ import annotations

from ...._util.counted import counted
from ....lowering import resize as lowering
from ....lowering import sampling
from ....lowering.emitter import Value
from ....lowering.resize_axes import Axis, Sampling, scaled, settled_sizes
from ..node import Node, NotLowered, Unsettled, lowers


@lowers("Resize")
def resize(node: Node, coordinates: str = "half_pixel", nearest: str = "round_prefer_floor") -> Value:
    """Axes resized to sizes or by scales. The texts are the defaults of two attributes."""
    shape, axes = node.dims(), node.attr("axes") or [*range(node.rank())]
    axes = [axis % len(shape) for axis in axes]
    dims = [shape[axis] for axis in axes]
    scales, sizes, crop = node.settled(2), node.integers(3), node.settled(1)
    wanted = ("scale", scales, len(axes)) if sizes is None else ("size", sizes, len(axes))
    for name, numbers, count in (wanted, ("bound", crop, 2 * len(axes))):
        if numbers is not None and len(numbers) != count and (name != "bound" or len(numbers)):
            raise node.invalid(counted(len(numbers), name), f"{count} for {counted(len(axes), 'axis')}")
    if sizes is not None:
        open_ = [axis for axis, dim, size in zip(axes, dims, sizes, strict=True) if dim is None]
        if open_:
            raise Unsettled("unknown dims")
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        counts, factors = settled_sizes(dims, sizes, policy)
        are_ratios = [policy == "stretch"] * len(dims)
    elif scales is not None:
        factors = [float(scale) for scale in scales]
        pairs = [scaled(dim or 0, factor) for dim, factor in zip(dims, factors, strict=True)]
        counts, are_ratios = [count for count, _ in pairs], [is_ratio for _, is_ratio in pairs]
    else:
        raise NotLowered("neither sizes nor scales")
    mode = node.attr("coordinate_transformation_mode", coordinates)
    bounds = [0.0] * len(axes) + [1.0] * len(axes) if crop is None or not crop.size else [float(one) for one in crop]
    axes_found = {
        axis: Axis(dim, count, factor, begin, end, is_ratio)
        for axis, dim, count, factor, begin, end, is_ratio in zip(
            axes, dims, counts, factors, bounds[: len(axes)], bounds[len(axes) :], are_ratios, strict=True
        )
        if dim is not None
    }
    if mode == "tf_crop_and_resize":
        axes_found = {
            axis: one for axis, one in axes_found.items() if (one.size, one.begin, one.end) != (one.count, 0, 1)
        }
    sampling = Sampling(
        node.attr("mode", "nearest"),
        mode,
        node.attr("nearest_mode", nearest),
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
        node.attr("extrapolation_value", 0.0),
    )
    changed = {axis: factor for axis, factor in zip(axes, factors, strict=True) if factor != 1}
    if any(shape[axis] is None for axis in changed):
        return lowering.enlarged(node.emit, node.value(0), changed, sampling)
    return lowering.resize(node.emit, node.value(0), axes_found, sampling)


@lowers("GridSample")
def grid_sample(node: Node) -> Value:
    """Images sampled at the places of a grid."""
    return sampling.grid_sample(
        node.emit,
        node.value(0),
        node.value(1),
        node.attr("mode", "linear"),
        node.attr("padding_mode", "zeros"),
        align_corners=bool(node.attr("align_corners", 0)),
    )
