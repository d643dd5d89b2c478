"""Fused convolutions of int8 whose kernels copy the source."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.dtypes import DataType
from ...opset.window import AxisWindow
from ..fault import UNSAFE, Faults
from ..ops.spanned_source import spans_source
from ..ops.windows import IMAGE, VOLUME, copies_wrong
from ..use import DEQUANTIZATIONS, Fused, Use
from .quantized_uses import dequantized

FAULTS = Faults[Fused]()
LEAST_COLUMNS = 5  # of a result; with fewer, the library takes another kernel


def _quantized(fused: Fused) -> list[Use]:
    """The Convolutions of a partition that read what it dequantizes."""
    made = {number for use in fused.uses if use.kind in DEQUANTIZATIONS for number in use.outputs}
    return [use for use in fused.of("Convolution") if use.inputs[0] in made]


def _copies_wrong(use: Use) -> bool:
    """Whether the copy of the source goes wrong, or windows of one element lie in padding."""
    geometry = convolution_geometry(use.call)
    if geometry is None or geometry.kernel is None or geometry.pads_begin is None:
        return False
    return (geometry.kernel[-1] == 1 and geometry.pads_begin[-1] > 0) or copies_wrong(geometry)


COPIED_CODES = FAULTS.add(
    "copied_codes",
    ops="Convolution",
    where="",
    severity=UNSAFE,
    when=lambda fused: fused.amx and any(_copies_wrong(use) for use in _quantized(fused)),
    seen={(3, 2): "right", (3, 3): "SIGSEGV | wrong | right", (3, 6): "wrong | right | SIGSEGV"},
    reason="oneDNN copies too few or too many elements for an int8 Convolution with AMX whose result has one column "
    "and whose "
    "strides are longer, whose source is one deep, or whose windows of one element lie in padding",
    instead="the ops one by one",
)


@COPIED_CODES.example(
    {(3, 2): "right"}, on={"AMX": "right | wrong | SIGSEGV | SIGABRT | overrun", "no VNNI": "wrong | right"}
)
def one_column_of_int8(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (1, 16, 4, 8)), dequantized(g, "w", "s8", (2, 4, 8, 16))
    return g.op("Convolution", [x, w], {**IMAGE, "strides": [1, 2]})


@COPIED_CODES.example(
    {(3, 2): "right"}, on={"AMX": "right | wrong | SIGSEGV | SIGABRT | overrun", "no VNNI": "wrong | right"}
)
def one_column_of_volumes_of_int8(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (1, 7, 8, 3, 32)), dequantized(g, "w", "s8", (2, 3, 3, 32, 2))
    return g.op("Convolution", [x, w], {**VOLUME, "strides": [1, 1, 2]})


SPANNED_CODES = FAULTS.add(
    "spanned_codes",
    ops="Convolution ConvTranspose",
    where="",
    severity=UNSAFE,
    when=lambda fused: (
        fused.amx and fused.some(DEQUANTIZATIONS) and any(map(_spans_source, fused.of("Convolution", "ConvTranspose")))
    ),
    seen={(3, 2): "SIGSEGV", (3, 6): "SIGSEGV", (3, 13): "SIGSEGV"},
    reason="with AMX, windows of an int8 convolution with elements before and behind the source and none in it read "
    "other memory",
    instead="the ops one by one",
)


def _spans_source(use: Use) -> bool:
    return spans_source(use.call)


@SPANNED_CODES.example({(3, 2): "right"}, on={"AMX": "SIGSEGV"})
def volumes_of_two_rows_of_int8_between_the_elements_of_windows(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (1, 8, 2, 6, 16)), dequantized(g, "w", "s8", (1, 2, 2, 16, 16))
    attrs = {**VOLUME, "dilations": [1, 5, 1], "pads_begin": [0, 2, 0], "pads_end": [0, 3, 0]}
    return g.op("Convolution", [x, w], attrs)


def _is_padded_to_a_side(fused: Fused, use: Use) -> bool:
    """Whether the kernel pads rows of single signed codes with another number than their zero."""
    geometry = convolution_geometry(use.call)
    if geometry is None or geometry.kernel is None or geometry.wide is None or len(geometry.strides) != 2:
        return False
    if geometry.wide_channels != geometry.groups or geometry.kernel[0] == 1 or set(geometry.dilations) != {1}:
        return False
    if not any(other.inputs and other.outputs[0] == use.inputs[0] and _is_signed(other) for other in fused.uses):
        return False
    rows, columns = (_padding(geometry.window(axis), geometry.wide[axis], geometry.forward()[axis]) for axis in (0, 1))
    count = geometry.forward()[1]
    return not rows and columns and count is not None and count >= LEAST_COLUMNS


def _is_signed(use: Use) -> bool:
    first = use.call.inputs[0]
    return use.kind in DEQUANTIZATIONS and first is not None and first.dtype is DataType.s8


def _padding(window: AxisWindow | None, size: int | None, count: int | None) -> bool:
    """Whether windows along an axis reach before or behind the source."""
    if count is None:
        return False
    assert window is not None
    assert size is not None
    return window.begin > 0 or (count - 1) * window.stride - window.begin + window.extent > size


PADDED_SIGNED_CODES = FAULTS.add(
    "padded_signed_codes",
    ops="Convolution",
    where="",
    severity=UNSAFE,
    when=lambda fused: (
        fused.vnni
        and fused.avx512
        and not fused.amx
        and any(_is_padded_to_a_side(fused, use) for use in _quantized(fused))
    ),
    seen={(3, 2): "right", (3, 3): "right", (3, 4): "wrong", (3, 11): "wrong"},
    reason="oneDNN pads the rows of single s8 channels with the zero of u8 where it has VNNI of AVX-512 and no AMX",
    instead="the ops one by one",
    mended=(3, 12, 2),
)


@PADDED_SIGNED_CODES.example(
    {(3, 2): "right", (3, 4): "wrong", (3, 13): "right"}, on={"AMX": "right", "no VNNI": "wrong | right"}
)
def padded_rows_of_one_signed_channel(g: DataGraph) -> LogicalTensor:
    """Right with AMX; with ``ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI``, three columns are wrong from 3.4 on."""
    x, w = dequantized(g, "x", "s8", (1, 32, 64, 1)), dequantized(g, "w", "s8", (2, 4, 1, 1))
    return g.op("Convolution", [x, w], {**IMAGE, "strides": [2, 1], "pads_begin": [0, 1], "pads_end": [0, 2]})
