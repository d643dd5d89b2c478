"""Lowers the resizing of images, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...._util.open_sizes import is_open
from ...._util.records import record
from ....lowering import resize
from ....lowering.emitter import Value
from ....lowering.resize_axes import Axis, Sampling, scaled
from ....lowering.sampling import grid_sample
from ..node import AtenNode, NotLowered, lowers
from .elementwise import native


@record(frozen=True)
class Family:
    """Ops that resize in one way.

    Attributes:
        sampling: how elements between those of the source are found.
        ranks: numbers of spatial axes, by which the names of the ops end.
    """

    sampling: Sampling
    ranks: tuple[int, ...]


FAMILIES: Mapping[str, Family] = {
    "upsample_nearest": Family(Sampling("nearest", "pytorch_nearest", "floor"), (1, 2, 3)),
    "_upsample_nearest_exact": Family(Sampling("nearest", "pytorch_nearest_exact", "floor"), (1, 2, 3)),
    "upsample_linear": Family(Sampling("linear"), (1,)),
    "upsample_bilinear": Family(Sampling("linear"), (2,)),
    "upsample_trilinear": Family(Sampling("linear"), (3,)),
    "upsample_bicubic": Family(Sampling("cubic"), (2,)),
    "_upsample_bilinear2d_aa": Family(Sampling("linear", antialias=True, exclude_outside=True), (2,)),
    "_upsample_bicubic2d_aa": Family(Sampling("cubic", cubic=-0.5, antialias=True, exclude_outside=True), (2,)),
}
# The family of each op, and the number of its spatial axes, by the name of the op.
RESIZING = {
    family if family.endswith("_aa") else f"{family}{count}d": (resizing.sampling, count)
    for family, resizing in FAMILIES.items()
    for count in resizing.ranks
}


def _axes(node: AtenNode, count: int, sizes: list[int], counts: list[int]) -> dict[int, Axis]:
    names = ["scales"] if count == 1 else ["scales_d", "scales_h", "scales_w"][-count:]
    factors = node["scale_factors"] or [node[name] for name in names]
    scales = [None if node["align_corners"] else scale for scale in factors]
    return {
        place: _axis(size, wanted, scale)
        for place, (size, wanted, scale) in enumerate(zip(sizes, counts, scales, strict=True), 2)
    }


def _axis(size: int, count: int, scale: float | None) -> Axis:
    if not is_open((size, count)):
        return Axis(size, count, scale or count / size)
    return Axis(size, count, scale or 0.0, is_ratio=not scale or scaled(size, scale) == (count, True))


def _sampling(node: AtenNode, name: str) -> tuple[Sampling, int]:
    sampling, count = RESIZING[name]
    if sampling.antialias and node["align_corners"]:
        raise NotLowered("a filter between aligned corners")
    return (replace(sampling, coordinates="align_corners") if node["align_corners"] else sampling), count


@lowers(
    *(f"{space}{name}.default" for name in RESIZING for space in ("", "onegraph.")),
    *(f"{name}.vec" for name in RESIZING),
)
def resized(node: AtenNode) -> Value:
    """An image resized."""
    sampling, count = _sampling(node, node.name.split(".")[1])
    name = "input" if node.name.endswith(".vec") else "self"
    axes = _axes(node, count, [*node.shape(name)[2:]], [*node.result_shape[2:]])
    return resize.resize(node.emit, native(node, name), axes, sampling)


@lowers(*(f"{space}{name}_backward.default" for name in RESIZING for space in ("", "onegraph.")))
def resized_backward(node: AtenNode) -> Value:
    """The gradient of a resized image."""
    sampling, count = _sampling(node, node.name.split(".")[1].removesuffix("_backward"))
    axes = _axes(node, count, [*node["input_size"][2:]], [*node["output_size"]])
    return resize.resize_backward(node.emit, native(node, "grad_output"), axes, sampling)


@lowers("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(node: AtenNode) -> Value:
    """Images sampled at the places of a grid."""
    mode = ("linear", "nearest", "cubic")[node["interpolation_mode"]]
    padding = ("zeros", "border", "reflection")[node["padding_mode"]]
    grid = native(node, "grid")
    corners = node["align_corners"]
    src = native(node, "input")
    return grid_sample(node.emit, src, grid, mode, padding, align_corners=corners)
