"""Products whose kernels let NaN and infinities into other rows or pixels of the result.

The kernels of oneDNN for AMX read whole tiles of the source and multiply what lies behind the end of a row, which is
the beginning of the next rows, by zeros. NaN and infinities times zero are NaN. Kernels for bf16 that read elements by
twos do the same where a sum has an odd number of them.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ..opset.dtypes import DataType
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .fault import UNSAFE, Faults, never
from .ops.windows import IMAGE

LEAKY = Faults[Call](severity=UNSAFE, instead="the op again in f32 if the source has NaN or infinities")
TILE = 32  # elements of 16 bits in a row of a tile of AMX
FEW = 16  # channels, up to which a kernel takes a row of a window for a row of a tile
# The inputs, by kind, whose NaN reach other rows.
SOURCES = dict.fromkeys(kinds.with_input("weights"), (0,))


CONVOLUTIONS = " ".join(sorted(kind for kind in SOURCES if kind != "MatMul"))
# Without AVX-512, the library has no kernels of bf16.
WITHOUT = {"no AVX-512": "throws could not create a primitive"}


def _has_halves(call: Call) -> bool:
    first = call.inputs[0]
    return first is not None and first.dtype in (DataType.bf16, DataType.f16)


def has_tiles(dtype: DataType | None, isa: str) -> bool:
    """Whether a CPU, whose newest instruction set is ``isa``, has tiles of AMX for products of a data type."""
    return "amx" in isa and (dtype is not DataType.f16 or isa != "avx512_core_amx")


def _channels(call: Call) -> int | None:
    """The number of channels that a convolution of 16 bits sums over in each group; None for other types."""
    geometry = convolution_geometry(call)
    if geometry is None or not _has_halves(call) or _is_depthwise(geometry):
        return None  # the kernels of depthwise convolutions do without AMX
    wide = call.schema.kind in ("Convolution", "ConvTransposeBackwardData")
    count = geometry.wide_channels if wide else geometry.narrow_channels
    return None if count is None else count // geometry.groups


def _columns(call: Call) -> int | None:
    """The number of elements that a MatMul of 16 bits sums over, if it has other rows; None for others."""
    src = call.shape("src")
    if src is None or len(src) < 2 or None in src or not _has_halves(call):
        return None
    rows, columns = (-1, -2) if call.flag("transpose_a") else (-2, -1)
    is_single = src[rows] == 1 and prod(known_dims(src[:-2])) == 1
    return None if is_single else src[columns]


def leaks_pairs(call: Call, has_tiles: bool) -> bool:
    """Whether a product of bf16 sums over an odd number of elements by twos.

    With tiles of AMX, only convolutions do so.
    """
    first, is_matrix = call.inputs[0], call.schema.kind == "MatMul"
    if first is None or first.dtype is not DataType.bf16 or (is_matrix and has_tiles):
        return False
    count = _columns(call) if is_matrix else _channels(call)
    return count is not None and count % 2 == 1


MATMUL_LEAKS = LEAKY.add(
    "matmul_row_leaks",
    ops="MatMul",
    where="src",
    when=lambda call: (_columns(call) or 0) % TILE != 0,
    seen={(3, 2): "right", (3, 6): "right", (3, 7): "wrong", (3, 13): "wrong"},
    reason="with AMX, NaN and infinities reach the rows before them in a product of 16 bits whose sums are of no "
    "multiple of 32 elements",
    certain=never,
    of_nan=True,
)


def _with_nan(g: DataGraph, shape: tuple[int, ...], place: int | tuple[int, ...]) -> LogicalTensor:
    """Ones of bf16, with NaN at a place."""
    numbers = np.ones(shape, DataType.bf16.numpy)
    numbers[place] = np.nan
    return g.constant(numbers)


@MATMUL_LEAKS.example({(3, 2): "right", (3, 6): "right", (3, 7): "wrong | right", (3, 13): "wrong | right"}, on=WITHOUT)
def rows_before_a_row_of_nan(g: DataGraph) -> LogicalTensor:
    return g.matmul(_with_nan(g, (40, 70), 20), g.input("w", "bf16", (70, 48)))


def _is_depthwise(geometry: ConvolutionGeometry) -> bool:
    return 1 < geometry.groups == geometry.wide_channels == geometry.narrow_channels


def _is_pixel(geometry: ConvolutionGeometry) -> bool:
    return geometry.kernel is not None and set(geometry.kernel) == {1}


def _leaks_of_pixels(call: Call) -> bool:
    """Whether a window is one pixel of channels that fill no whole tiles."""
    geometry, count = convolution_geometry(call), _channels(call)
    return geometry is not None and count is not None and _is_pixel(geometry) and count % TILE != 0


def _leaks_of_windows(call: Call) -> bool:
    """Whether windows are larger than a pixel, and their rows have few channels."""
    geometry, count = convolution_geometry(call), _channels(call)
    return geometry is not None and count is not None and not _is_pixel(geometry) and count <= FEW


PIXEL_LEAKS = LEAKY.add(
    "pixel_leaks",
    ops=CONVOLUTIONS,
    where="weights",
    when=_leaks_of_pixels,
    seen={(3, 2): "right", (3, 6): "right", (3, 7): "wrong", (3, 13): "wrong"},
    reason="with AMX, NaN and infinities reach the pixels before them in a convolution of 16 bits whose windows are "
    "single pixels and whose channels are no multiple of 32",
    certain=never,
    of_nan=True,
)


@PIXEL_LEAKS.example({(3, 2): "right", (3, 6): "right", (3, 7): "wrong | right", (3, 13): "wrong | right"}, on=WITHOUT)
def pixels_before_a_pixel_of_nan(g: DataGraph) -> LogicalTensor:
    ends = _with_nan(g, (2, 20, 20, 40), (0, 2, 3)), g.input("w", "bf16", (1, 1, 40, 24))
    return g.op("Convolution", ends, IMAGE)


WINDOW_LEAKS = LEAKY.add(
    "window_leaks",
    ops=CONVOLUTIONS,
    where="weights",
    when=_leaks_of_windows,
    seen={(3, 2): "wrong", (3, 13): "wrong"},
    reason="with AMX, NaN and infinities reach other pixels in a convolution of 16 bits whose windows are rows of few "
    "channels",
    certain=never,
    of_nan=True,
)


@WINDOW_LEAKS.example({(3, 2): "wrong | right"}, on=WITHOUT)
def windows_beside_a_pixel_of_nan(g: DataGraph) -> LogicalTensor:
    ends = _with_nan(g, (2, 14, 14, 1), (0, 2, 3)), g.input("w", "bf16", (5, 5, 1, 24))
    return g.op("Convolution", ends, {**IMAGE, "pads_begin": [2, 2], "pads_end": [2, 2]})
