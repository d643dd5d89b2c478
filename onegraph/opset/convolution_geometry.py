"""Computes the sizes and the padding of the six ops of the convolution category.

A convolution maps a ``wide`` tensor to a ``narrow`` tensor with weights. Each of the six ops takes two of these three
tensors and computes the third. The rules, the shape functions, the numpy reference and the rewrites for the library
read sizes and padding from :class:`ConvolutionGeometry`.
"""

from __future__ import annotations

from typing import NamedTuple

from .._util.records import record
from .schema import Call, kept
from .signature import Shape
from .window import (
    SHAPE_SOURCE,
    AxisWindow,
    Dim,
    channels,
    extent,
    given_shape,
    kernel_channels,
    kernel_size,
    spatial,
    split_padding,
)


@record(frozen=True)
class ConvolutionGeometry:
    """The sizes and padding of one use of a convolution op; an unknown size is None.

    A Convolution reads the ``wide`` tensor and writes the ``narrow`` one; a ConvTranspose does the opposite. Sizes,
    strides, dilations and padding have one element for each spatial axis.
    """

    transposed: bool
    groups: int
    data_format: str
    weights_format: str
    batch: Dim
    wide_channels: Dim
    narrow_channels: Dim
    wide: tuple[Dim, ...] | None
    narrow: tuple[Dim, ...] | None
    kernel: tuple[Dim, ...] | None
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...] | None
    pads_end: tuple[int, ...] | None
    output_padding: tuple[int, ...]

    def window(self, axis: int) -> AxisWindow | None:
        """The window along spatial ``axis``; None if its kernel size or padding is unknown."""
        if self.kernel is None or self.pads_begin is None or self.pads_end is None:
            return None
        kernel = self.kernel[axis]
        if kernel is None:
            return None
        return AxisWindow(kernel, self.strides[axis], self.dilations[axis], self.pads_begin[axis], self.pads_end[axis])

    def is_padded_beyond_windows(self) -> bool:
        """Whether some padding has room for a window that covers no element of the tensor."""
        windows = map(self.window, self.axes)
        return any(window is not None and max(window.begin, window.end) >= window.extent for window in windows)

    @property
    def axes(self) -> range:
        """The indices of the spatial axes, counted from 0."""
        return range(len(self.strides))

    def forward(self) -> tuple[Dim, ...]:
        """Spatial dims of ``narrow``, computed from ``wide`` minus ``output_padding``."""
        return tuple(
            None if window is None or size is None else window.forward(size - added)
            for window, size, added in zip(
                map(self.window, self.axes),
                self.wide or (None,) * len(self.axes),
                self.output_padding,
                strict=True,
            )
        )

    def backward(self) -> tuple[Dim, ...]:
        """Spatial dims of ``wide``, computed from ``narrow`` and ``output_padding``."""
        return tuple(
            None if window is None or size is None else window.transposed(size, added)
            for window, size, added in zip(
                map(self.window, self.axes),
                self.narrow or (None,) * len(self.axes),
                self.output_padding,
                strict=True,
            )
        )


# Input ports of each op: op -> (wide, narrow, weights); None for the tensor that the op computes.
SIDES: dict[str, tuple[str | None, str | None, str | None]] = {
    "Convolution": ("src", None, "weights"),
    "ConvolutionBackwardData": (None, "diff_dst", "weights"),
    "ConvolutionBackwardWeights": ("src", "diff_dst", None),
    "ConvTranspose": (None, "src", "weights"),
    "ConvTransposeBackwardData": ("diff_dst", None, "weights"),
    "ConvTransposeBackwardWeights": ("diff_dst", "src", None),
}


@kept
def convolution_geometry(call: Call) -> ConvolutionGeometry | None:
    """The geometry of this use; None if no rank is known. The lists must already have the right lengths."""
    kind = call.schema.kind
    wide_port, narrow_port, weights_port = SIDES[kind]
    data_format, weights_format = call.string("data_format"), call.string("weights_format")
    transposed = kind.startswith("ConvTranspose")
    groups = call.s64("groups")
    wide = call.shape(wide_port) if wide_port else given_shape(call) if kind in SHAPE_SOURCE else None
    narrow = call.shape(narrow_port) if narrow_port else None
    weights = call.shape(weights_port) if weights_port else given_shape(call)
    known = next((shape for shape in (wide, narrow, weights) if shape is not None), None)
    if known is None:
        return None
    n = len(known) - 2

    batch = next((shape[0] for shape in (wide, narrow) if shape is not None and shape[0] is not None), None)
    wide_channels, narrow_channels = _channels(wide, narrow, weights, data_format, weights_format, groups)
    kernel = None if weights is None else kernel_size(weights, weights_format)
    added = call.s64s("output_padding", n) if call.schema.has_attribute("output_padding") else (0,) * n
    sizes = _Sizes(
        kind,
        None if wide is None else spatial(wide, data_format),
        None if narrow is None else spatial(narrow, data_format),
        kernel,
        call.s64s("strides"),
        call.s64s("dilations"),
        added,
    )
    begin, end = _padding(call, sizes)
    return ConvolutionGeometry(
        transposed,
        groups,
        data_format,
        weights_format,
        batch,
        wide_channels,
        narrow_channels,
        sizes.wide,
        sizes.narrow,
        kernel,
        sizes.strides,
        sizes.dilations,
        begin,
        end,
        added,
    )


def _channels(
    wide: Shape, narrow: Shape, weights: Shape, data_format: str, weights_format: str, groups: int
) -> tuple[Dim, Dim]:
    """Number of channels of ``wide`` and of ``narrow``: from their shapes, or else from the weights."""
    of_wide = None if wide is None else channels(wide, data_format)
    of_narrow = None if narrow is None else channels(narrow, data_format)
    if weights is None:
        return of_wide, of_narrow
    first, second = kernel_channels(weights, weights_format)
    # OIX, IOX: the first dim counts all channels of narrow, the second the channels of wide per group.
    # XIO, XOI: the reverse.
    whole, part = (second, first) if weights_format.startswith("X") else (first, second)
    if of_wide is None and part is not None:
        of_wide = part * groups
    return of_wide, whole if of_narrow is None else of_narrow


class _Sizes(NamedTuple):
    """The values that ``auto_pad`` computes the padding from, for each spatial axis; None if unknown."""

    kind: str
    wide: tuple[Dim, ...] | None
    narrow: tuple[Dim, ...] | None
    kernel: tuple[Dim, ...] | None
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    added: tuple[int, ...]

    def total_padding(self, axis: int) -> int | None:
        """Padding along an axis, both ends together, for ``same_upper`` and ``same_lower``; None if unknown."""
        wide, narrow, kernel = (None if dims is None else dims[axis] for dims in (self.wide, self.narrow, self.kernel))
        return _total_padding(
            self.kind, wide, narrow, kernel, self.strides[axis], self.dilations[axis], self.added[axis]
        )


def _padding(call: Call, sizes: _Sizes) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Padding at the begin and at the end of each spatial axis; None if it depends on unknown sizes."""
    auto_pad, axes = call.string("auto_pad"), range(len(sizes.strides))
    if auto_pad == "none":
        return call.s64s("pads_begin"), call.s64s("pads_end")
    totals = [0 if auto_pad == "valid" else sizes.total_padding(axis) for axis in axes]
    known = [total for total in totals if total is not None]
    if len(known) < len(totals):
        return None, None
    pairs = [split_padding(total, auto_pad) for total in known]
    return tuple(begin for begin, _ in pairs), tuple(end for _, end in pairs)


def _total_padding(
    kind: str, wide: Dim, narrow: Dim, kernel: Dim, stride: int, dilation: int, added: int
) -> int | None:
    """Total padding of same_upper and same_lower along one axis; None if it depends on an unknown size."""
    if kernel is None:
        return None
    reach = extent(kernel, dilation)
    if kind.startswith("ConvTranspose"):
        return reach - stride
    if wide is None:
        return None
    if kind == "ConvolutionBackwardData":
        return None if narrow is None else stride * (narrow - 1) + reach - wide + added
    return stride * (-(-wide // stride) - 1) + reach - wide
