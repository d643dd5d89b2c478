"""Computes sizes and padding of sliding windows, for the convolution and pooling categories.

An unknown size is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .._util.counted import counted
from .._util.records import record
from .schema import Call, RuleFinding
from .shapes import MAX_RANK, of_rank, show
from .signature import Shape

Dim = int | None


def extent(kernel: int, dilation: int) -> int:
    """Size of a dilated kernel, ``(kernel - 1) * dilation + 1``; with dilation 1 the kernel is dense."""
    return (kernel - 1) * dilation + 1


def split_padding(total: int, auto_pad: str) -> tuple[int, int]:
    """Split the ``total`` padding of an axis into (begin, end); same_upper puts an odd element at the end.

    A negative ``total`` counts as 0; valid pads nothing.
    """
    if auto_pad == "valid" or total <= 0:
        return 0, 0
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "same_upper" else (large, small)


@record(frozen=True)
class AxisWindow:
    """The window along one spatial axis: kernel size, stride, dilation, and padding at both ends."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        """Size of the dilated kernel."""
        return extent(self.kernel, self.dilation)

    def forward(self, size: int) -> int:
        """Number of window positions on ``size`` elements; zero or negative if the window does not fit."""
        return (size + self.begin + self.end - self.extent) // self.stride + 1

    def transposed(self, size: int, output_padding: int = 0) -> int:
        """Number of elements that a transposed convolution computes from ``size`` elements."""
        return self.stride * (size - 1) + self.extent - self.begin - self.end + output_padding


def spatial(shape: Shape, data_format: str) -> tuple[Dim, ...]:
    """The spatial dims of an activation tensor in NXC or NCX."""
    assert shape is not None
    return shape[1:-1] if data_format == "NXC" else shape[2:]


def channels(shape: Shape, data_format: str) -> Dim:
    """The channel dim of an activation tensor in NXC or NCX."""
    assert shape is not None
    return shape[-1] if data_format == "NXC" else shape[1]


def channel_axis(rank: int, data_format: str) -> int:
    """The channel axis of an activation tensor in NXC or NCX."""
    return rank - 1 if data_format == "NXC" else 1


def activation(batch: Dim, channel: Dim, size: Sequence[Dim], data_format: str) -> Shape:
    """The shape of an activation tensor in NXC or NCX."""
    return (batch, *size, channel) if data_format == "NXC" else (batch, channel, *size)


def kernel_size(shape: Shape, weights_format: str) -> tuple[Dim, ...]:
    """The spatial dims of a weights tensor; X is first (XIO, XOI) or last (OIX, IOX)."""
    assert shape is not None
    return shape[:-2] if weights_format.startswith("X") else shape[2:]


def kernel_channels(shape: Shape, weights_format: str) -> tuple[Dim, Dim]:
    """The two channel dims of a weights tensor, in the order of the letters in the format."""
    assert shape is not None
    return (shape[-2], shape[-1]) if weights_format.startswith("X") else (shape[0], shape[1])


# The attribute, or input of the same name, that gives the output shape of a gradient op.
SHAPE_SOURCE = {
    "ConvolutionBackwardData": "dst_shape",
    "ConvolutionBackwardWeights": "weights_shape",
    "ConvTransposeBackwardWeights": "weights_shape",
    "AvgPoolBackward": "src_shape",
}


def given_shape(call: Call) -> Shape:
    """The output shape that a gradient op is given: from its input, or from its attribute if the input is absent.

    A dim whose value is unknown when the graph is built is None. The result is None if not even the rank is known.
    """
    name = SHAPE_SOURCE[call.schema.kind]
    tensor = call.input(name)
    if tensor is None:
        return call.s64s(name) if call.has(name) else None
    value = call.value(name)
    if value is not None:
        return value
    return of_rank(tensor.shape[0]) if tensor.shape else None


# Rules ---------------------------------------------------------------------------------------------------------------


def shape_source(call: Call) -> Iterable[RuleFinding]:
    """The output shape is given by the attribute or by the input of the same name."""
    name = SHAPE_SOURCE[call.schema.kind]
    if call.input(name) is None and not call.has(name):
        yield RuleFinding(name, "neither the attribute nor the input", "one of the two", f"pass {name} as an attribute")


def shape_length(call: Call) -> Iterable[RuleFinding]:
    """The given shape has one positive element for each axis of the tensor that it describes."""
    name = SHAPE_SOURCE[call.schema.kind]
    tensor = call.input(name)
    if tensor is not None and tensor.rank not in (None, 1):
        yield RuleFinding(name, f"rank {tensor.rank}", "a tensor of rank 1")
        return
    shape = given_shape(call)
    if shape is None:
        return
    ranks = (other.rank for other in call.inputs if other is not None and other is not tensor)
    rank = next((known for known in ranks if known is not None and 3 <= known <= 5), None)
    text: object = show(shape) if None in shape else list(shape)
    if len(shape) > MAX_RANK and tensor is not None and tensor.shape:
        text = counted(tensor.shape[0], "element")
    if rank is not None and len(shape) != rank:
        yield RuleFinding(name, text, f"{rank} elements, one for each axis")
    elif not 3 <= len(shape) <= 5:
        yield RuleFinding(name, text, "3, 4 or 5 elements: two of channels or batch, and 1 to 3 spatial axes")
    elif any(dim is not None and dim <= 0 for dim in shape):
        yield RuleFinding(name, text, "positive elements")


SPATIAL_LISTS = ("strides", "kernel", "pads_begin", "pads_end", "dilations", "output_padding")


def spatial_rank(call: Call) -> Iterable[RuleFinding]:
    """Activations have one batch, one channel and one to three spatial axes."""
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        if port.name not in ("src", "diff_dst", "weights") or tensor is None or tensor.rank is None:
            continue
        if not 3 <= tensor.rank <= 5:
            yield RuleFinding(
                port.name, f"rank {tensor.rank}", "rank 3, 4 or 5: batch, channels and 1 to 3 spatial axes"
            )
    ranks = {tensor.rank for tensor in call.inputs[:2] if tensor is not None and tensor.rank is not None}
    if len(ranks) == 2 and call.schema.category == "convolution":
        first, second = (port.name for port in call.schema.inputs[:2])
        rank = call.rank(first)
        if rank in (3, 4, 5):
            yield RuleFinding(second, f"rank {call.rank(second)}", f"rank {rank}, as {first} has")


def _ranks(call: Call) -> Iterator[int]:
    """Every known rank of the activations, read from the inputs and from the given output shape."""
    source = SHAPE_SOURCE.get(call.schema.kind, "")
    shapes = []
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        shape = None if tensor is None else tensor.shape
        if shape is not None and port.name == source:
            shapes += [dim for dim in shape[:1] if dim is not None]
        elif shape is not None:
            yield len(shape)
    yield from shapes
    if call.has(source) and call.input(source) is None:  # the input overrides the attribute
        yield len(call.s64s(source))


def spatial_list_length(call: Call) -> Iterable[RuleFinding]:
    """Lists of strides, kernel, padding and dilations have one element for each spatial axis."""
    rank = next(_ranks(call), None)
    if rank is None or not 3 <= rank <= 5:
        return
    automatic = call.schema.has_attribute("auto_pad") and call.attr("auto_pad") != "none"
    for name in SPATIAL_LISTS:
        if not call.has(name) or (automatic and name.startswith("pads_")):
            continue
        numbers = call.s64s(name)
        if len(numbers) != rank - 2:
            yield RuleFinding(
                name,
                list(numbers),
                f"{counted(rank - 2, 'element')}, one for each spatial axis of a rank {rank} tensor",
            )
