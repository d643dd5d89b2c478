"""The geometry of sliding windows, shared by the convolution and pooling categories.

Every function works on one spatial axis and on whole lists of axes alike; an unknown size is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .schema import Call, Finding, Shape

Dim = int | None


def extent(kernel: int, dilation: int) -> int:
    """How far a dilated kernel reaches: ``(kernel - 1) * dilation + 1``; dilation 1 means none."""
    return (kernel - 1) * dilation + 1


def split_padding(total: int, auto_pad: str) -> tuple[int, int]:
    """Padding at the (begin, end) of an axis that needs ``total``: the odd element goes to the end for same_upper.

    The page of ConvolutionBackwardData prints it the other way round; its own attribute text, all other pages and the
    library agree on this one. ``total`` is clamped at 0; valid pads nothing.
    """
    if auto_pad == "valid" or total <= 0:
        return 0, 0
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "same_upper" else (large, small)


@dataclass(frozen=True)
class Window:
    """One spatial axis of a convolution or pooling: sizes, kernel, stride, dilation, padding at both ends."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        """How far the dilated kernel reaches."""
        return extent(self.kernel, self.dilation)

    def forward(self, size: int) -> int:
        """Number of window positions on ``size`` elements (zero or negative: the window does not fit)."""
        return (size + self.begin + self.end - self.extent) // self.stride + 1

    def transposed(self, size: int, output_padding: int = 0) -> int:
        """Number of elements that a transposed convolution makes of ``size`` elements."""
        return self.stride * (size - 1) + self.extent - self.begin - self.end + output_padding


def spatial(shape: Shape, data_format: str) -> tuple[Dim, ...]:
    """The spatial dims of an activation tensor in NXC or NCX."""
    assert shape is not None
    return shape[1:-1] if data_format == "NXC" else shape[2:]


def channels(shape: Shape, data_format: str) -> Dim:
    """The channel dim of an activation tensor in NXC or NCX."""
    assert shape is not None
    return shape[-1] if data_format == "NXC" else shape[1]


def activation(batch: Dim, channel: Dim, size: Sequence[Dim], data_format: str) -> Shape:
    """The shape of an activation tensor in NXC or NCX."""
    return (batch, *size, channel) if data_format == "NXC" else (batch, channel, *size)


def kernel_size(shape: Shape, weights_format: str) -> tuple[Dim, ...]:
    """The spatial dims of a weights tensor: X stands first (XIO, XOI) or last (OIX, IOX)."""
    assert shape is not None
    return shape[:-2] if weights_format.startswith("X") else shape[2:]


def kernel_channels(shape: Shape, weights_format: str) -> tuple[Dim, Dim]:
    """The two channel dims of a weights tensor, in the order in which the format names them."""
    assert shape is not None
    return (shape[-2], shape[-1]) if weights_format.startswith("X") else (shape[0], shape[1])


# Rules ---------------------------------------------------------------------------------------------------------------

# Attributes, and inputs of the same names, whose length is the rank of the activations.
SHAPE_LISTS = ("dst_shape", "weights_shape", "src_shape")
SPATIAL_LISTS = ("strides", "kernel", "pads_begin", "pads_end", "dilations", "output_padding")


def spatial_rank(call: Call) -> Iterable[Finding]:
    """Activations have one batch, one channel and one to three spatial axes."""
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        if port.name not in ("src", "diff_dst", "weights") or tensor is None or tensor.rank is None:
            continue
        if not 3 <= tensor.rank <= 5:
            yield Finding(port.name, f"rank {tensor.rank}", "rank 3, 4 or 5: batch, channels and 1 to 3 spatial axes")
    ranks = {tensor.rank for tensor in call.inputs[:2] if tensor is not None and tensor.rank is not None}
    if len(ranks) == 2 and call.schema.category == "convolution":
        second = call.schema.inputs[1].name
        yield Finding(second, f"rank {call.rank(second)}", f"the rank of {call.schema.inputs[0].name}")


def _ranks(call: Call) -> Iterator[int]:
    """The rank of the activations, from each of the inputs and shapes that say it."""
    shapes = []
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        shape = None if tensor is None else tensor.shape
        if shape is not None and port.name in SHAPE_LISTS:
            shapes += [dim for dim in shape[:1] if dim is not None]
        elif shape is not None:
            yield len(shape)
    yield from shapes
    yield from (len(call.s64s(name)) for name in SHAPE_LISTS if call.has(name))


def spatial_list_length(call: Call) -> Iterable[Finding]:
    """Lists that go over the spatial axes have one element for each of them."""
    rank = next(_ranks(call), None)
    if rank is None or not 3 <= rank <= 5:
        return
    automatic = call.schema.has_attribute("auto_pad") and call.attr("auto_pad") != "none"
    for name in SPATIAL_LISTS:
        if not call.has(name) or (automatic and name.startswith("pads_")):
            continue
        given = call.s64s(name)
        if len(given) != rank - 2:
            yield Finding(name, list(given), f"{rank - 2} elements, one for each spatial axis of a rank {rank} tensor")
