"""Convolutions with a channel in each group that oneDNN computes slowly: 3 to 30 times as long as the way around."""

from __future__ import annotations

from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ..opset.schema import Call
from .fault import SLOW, Faults
from .ops.windows import IMAGE, ROW

DEPTHWISE = Faults[Call]()


def depthwise_geometry(call: Call, axes: int) -> ConvolutionGeometry | None:
    """The geometry of a convolution over ``axes`` axes, or of its gradient, with one channel in each of its groups."""
    geometry = convolution_geometry(call)
    if geometry is None or len(geometry.strides) != axes or geometry.groups == 1:
        return None
    return geometry if geometry.wide_channels == geometry.narrow_channels == geometry.groups else None


def _is_row(call: Call) -> bool:
    """Whether windows move along one axis only; with gaps between their elements, gradients have no fast kernel."""
    geometry = depthwise_geometry(call, 1)
    return geometry is not None and (call.schema.kind == "Convolution" or geometry.dilations == (1,))


SLOW_ROWS = DEPTHWISE.add(
    "slow_depthwise_rows",
    ops="Convolution ConvTranspose ConvolutionBackwardWeights",
    where="",
    severity=SLOW,
    when=_is_row,
    seen={(3, 2): "slow"},
    reason="Convolutions with a channel in each group have fast kernels for images, but not for rows",
    instead="the same op on an image whose height or width is 1",
)


@SLOW_ROWS.example({(3, 2): "right"})
def row_of_separate_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 40, 16)), g.input("w", "f32", (3, 1, 16))
    return g.op("Convolution", ends, {**ROW, "groups": 16})


class Padding(NamedTuple):
    """A Convolution, and how much padding before or behind a row of an image its kernel takes on a CPU."""

    call: Call
    most: int


# With and without AVX-512.
MOST_PADS, MOST_PADS_AVX2 = 6, 4


def _is_far(padding: Padding) -> bool:
    """Whether the rows of images have more padding than the kernel takes, and there are gaps in the windows."""
    geometry = depthwise_geometry(padding.call, 2)
    if geometry is None or geometry.pads_begin is None or geometry.pads_end is None or geometry.dilations == (1, 1):
        return False
    return max(geometry.pads_begin[1], geometry.pads_end[1]) > padding.most


PADDINGS = Faults[Padding]()
FAR_PADS = PADDINGS.add(
    "slow_depthwise_padding",
    ops="Convolution",
    where="pads_begin",
    severity=SLOW,
    when=_is_far,
    seen={(3, 2): "slow"},
    reason="A Convolution with a channel in each group and gaps in its windows is slow with wide padding of its rows",
    instead="a Concat with zeros, and the same op without this padding",
)


@FAR_PADS.example({(3, 2): "right"})
def windows_with_wide_gaps(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 20, 20, 16)), g.input("w", "f32", (3, 3, 1, 16))
    wide = {"dilations": [8, 8], "pads_begin": [8, 8], "pads_end": [8, 8], "groups": 16}
    return g.op("Convolution", ends, {**IMAGE, **wide})
