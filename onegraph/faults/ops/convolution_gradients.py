"""What oneDNN gets wrong of the gradients of convolutions by weights, and of planes in no window by data."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ...opset.window import spatial
from ..fault import UNSAFE, Faults, never
from .convolution import in_low_precision
from .windows import IMAGE, NCX, ROW, VOLUME, WEIGHT_GRADIENTS
from .windows import Attrs as Attrs

FAULTS = Faults[Call](where="strides", severity=UNSAFE, instead="the same op in f32")
FEW = 4  # windows along an axis; one and two were seen to be computed wrong


def _gradient(g: DataGraph, dtype: str, x: tuple[int, ...], d: tuple[int, ...], attrs: Attrs) -> LogicalTensor:
    """The gradient of a Convolution by its weights."""
    return g.op("ConvolutionBackwardWeights", [g.input("x", dtype, x), g.input("d", dtype, d)], attrs)


def few_windows(call: Call) -> bool:
    """Whether a gradient in bf16 or f16 goes over few windows, further apart than one element, with padding."""
    src, diff_dst = call.shape("src"), call.shape("diff_dst")
    if src is None or diff_dst is None or not in_low_precision(call):
        return False
    padded = call.attr("auto_pad") != "none" or any((*call.s64s("pads_begin"), *call.s64s("pads_end")))
    fmt = call.string("data_format")
    sizes = zip(call.s64s("strides"), spatial(src, fmt), spatial(diff_dst, fmt), strict=False)
    return padded and any(stride > 1 and min(one or 0, other or 0) <= FEW for stride, one, other in sizes)


GRADIENT_OF_FEW_WINDOWS = FAULTS.add(
    "gradient_of_few_windows",
    ops=WEIGHT_GRADIENTS,
    where="src",
    when=few_windows,
    seen={(3, 2): "wrong | right"},
    reason="in bf16 the kernels read scratch memory that was never written",
    certain=never,  # by what lies in memory
)


@GRADIENT_OF_FEW_WINDOWS.example(on={"no AVX-512": "throws could not create a primitive"})
def one_window_with_padding(g: DataGraph) -> LogicalTensor:
    return _gradient(
        g, "bf16", (2, 1, 4), (2, 1, 6), {**ROW, "strides": [3], "pads_end": [2], "weights_shape": [3, 4, 6]}
    )


def strides_beyond_source(call: Call) -> bool:
    """Whether the strides of a convolution of few channels in bf16 or f16 are longer than the last axis of its source.

    Padding in front counts as part of the source.
    """
    geometry = convolution_geometry(call)
    if geometry is None or geometry.wide is None or geometry.groups > 1 or not in_low_precision(call):
        return False
    size, begin = geometry.wide[-1], geometry.pads_begin[-1] if geometry.pads_begin is not None else 0
    few = geometry.wide_channels is not None and geometry.wide_channels < 16
    return few and size is not None and size + begin < geometry.strides[-1]


GRADIENT_OF_LONG_STRIDES = FAULTS.add(
    "gradient_of_long_strides",
    ops=WEIGHT_GRADIENTS,
    when=strides_beyond_source,
    seen={(3, 2): "SIGSEGV"},
    reason="with fewer than 16 channels and strides longer than the last axis the kernel for bf16 reads up to 32 bytes "
    "behind "
    "the source, which is diff_dst of ConvTranspose: a signal where no memory is there",
    certain=never,  # by what lies in memory
)


@GRADIENT_OF_LONG_STRIDES.example(on={"AMX": "SIGSEGV | right", "no AVX-512": "throws could not create a primitive"})
def strides_longer_than_the_source(g: DataGraph) -> LogicalTensor:
    return _gradient(g, "bf16", (2, 1, 1), (2, 1, 4), {**ROW, "strides": [2], "weights_shape": [1, 1, 4]})


def deep_at_both_ends(call: Call) -> bool:
    """Whether a window over depth, with strides, reaches behind the source right after one that reaches before it."""
    geometry = convolution_geometry(call)
    window = None if geometry is None or len(geometry.strides) != 3 else geometry.window(0)
    if geometry is None or window is None or geometry.wide is None or window.stride == 1:
        return False
    size, count = geometry.wide[0], geometry.narrow[0] if geometry.narrow is not None else None
    if size is None or count is None:
        return False
    first = max(1, (size + window.begin - window.extent) // window.stride + 1)  # but the first, that reaches behind
    return first < count and (first - 1) * window.stride < window.begin


GRADIENT_OF_DEEP_WINDOWS = FAULTS.add(
    "gradient_of_deep_windows",
    ops=WEIGHT_GRADIENTS,
    when=deep_at_both_ends,
    seen={(3, 2): "wrong | right | overrun | SIGSEGV | SIGABRT"},
    reason="with strides over depth, if a window that ends behind the source follows one that begins before it, the "
    "kernel "
    "counts the planes wrong, and reads and writes beyond its memory",
    instead="numpy",
    certain=never,  # by what lies in memory
)


@GRADIENT_OF_DEEP_WINDOWS.example()
def windows_deeper_than_the_source(g: DataGraph) -> LogicalTensor:
    attrs = {**VOLUME, "strides": [3, 1, 1], "pads_begin": [8, 0, 0], "pads_end": [1, 0, 0]}
    return _gradient(g, "f32", (3, 9, 3, 5, 16), (3, 4, 3, 3, 16), {**attrs, "weights_shape": [9, 1, 3, 16, 16]})


def dilated_groups(call: Call) -> bool:
    """Whether the gradient of a convolution in groups has dilations on another axis than the last."""
    return call.s64("groups") > 1 and any(dilation > 1 for dilation in call.s64s("dilations")[:-1])


GRADIENT_OF_DILATED_GROUPS = FAULTS.add(
    "gradient_of_dilated_groups",
    ops=WEIGHT_GRADIENTS,
    where="dilations",
    when=lambda call: in_low_precision(call) and dilated_groups(call),
    seen={(3, 2): "wrong"},
    reason="in bf16 the kernel for groups reads other rows of the source where another axis than the last is dilated",
    certain=never,  # by what lies in memory
)


@GRADIENT_OF_DILATED_GROUPS.example(on={"no AVX-512": "throws could not create a primitive"})
def rows_two_apart_in_sixteen_groups(g: DataGraph) -> LogicalTensor:
    attrs = {**IMAGE, "dilations": [2, 1], "groups": 16, "weights_shape": [3, 3, 1, 16]}
    return _gradient(g, "bf16", (1, 9, 33, 16), (1, 5, 31, 16), attrs)


def no_window_inside(call: Call) -> bool:
    """Whether a gradient of three axes has padding in front, and no window in the source alone, where that is wrong.

    In bf16 that is the first or second axis. In f32 it is the first, with strides or with few windows.
    """
    geometry = convolution_geometry(call)
    first = call.inputs[0] if call.inputs else None
    if geometry is None or geometry.wide is None or len(geometry.strides) < 3:
        return False
    low = first is not None and first.dtype is not DataType.f32
    for axis, size in enumerate(geometry.wide[: 2 if low else 1]):
        window = geometry.window(axis)
        if window is None or size is None or window.begin == 0:
            continue
        inside = -window.begin % window.stride  # where the first window starts that starts in the source
        right_in_f32 = window.stride == 1 and window.begin <= window.forward(size)
        if inside + window.extent > size and (low or not right_in_f32):
            return True
    return False


GRADIENT_OF_A_SMALL_SOURCE = FAULTS.add(
    "gradient_of_a_small_source",
    ops=WEIGHT_GRADIENTS,
    where="pads_begin",
    when=no_window_inside,
    seen={(3, 2): "wrong | SIGSEGV | SIGABRT"},
    reason="where the source is padded in front along the first or, in bf16, second of three spatial axes, and no "
    "window lies "
    "inside of it, the kernels take wrong elements, and write beyond the weights",
    instead="numpy",
    certain=never,  # by what lies in memory
)


def _no_window_inside(g: DataGraph, dtype: str, stride: int, sizes: tuple[int, int, int], pads: int) -> LogicalTensor:
    """Of a source of a size, by windows of a size, of which there are so many."""
    src, kernel, dst = sizes
    begin, end = [pads, 0, 0], [stride * (dst - 1) + kernel - src - pads, 1, 0]
    attrs = {**VOLUME, **NCX, "strides": [stride, 1, 1], "pads_begin": begin, "pads_end": end, "weights_format": "OIX"}
    return _gradient(g, dtype, (2, 3, src, 3, 3), (2, 4, dst, 3, 2), {**attrs, "weights_shape": [4, 3, kernel, 2, 2]})


@GRADIENT_OF_A_SMALL_SOURCE.example(on={"AMX": "right", "no AVX-512": "throws could not create a primitive"})
def source_of_two_planes_in_bf16(g: DataGraph) -> LogicalTensor:
    return _no_window_inside(g, "bf16", 1, (2, 3, 2), 1)


@GRADIENT_OF_A_SMALL_SOURCE.example(on={"no AVX-512": "right"})
def source_of_three_planes(g: DataGraph) -> LogicalTensor:
    return _no_window_inside(g, "f32", 1, (3, 6, 3), 4)


@GRADIENT_OF_A_SMALL_SOURCE.example(on={"no AVX-512": "right"})
def source_of_six_planes_with_strides(g: DataGraph) -> LogicalTensor:
    return _no_window_inside(g, "f32", 2, (6, 6, 4), 3)


# Planes in no window -------------------------------------------------------------------------------------------------

MOST_COLUMNS = 16  # of a block of AMX; with more, the kernel has a second block


def unread_planes(call: Call) -> bool:
    """Whether a gradient by data in bf16 has strides over depth, planes at the end in no window, and wide rows."""
    geometry = convolution_geometry(call)
    first = call.inputs[0] if call.inputs else None
    window = None if geometry is None or len(geometry.strides) != 3 else geometry.window(0)
    if geometry is None or window is None or window.stride == 1 or first is None or first.dtype is not DataType.bf16:
        return False
    wide, narrow = geometry.wide or geometry.backward(), geometry.narrow
    if narrow is None or wide[0] is None or narrow[0] is None or wide[-1] is None:
        return False
    return wide[-1] > MOST_COLUMNS and wide[0] > (narrow[0] - 1) * window.stride - window.begin + window.extent


UNREAD_PLANES = FAULTS.add(
    "unread_planes",
    ops="ConvolutionBackwardData ConvTranspose",
    when=unread_planes,
    seen={(3, 2): "wrong | right"},  # by what lies in memory
    reason="with AMX, strides over depth and rows of more than 16 elements, planes at the end that are in no window "
    "are not "
    "zero: the kernel for bf16 sums up scratch memory that was never written",
    certain=never,  # by what lies in memory
)


@UNREAD_PLANES.example(on={"no AVX-512": "throws could not create a primitive"})
def gradient_of_a_plane_in_no_window(g: DataGraph) -> LogicalTensor:
    """Planes 0, and 1 and 2, are in windows; plane 3 is not."""
    d, w = g.input("d", "bf16", (1, 2, 2, 20, 17)), g.input("w", "bf16", (2, 2, 2, 17, 17))
    attrs = {**VOLUME, "strides": [2, 2, 1], "pads_begin": [1, 1, 1], "pads_end": [0, 1, 0]}
    return g.op("ConvolutionBackwardData", [d, w], {**attrs, "dst_shape": [1, 4, 2, 20, 17]})


# Windows of one element with strides ----------------------------------------------------------------------------------

BLOCK, NARROW_BLOCK = 16, 8  # channels that the kernels for AVX-512 and for AVX2 take at once
FEWEST, MOST, LARGEST = 7, 16, 256  # elements of a run: the bounds of the first choice, and of any


def _divider(value: int, least: int, most: int, prefers_most: bool) -> int:
    """The number of elements in a run with which the last run lacks the smallest share."""
    choices = range(min(most, value), max(1, min(least, most, value)) - 1, -1)
    shares = {size: -value % size / (value + -value % size) for size in choices}
    best = min(shares.values())
    fitting = [size for size in choices if shares[size] == best]
    return fitting[0] if prefers_most else fitting[-1]


def runs_of(rows: int, columns: int) -> int:
    """How many runs of elements the kernel for AVX-512 makes of an image, each for a thread or a part of the cache."""
    size = _divider(rows * columns, FEWEST, MOST, True)
    if rows * columns % size:
        size = _divider(columns, 4, columns, False)
    return -(-rows * columns // (size if size <= LARGEST else 1))


def strided_pixels(call: Call) -> bool:
    """Whether a gradient has windows of one element, strides that divide the source, and few channels of the source.

    With fewer than 16 channels the kernel for AVX-512 needs several runs of elements to go wrong. With fewer than 8
    that for AVX2 needs several rows, or two threads that share an image of several elements.
    """
    geometry = convolution_geometry(call)
    if (
        geometry is None
        or geometry.groups > 1
        or len(geometry.strides) > 2
        or geometry.kernel is None
        or set(geometry.kernel) != {1}
    ):
        return False
    wide, narrow, channels = geometry.wide, geometry.narrow, geometry.wide_channels
    if wide is None or narrow is None or channels is None or set(geometry.strides) == {1} or channels >= BLOCK:
        return False
    if any(geometry.pads_begin or ()) or (call.inputs[0] is not None and call.inputs[0].dtype is DataType.f16):
        return False  # f16 has no such kernel
    sizes = [size for size in narrow if size is not None]
    divided = [size * stride for size, stride in zip(sizes, geometry.strides, strict=False)]
    if divided != list(wide) or 0 in sizes:
        return False
    rows, columns = (1, *sizes)[-2:]
    return runs_of(rows, columns) > 1 or (channels < NARROW_BLOCK and rows * columns > 1)


GRADIENT_OF_STRIDED_PIXELS = FAULTS.add(
    "gradient_of_strided_pixels",
    ops="ConvolutionBackwardWeights",
    when=strided_pixels,
    seen={(3, 2): "overrun | wrong | right | SIGSEGV | SIGABRT"},
    reason="with windows of one element, strides, and fewer channels than the kernel takes at once, the kernel counts "
    "the "
    "elements that it has copied in whole blocks of channels, and writes beyond its scratch memory: into that of "
    "another thread, or of anything else",
    instead="an AvgPool of windows of one element, which takes the elements, and the gradient without strides",
    certain=never,  # by what lies in memory
)


def _gradient_of_pixels(g: DataGraph, sizes: tuple[int, int], channels: tuple[int, int]) -> LogicalTensor:
    """Of windows of one element and strides of 2, with so many rows and columns, and channels on both sides."""
    (rows, columns), (few, many) = sizes, channels
    attrs = {**IMAGE, "strides": [2, 2], "weights_shape": [1, 1, few, many]}
    return _gradient(g, "f32", (2, 2 * rows, 2 * columns, few), (2, rows, columns, many), attrs)


@GRADIENT_OF_STRIDED_PIXELS.example()
def strided_pixels_of_two_channels(g: DataGraph) -> LogicalTensor:
    return _gradient_of_pixels(g, (32, 32), (2, 1))


@GRADIENT_OF_STRIDED_PIXELS.example()
def strided_pixels_of_fifteen_channels(g: DataGraph) -> LogicalTensor:
    return _gradient_of_pixels(g, (64, 64), (15, 16))


@GRADIENT_OF_STRIDED_PIXELS.example({(3, 2): "right"}, on={"no AVX-512": "wrong | right | overrun | SIGSEGV"})
def few_rows_of_strided_pixels(g: DataGraph) -> LogicalTensor:
    return _gradient_of_pixels(g, (5, 3), (4, 8))


@GRADIENT_OF_STRIDED_PIXELS.example({(3, 2): "right"}, on={"no AVX-512": "wrong | right"})
def one_row_of_strided_pixels(g: DataGraph) -> LogicalTensor:
    """Of three rows; the second of two threads begins amid the second one."""
    attrs = {**ROW, "strides": [2], "weights_shape": [1, 3, 10]}
    return _gradient(g, "f32", (3, 16, 3), (3, 8, 10), attrs)
