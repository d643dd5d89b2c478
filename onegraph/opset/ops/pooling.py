"""Defines the pooling category: the average or the maximum of every window, and their gradients.

The rules, the shape functions, the numpy reference and the lowering to the library read the windows of one use from
:class:`PoolGeometry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..._util.counted import counted
from ..._util.records import record
from ..schema import Call, RuleFinding, Schema
from ..shapes import compatible
from ..signature import FLOATS, POSITIVE, Attribute, Fill, Shape, ports
from ..traits import Trait
from ..window import (
    SHAPE_SOURCE,
    AxisWindow,
    Dim,
    activation,
    channels,
    extent,
    given_shape,
    shape_length,
    shape_source,
    spatial,
    spatial_list_length,
    spatial_rank,
    split_padding,
)
from .convolution import AUTO_PAD, DATA_FORMAT, DILATIONS, PADS_BEGIN, PADS_END, STRIDES, spatial_list


@record(frozen=True)
class PoolGeometry:
    """The windows of one use for each spatial axis; an unknown value is None.

    ``sizes`` are the spatial sizes of the source. ``counts`` are the numbers of window positions: in a gradient op the
    spatial sizes of diff_dst, in a forward op computed from the attributes.
    """

    data_format: str
    sizes: tuple[Dim, ...]
    windows: tuple[AxisWindow | None, ...]
    counts: tuple[Dim, ...]

    def covering(self, axis: int) -> AxisWindow | None:
        """The window with its end padding changed so that the last position ends exactly at the padded end.

        With this window, rounding down gives ``counts``. The end padding is negative if the last elements of the source
        are not read. None if a size is unknown.
        """
        window, size, count = self.windows[axis], self.sizes[axis], self.counts[axis]
        if window is None or size is None or count is None:
            return None
        return replace(window, end=(count - 1) * window.stride + window.extent - size - window.begin)


def source(call: Call) -> Shape:
    """The shape of the tensor that the windows slide over."""
    return given_shape(call) if call.schema.kind in SHAPE_SOURCE else call.shape("src")


def gradient(call: Call) -> Shape:
    """The shape of diff_dst; None in a forward op."""
    return call.shape("diff_dst") if call.schema.kind.endswith("Backward") else None


def pool_geometry(call: Call) -> PoolGeometry | None:
    """The windows of this use; None if no rank is known or if ranks and list lengths differ."""
    data_format = call.string("data_format")
    whole, result = source(call), gradient(call)
    known = whole if whole is not None else result
    if known is None or (whole is not None and result is not None and len(whole) != len(result)):
        return None
    n = len(known) - 2
    kernel, strides = call.s64s("kernel"), call.s64s("strides")
    dilations = call.s64s("dilations", n) if call.schema.has_attribute("dilations") else (1,) * n
    auto_pad = call.string("auto_pad")
    lists = [kernel, strides, dilations]
    if auto_pad == "none":
        lists += [call.s64s("pads_begin"), call.s64s("pads_end")]
    if any(len(elements) != n for elements in lists):
        return None
    sizes = (None,) * n if whole is None else spatial(whole, data_format)
    windows: list[AxisWindow | None] = []
    for axis in range(n):
        pads = _padding(call, axis, sizes[axis], extent(kernel[axis], dilations[axis]), strides[axis])
        windows.append(None if pads is None else AxisWindow(kernel[axis], strides[axis], dilations[axis], *pads))
    if result is not None:
        counts = spatial(result, data_format)
    else:
        counts = tuple(_count(call, window, size) for window, size in zip(windows, sizes, strict=True))
        if auto_pad.startswith("same_"):
            counts = tuple(None if s is None else -(-s // step) for s, step in zip(sizes, strides, strict=True))
    return PoolGeometry(data_format, sizes, tuple(windows), counts)


def _padding(call: Call, axis: int, size: Dim, reach: int, stride: int) -> tuple[int, int] | None:
    """Padding at both ends of one axis; None if it depends on an unknown size."""
    auto_pad = call.string("auto_pad")
    if auto_pad == "none":
        return call.s64s("pads_begin")[axis], call.s64s("pads_end")[axis]
    if auto_pad == "valid":
        return 0, 0
    if size is None:
        return None
    return split_padding((-(-size // stride) - 1) * stride + reach - size, auto_pad)


def rounded_up(window: AxisWindow, size: int) -> int:
    """Number of window positions on ``size`` elements, where a last partial step counts too."""
    return -(-(size + window.begin + window.end - window.extent) // window.stride) + 1


def _count(call: Call, window: AxisWindow | None, size: Dim) -> Dim:
    if window is None or size is None:
        return None
    floor, ceil = window.forward(size), rounded_up(window, size)
    if call.schema.has_attribute("rounding_type"):
        return ceil if call.string("rounding_type") == "ceil" else floor
    return floor if floor == ceil else None  # a gradient op does not know the rounding of its forward op


# Rules ---------------------------------------------------------------------------------------------------------------


def gradient_match(call: Call) -> Iterable[RuleFinding]:
    """diff_dst has the rank, the batch and the channels of the source."""
    whole, result = source(call), gradient(call)
    if whole is None or result is None:
        return
    if len(whole) != len(result):
        yield RuleFinding("diff_dst", f"rank {len(result)}", f"rank {len(whole)}, as src has")
        return
    data_format = call.string("data_format")
    for name, expected, dim in (
        ("batch", whole[0], result[0]),
        ("channels", channels(whole, data_format), channels(result, data_format)),
    ):
        if not compatible((expected,), (dim,)):
            yield RuleFinding("diff_dst", f"{name} {dim}", f"{name} {expected}, as src has")


def spatial_fits(call: Call) -> Iterable[RuleFinding]:
    """The window fits, and diff_dst has one element for each window position, rounded down or up."""
    geometry = pool_geometry(call)
    if geometry is None:
        return
    where = "src_shape" if call.schema.kind == "AvgPoolBackward" else "src"
    same = call.string("auto_pad").startswith("same_")
    for axis, (window, size, count) in enumerate(zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)):
        if window is None or size is None:
            continue
        if gradient(call) is None:
            if count is not None and count < 1:
                least = max(window.extent - window.begin - window.end, 1)
                yield RuleFinding(
                    where,
                    f"{counted(size, 'element')} along spatial axis {axis}",
                    f"at least {least}, the reach of the dilated kernel without the padding",
                )
            continue
        least, most = (-(-size // window.stride),) * 2 if same else (window.forward(size), rounded_up(window, size))
        if most < 1:
            yield RuleFinding(
                where, f"{counted(size, 'element')} along spatial axis {axis}", "a source that the window fits in"
            )
        elif count is not None and not max(least, 1) <= count <= most:
            choices = str(most) if max(least, 1) == most else f"{least} or {most}"
            yield RuleFinding(
                "diff_dst",
                f"{counted(count, 'element')} along spatial axis {axis}",
                f"{choices}, the window positions on {counted(size, 'element')}",
            )


def window_meets_source(call: Call) -> Iterable[RuleFinding]:
    """With exclude_pad every window contains an element of the source, because the average divides by their number."""
    geometry = pool_geometry(call)
    if geometry is None or not call.flag("exclude_pad"):
        return
    for axis, (window, size, count) in enumerate(zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)):
        if window is None:
            continue
        if window.begin >= window.extent:
            yield RuleFinding(
                "pads_begin", f"{window.begin} along spatial axis {axis}", f"less than the kernel, {window.extent}"
            )
        elif size is not None and count is not None and (count - 1) * window.stride - window.begin >= size:
            yield RuleFinding(
                "pads_end",
                f"{window.end} along spatial axis {axis}, where window {count - 1} starts behind the source",
                "padding with which every window has an element of the source",
            )


# Shapes --------------------------------------------------------------------------------------------------------------


def pooled_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of dst."""
    geometry, shape = pool_geometry(call), call.shape("src")
    if geometry is None or shape is None:
        return (None,)
    return (activation(shape[0], channels(shape, geometry.data_format), geometry.counts, geometry.data_format),)


def source_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of AvgPoolBackward's diff_src; unknown batch and channels are taken from diff_dst."""
    shape, result = given_shape(call), call.shape("diff_dst")
    if result is None:
        return (shape,)
    data_format = call.string("data_format")
    if shape is None:
        shape = (None,) * len(result)
    outer = [
        fallback if dim is None else dim
        for dim, fallback in (
            (shape[0], result[0]),
            (channels(shape, data_format), channels(result, data_format)),
        )
    ]
    return (activation(outer[0], outer[1], spatial(shape, data_format), data_format),)


# Ops -----------------------------------------------------------------------------------------------------------------


def _stays_inside(attrs: Mapping[str, object]) -> bool:
    """Whether no window reaches beyond the source, so that both values of exclude_pad say the same."""
    pads = [pad if isinstance(pad, (list, tuple)) else [pad] for pad in map(attrs.get, ("pads_begin", "pads_end"))]
    words = attrs.get("auto_pad", "none"), attrs.get("rounding_type", "floor")
    are_zero = all(number is None or (type(number) is int and number == 0) for pad in pads for number in pad)
    return are_zero and all(type(word) is str for word in words) and words in {("none", "floor"), ("valid", "floor")}


KERNEL = spatial_list("kernel", POSITIVE, "Size of the window along each spatial axis.")
EXCLUDE_PAD = Attribute(
    "exclude_pad",
    "bool",
    "True: divide by the number of elements of src in the window; False: by the size of the kernel.",
    required=True,
    implied=False,
    implied_if=_stays_inside,
)
ROUNDING_TYPE = Attribute(
    "rounding_type",
    "str",
    "Rounding of the number of window positions if the last step is partial: floor omits that step, ceil adds it.",
    default="floor",
    values=("floor", "ceil"),
)
UNPADDED = (
    replace(
        PADS_BEGIN,
        doc="Padding before the first element of each spatial axis, never the maximum; ignored with auto_pad.",
    ),
    replace(
        PADS_END, doc="Padding after the last element of each spatial axis, never the maximum; ignored with auto_pad."
    ),
)
OPTIONAL_DILATIONS = replace(DILATIONS, required=False, default=Fill(1), implied=None)
# Not implied as by a convolution: numpy's windows move by 1, those of other frameworks by the size of the kernel.
POOL_STRIDES = replace(STRIDES, implied=None)
SRC_SHAPE = Attribute("src_shape", "s64[]", "Shape of diff_src; an input of this name overrides it.", range=POSITIVE)
RULES = (spatial_rank, spatial_list_length)

OPS = (
    Schema(
        "AvgPool",
        "avg_pool",
        "pooling",
        "dst[n, c, y] = sum_k src[n, c, y * stride + k - pads_begin] / count; exclude_pad selects the count.",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        pooled_shape,
        (POOL_STRIDES, PADS_BEGIN, PADS_END, KERNEL, EXCLUDE_PAD, ROUNDING_TYPE, AUTO_PAD, DATA_FORMAT),
        rules=RULES,
        shape_rules=(spatial_fits, window_meets_source),
        traits=Trait.PER_CHANNEL | Trait.BY_ROW | Trait.BOUNDED,
    ),
    Schema(
        "AvgPoolBackward",
        "avg_pool_backward",
        "pooling",
        "Gradient of AvgPool: every element of diff_dst is distributed evenly over its window. diff_dst may come from "
        "either rounding_type.",
        ports("diff_dst:T src_shape:s32?"),
        ports("diff_src:T"),
        FLOATS,
        source_shape,
        (POOL_STRIDES, PADS_BEGIN, PADS_END, KERNEL, EXCLUDE_PAD, AUTO_PAD, DATA_FORMAT, SRC_SHAPE),
        rules=(*RULES, shape_source, shape_length),
        shape_rules=(gradient_match, spatial_fits, window_meets_source),
        traits=Trait.PER_CHANNEL,
    ),
    Schema(
        "MaxPool",
        "max_pool",
        "pooling",
        "dst[n, c, y] = max_k src[n, c, y * stride + k * dilation - pads_begin], without the padding.",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        pooled_shape,
        (POOL_STRIDES, *UNPADDED, KERNEL, ROUNDING_TYPE, AUTO_PAD, OPTIONAL_DILATIONS, DATA_FORMAT),
        rules=RULES,
        shape_rules=(spatial_fits,),
        traits=Trait.PER_CHANNEL | Trait.BY_ROW | Trait.BOUNDED,
    ),
    Schema(
        "MaxPoolBackward",
        "max_pool_backward",
        "pooling",
        "Gradient of MaxPool: every element of diff_dst is added to diff_src at the maximum of its window, the first "
        "of equal maxima. diff_dst may come from either rounding_type.",
        ports("src:T diff_dst:T"),
        ports("diff_src:T"),
        FLOATS,
        lambda call: (call.shape("src"),),
        (POOL_STRIDES, *UNPADDED, KERNEL, AUTO_PAD, OPTIONAL_DILATIONS, DATA_FORMAT),
        rules=RULES,
        shape_rules=(gradient_match, spatial_fits),
        traits=Trait.PER_CHANNEL,
    ),
)
