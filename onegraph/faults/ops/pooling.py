"""What oneDNN gets wrong of pools."""

from __future__ import annotations

from math import gcd, prod
from typing import NamedTuple

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ...opset.ops.pooling import pool_geometry
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ...opset.window import AxisWindow, Dim
from ..fault import LIBRARY, SLOW, UNSAFE, Faults
from .windows import AVERAGE, NCX, POOL, POOLS

FAULTS = Faults[Call](severity=UNSAFE)


def overlapping(call: Call) -> bool:
    """Whether windows of a pool have elements in common."""
    geometry = pool_geometry(call)
    windows = () if geometry is None else geometry.windows
    return any(w is not None and w.kernel * gcd(w.stride, w.dilation) > w.stride for w in windows)


def rounded_wrong(call: Call) -> bool:
    """A pool that the library rounds up, and then counts or divides otherwise than it says."""
    if call.string("rounding_type") != "ceil":
        return False
    if call.schema.kind == "AvgPool" and not call.flag("exclude_pad"):
        return True
    return call.string("auto_pad").startswith("same_") and leaves_elements(call)


def leaves_elements(call: Call) -> bool:
    """Whether windows that start a stride apart, the first at the source, leave its last elements unread."""
    geometry = pool_geometry(call)
    if geometry is None:
        return True
    for window, size in zip(geometry.windows, geometry.sizes, strict=True):
        if size is None:
            return True
        assert window is not None  # it depends on the size at most
        if (-(-size // window.stride) - 1) * window.stride + window.extent < size:
            return True
    return False


ROUNDING_UP = FAULTS.add(
    "rounding_up",
    ops="AvgPool MaxPool",
    where="rounding_type",
    when=rounded_wrong,
    seen={(3, 2): "wrong | unsupported"},
    reason="rounding_type ceil counts a window too many with same_* where the windows leave elements at the end "
    "unread, and "
    "has no kernel with exclude_pad False; floor with the pads that cover the last window is right",
    instead="the same pool with rounding_type floor and explicit pads",
)


@ROUNDING_UP.example()
def average_rounded_up(g: DataGraph) -> LogicalTensor:
    return g.op("AvgPool", [g.input("x", "f32", (1, 5, 5, 2))], {**POOL, "exclude_pad": False, "rounding_type": "ceil"})


def in_padding_alone(call: Call) -> bool:
    """Whether a window of a pool has no element of the source, and the pool is a maximum, or divides by their number.

    A sum over none of them is right, and the gradients are.
    """
    geometry = pool_geometry(call)
    if geometry is None or not (
        call.schema.kind == "MaxPool" or (call.schema.kind == "AvgPool" and call.flag("exclude_pad"))
    ):
        return False
    for window, size, count in zip(geometry.windows, geometry.sizes, geometry.counts, strict=True):
        if window is None:
            continue
        last = None if count is None else (count - 1) * window.stride - window.begin
        if window.begin >= window.extent or (last is not None and size is not None and last >= size):
            return True
        if size is not None and window.dilation > size and steps_over(window, size, count):
            return True
    return False


def steps_over(window: AxisWindow, size: int, count: Dim) -> bool:
    """Whether a window that starts in the padding has its elements before and behind the source alone."""
    starts = range(-window.begin, 0, window.stride)[:count]
    return len(starts) > 1 << 16 or any(start % window.dilation >= size for start in starts)


WINDOW_IN_PADDING = FAULTS.add(
    "window_in_padding",
    ops=POOLS,
    where="kernel",
    when=in_padding_alone,
    seen={(3, 2): "wrong | refuses | throws"},
    reason="a window in the padding alone gives the lowest number instead of -inf, or is refused",
    instead="numpy",
)


@WINDOW_IN_PADDING.example()
def window_before_the_source(g: DataGraph) -> LogicalTensor:
    return g.op("MaxPool", [g.input("x", "f32", (1, 5, 5, 2))], {**POOL, "pads_begin": [2, 0]})


@WINDOW_IN_PADDING.example()
def window_around_the_source(g: DataGraph) -> LogicalTensor:
    attrs = {**POOL, "dilations": [2, 2], "pads_begin": [1, 0], "pads_end": [1, 0]}
    return g.op("MaxPool", [g.input("x", "f32", (1, 1, 5, 2))], attrs)


def padding_beyond_window(call: Call) -> bool:
    """Whether a pool that leaves padding out of its averages has as much padding at one end as a window is long."""
    geometry = pool_geometry(call)
    if geometry is None or not call.flag("exclude_pad"):
        return False
    return any(window is not None and max(window.begin, window.end) >= window.extent for window in geometry.windows)


WIDE_PADDING = FAULTS.add(
    "padding_as_wide_as_the_window",
    ops="AvgPool AvgPoolBackward",
    where="pads_end",
    severity=LIBRARY,
    when=padding_beyond_window,
    seen={(3, 2): "throws could not create a descriptor for a pooling"},
    reason="with exclude_pad, padding as wide as the window is refused, also where no window lies in it",
    instead="the same op with the pads that its windows reach",
)


@WIDE_PADDING.example()
def padding_that_no_window_reaches(g: DataGraph) -> LogicalTensor:
    return g.op(
        "AvgPool", [g.input("x", "f32", (1, 2, 5, 5))], {**POOL, **NCX, "exclude_pad": True, "pads_end": [2, 2]}
    )


HUGE_POOL = FAULTS.add(
    "huge_pool",
    ops=POOLS,
    where="shape",
    when=lambda call: any(t is not None and prod(known_dims(t.shape)) > 1 << 29 for t in call.inputs),
    seen={(3, 2): "refuses | SIGFPE"},
    reason="more than 2**29 elements are refused, or divide by zero at compile",
    instead="numpy",
)


@HUGE_POOL.example(runs=False)
def pool_of_2_to_the_30_elements(g: DataGraph) -> LogicalTensor:
    return g.op("MaxPool", [g.input("x", "f32", (1, 2**15, 2**14, 2))], POOL)


HUGE_WINDOW = FAULTS.add(
    "huge_window",
    ops=POOLS,
    where="kernel",
    when=lambda call: prod(call.s64s("kernel")) > 1 << 24,
    seen={(3, 2): "hang"},
    reason="compiling goes through the window element by element: more than 2**24 take seconds, minutes, or for ever",
    instead="numpy",
)


@HUGE_WINDOW.example(runs=False)
def window_of_2_to_the_32_elements(g: DataGraph) -> LogicalTensor:
    size = 2**16
    return g.op("AvgPool", [g.input("x", "f32", (1, size, size, 2))], {**AVERAGE, "kernel": [size, size]})


DEFAULT_DILATIONS = FAULTS.add(
    "default_dilations",
    ops="MaxPoolBackward",
    where="dilations",
    severity=LIBRARY,
    when=lambda call: not call.has("dilations"),
    seen={(3, 2): "refuses partition_compile: invalid_shape"},
    reason="without dilations the op never compiles; pass dilations of 1",
    instead="the same op with dilations of 1",
)


@DEFAULT_DILATIONS.example()
def gradient_of_a_pool_without_dilations(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 2, 4, 4)), g.input("d", "f32", (1, 2, 2, 2))
    return g.op("MaxPoolBackward", ends, {**POOL, **NCX})


# Slow layouts --------------------------------------------------------------------------------------------------------

LOW = frozenset([DataType.bf16, DataType.f16])
BLOCK = 16  # channels that the kernel for AVX-512 takes at once
FEW_READS = 2**12  # elements of windows; for fewer, copies take longer than the reference kernel


class ChannelsFirst(NamedTuple):
    """A pool of data format NCX on dense tensors.

    ``cache``: bytes of the last-level cache for each core; 0 if the library may not use AVX-512.
    """

    call: Call
    cache: int


def takes_reference_kernel(pool: ChannelsFirst) -> bool:
    """Whether the library has no fast kernel for a pool on dense channels-first tensors.

    The conditions are those of ``jit_uni_pool_kernel.cpp``. A gradient of a MaxPool runs the pool forward, too.
    """
    call = pool.call
    geometry, src = pool_geometry(call), call.inputs[0]
    if geometry is None or src is None or call.string("data_format") != "NCX":
        return False
    batch, channels, *_ = known_dims(src.shape)
    sizes, counts = known_dims(geometry.sizes), known_dims(geometry.counts)
    if channels == 1 or batch * channels * prod(counts) * prod(call.s64s("kernel")) < FEW_READS:
        return False
    assert src.dtype is not None
    fits = BLOCK * src.dtype.numpy.itemsize * (prod(sizes) + prod(counts)) <= pool.cache
    is_plane = len(sizes) > 1 and min(sizes[-2:]) > 1 and fits
    is_low = src.dtype in LOW
    forward = pool.cache > 0 and channels > 3 and (is_plane or is_low)
    backward = pool.cache > 0 and (is_plane or (is_low and (fits or call.schema.kind == "AvgPoolBackward")))
    needed = {"AvgPoolBackward": (backward,), "MaxPoolBackward": (forward, backward)}
    return not all(needed.get(call.schema.kind, (forward,)))


CHANNELS_FIRST = Faults[ChannelsFirst]()
SLOW_CHANNELS_FIRST = CHANNELS_FIRST.add(
    "pool_of_channels_first",
    ops=POOLS,
    where="data_format",
    severity=SLOW,
    when=takes_reference_kernel,
    seen={(3, 2): "slow"},
    reason="a pool of channels-first tensors has a reference kernel only for one spatial axis, few channels and large "
    "images, "
    "and on CPUs without AVX-512",
    instead="channels-last copies of the tensors",
)


@SLOW_CHANNELS_FIRST.example({(3, 2): "right"})
def gradient_of_a_row_channels_first(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (2, 16, 96)), g.input("d", "f32", (2, 16, 48))
    window = {"strides": [2], "kernel": [3], "pads_begin": [1], "pads_end": [0], "dilations": [1]}
    return g.op("MaxPoolBackward", ends, {**window, **NCX})
