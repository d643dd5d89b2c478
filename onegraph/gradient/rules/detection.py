"""Gradients of host ops of models that detect objects."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value, numbers
from ...lowering.movement import dims_of, reshape, unsqueeze
from ...lowering.sampling import composed_grid_sample
from ..use import GradientUse
from .indexing import zeros_like
from .table import composed, gradient_of, refused

refused("host CumProd", "it divides by elements that may be 0; write it as the exponential of a CumSum of logarithms")
refused("host RoiAlign, host DeformColumns", "its samples have no op that takes a gradient back to the pixels")
refused("host Compress", "the shape of its result depends on the condition; multiply by the condition instead")


@gradient_of("MaxPoolPlaces", "src")
def max_pool_places(emit: Emitter, use: GradientUse, diff: Value | None, _places: None = None) -> Value | None:
    if diff is None:
        return None
    zeros = reshape(emit, zeros_like(emit, use["src"], diff), numbers(-1))
    places = reshape(emit, use.result("places"), numbers(-1))
    attrs = {"axis": 0, "reduction": "add"}
    scattered = emit.op("ScatterElements", [zeros, places, reshape(emit, diff, numbers(-1))], attrs)
    return reshape(emit, scattered, dims_of(emit, use["src"]))


@gradient_of("MaxUnpool", "src")
def max_unpool(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("GatherND", [reshape(emit, diff, numbers(-1)), unsqueeze(emit, use["indices"], [-1])])


@composed("host GridSample")
def grid_sample(emit: Emitter, use: GradientUse) -> Value:
    mode, padding = use.call.string("mode"), use.call.string("padding")
    aligned = use.call.flag("align_corners")
    return composed_grid_sample(emit, use["src"], use["grid"], mode, padding, align_corners=aligned)
