"""Defines the interpolation category: Interpolate, which resizes the spatial axes, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..._util.counted import counted
from ..._util.open_sizes import is_open, is_whole
from ..schema import Call, RuleFinding, Schema
from ..shapes import Dim, compatible, merge, of_rank, show
from ..signature import FLOATS, POSITIVE, Attribute, Range, Shape, ports
from ..traits import Trait
from ..window import activation, channels, spatial, spatial_rank

FINITE = Range("positive and finite", lambda number: 0 < number < math.inf)
LARGEST = 2**63 - 1

ATTRIBUTES = (
    Attribute(
        "mode",
        "str",
        "nearest: the nearest element; linear: linear along every spatial axis; bilinear and trilinear: linear with "
        "exactly 2 and 3 spatial axes.",
        required=True,
        values=("nearest", "linear", "bilinear", "trilinear"),
    ),
    Attribute(
        "coordinate_transformation_mode",
        "str",
        "Position in src of index y, for an axis of size n that is resized to m: half_pixel: (y + 0.5) * n / m - 0.5; "
        "align_corners: y * (n - 1) / (m - 1).",
        default="half_pixel",
        values=("half_pixel", "align_corners"),
    ),
    Attribute(
        "sizes",
        "s64[]",
        "Size of dst along each spatial axis; an input of this name overrides it.",
        range=POSITIVE,
        none_is_default=True,
    ),
    Attribute(
        "scales",
        "f32[]",
        "Factor for each spatial axis: dst has size * scale elements, rounded down. Ignored if sizes is given.",
        range=FINITE,
        none_is_default=True,
        ignored_beside="sizes",
    ),
    Attribute("data_format", "str", "Axis order: NXC or NCX.", default="NXC", values=("NCX", "NXC")),
)


def _given(call: Call, name: str) -> bool:
    """Whether attribute ``name`` is given and not an empty list."""
    return call.has(name) and bool(call.attr(name))


def is_scaled_twice(call: Call) -> bool:
    """Whether both sizes and scales are given."""
    return _given(call, "sizes") and _given(call, "scales")


def _scaled(size: Dim, scale: float) -> float | None:
    """The scaled size before rounding, in the 32-bit arithmetic of the library."""
    if size is None:
        return None
    if is_open((size,)) and scale.is_integer() and size * int(scale) < 2**24:  # exact in 32 bits
        return size * int(scale)
    with np.errstate(over="ignore"):
        return float(np.float32(size) * np.float32(scale))


def _scaled_sizes(call: Call) -> tuple[float | None, ...]:
    scales, shape = call.f32s("scales"), call.shape("src")
    sizes = (None,) * len(scales) if shape is None else spatial(shape, call.string("data_format"))
    return tuple(_scaled(size, scale) for size, scale in zip(sizes, scales, strict=False))


def resized(call: Call) -> tuple[Dim, ...] | None:
    """Spatial sizes of the resized tensor; None if their number is unknown."""
    tensor = call.input("sizes")
    if tensor is not None:
        value = call.value("sizes")
        if value is not None:
            return value
        if tensor.shape is not None and tensor.shape[0] is not None:
            return of_rank(tensor.shape[0])
    elif _given(call, "sizes"):
        return call.s64s("sizes")
    elif _given(call, "scales"):
        return tuple(size if size is None or is_whole(size) else int(size) for size in _scaled_sizes(call))
    rank = call.rank("src")
    return None if rank is None else (None,) * (rank - 2)


# Rules ---------------------------------------------------------------------------------------------------------------


def size_source(call: Call) -> Iterable[RuleFinding]:
    """The attribute sizes or scales is given, or the input sizes."""
    if not (_given(call, "sizes") or _given(call, "scales")) and call.input("sizes") is None:
        yield RuleFinding("sizes", "neither sizes nor scales", "one of the two", "pass sizes as an attribute")


def one_size_source(call: Call) -> Iterable[RuleFinding]:
    """Only one of the attributes sizes and scales is given."""
    if is_scaled_twice(call):
        yield RuleFinding("scales", "both sizes and scales", "one of the two", "leave scales out")


def size_values(call: Call) -> Iterable[RuleFinding]:
    """sizes, or scales if they are used, have one element for each spatial axis, and the new sizes are valid."""
    tensor, rank = call.input("sizes"), call.rank("src")
    if tensor is not None and tensor.rank not in (None, 1):
        yield RuleFinding("sizes", f"rank {tensor.rank}", "a tensor of rank 1")
        return
    value = call.value("sizes")
    used = "scales" if _given(call, "scales") and not _given(call, "sizes") else "sizes"
    counts: dict[str, Dim] = {used: len(call.f32s(used))} if _given(call, used) else {}
    if tensor is not None and tensor.shape is not None:
        counts["sizes"] = tensor.shape[0]
    for name, count in counts.items():
        if rank is not None and rank > 2 and count is not None and count != rank - 2:
            yield RuleFinding(
                name, counted(count, "element"), f"{rank - 2}, one for each spatial axis of a rank {rank} src"
            )
    if value is not None and any(size <= 0 for size in value):
        yield RuleFinding("sizes", list(value), "positive sizes")
    if tensor is None and not _given(call, "sizes") and _given(call, "scales"):
        for size in _scaled_sizes(call):
            if size is not None and size >= LARGEST:
                yield RuleFinding("scales", list(call.f32s("scales")), "sizes that fit 64 bits")


def mode_rank(call: Call) -> Iterable[RuleFinding]:
    """bilinear needs two spatial axes, trilinear three."""
    mode, sizes = call.string("mode"), resized(call)
    wanted = {"bilinear": 2, "trilinear": 3}.get(mode)
    if wanted is not None and sizes is not None and len(sizes) != wanted:
        modes = {2: "bilinear, linear", 3: "trilinear, linear"}.get(len(sizes), "linear")
        yield RuleFinding("mode", mode, f"{modes} or nearest, as src has rank {len(sizes) + 2}", "set mode to linear")


def source_has_elements(call: Call) -> Iterable[RuleFinding]:
    """A spatial axis of src is empty only if the resized axis is empty."""
    shape, fmt = call.shape("src"), call.string("data_format")
    if shape is None:
        return
    resizings = [resized(call)]
    if call.schema.kind == "InterpolateBackward" and _keeps_source(call):  # the library takes a diff_dst of any sizes
        gradient = call.shape("diff_dst")
        resizings.append(None if gradient is None else spatial(gradient, fmt))
    pairs = [pair for sizes in resizings if sizes is not None for pair in zip(spatial(shape, fmt), sizes, strict=True)]
    if any(old == 0 and new for old, new in pairs):
        yield RuleFinding("src", f"shape {show(shape)}", "spatial axes with elements")


def gradient_kept(call: Call) -> Iterable[RuleFinding]:
    """diff_dst has the rank, the batch and the channels of src."""
    if not _keeps_source(call):
        yield _unfit_gradient(call)


def gradient_resized(call: Call) -> Iterable[RuleFinding]:
    """diff_dst has the spatial sizes of the result of the forward op."""
    if _keeps_source(call) and not compatible(call.shape("diff_dst"), forward_shape(call)[0]):
        yield _unfit_gradient(call)


def _keeps_source(call: Call) -> bool:
    shape, fmt = call.shape("src"), call.string("data_format")
    if shape is None:
        return True
    kept = activation(shape[0], channels(shape, fmt), (None,) * (len(shape) - 2), fmt)
    return compatible(call.shape("diff_dst"), kept)


def _unfit_gradient(call: Call) -> RuleFinding:
    return RuleFinding("diff_dst", f"shape {show(call.shape('diff_dst'))}", f"shape {show(forward_shape(call)[0])}")


# Shapes --------------------------------------------------------------------------------------------------------------


def forward_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src with the new spatial sizes."""
    shape, sizes, fmt = call.shape("src"), resized(call), call.string("data_format")
    if sizes is None:
        return (None,)
    batch, channel = (None, None) if shape is None else (shape[0], channels(shape, fmt))
    return (activation(batch, channel, sizes, fmt),)


def backward_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src; unknown batch and channels are taken from diff_dst."""
    gradient, fmt = call.shape("diff_dst"), call.string("data_format")
    if gradient is None:
        return (call.shape("src"),)
    known = activation(gradient[0], channels(gradient, fmt), (None,) * (len(gradient) - 2), fmt)
    return (merge(call.shape("src"), known),)


OPS = (
    Schema(
        "Interpolate",
        "interpolate",
        "interpolation",
        "Resizes the spatial axes of src. Positions outside src read its border element. Halfway between two elements, "
        "nearest takes the one with the higher index.",
        ports("src:T sizes:s32?"),
        ports("dst:T"),
        FLOATS,
        forward_shape,
        ATTRIBUTES,
        rules=(spatial_rank, size_source, size_values),
        shape_rules=(mode_rank, source_has_elements),
        traits=Trait.PER_CHANNEL | Trait.BY_ROW | Trait.BOUNDED,
    ),
    Schema(
        "InterpolateBackward",
        "interpolate_backward",
        "interpolation",
        "Gradient of Interpolate: every element of diff_dst is added, times its weights, to the elements of diff_src "
        "that it was interpolated from. Only the shape of src is read; sizes and scales are those of the forward op.",
        ports("src:T diff_dst:T sizes:s32?"),
        ports("diff_src:T"),
        FLOATS,
        backward_shape,
        ATTRIBUTES,
        rules=(spatial_rank, size_source, size_values),
        shape_rules=(mode_rank, source_has_elements, gradient_kept, gradient_resized),
        traits=Trait.PER_CHANNEL,
    ),
)
