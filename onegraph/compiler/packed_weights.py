"""Brings constant weights of products into the form that the kernel for packed weights reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ..arrays.mapped_files import give_back
from ..arrays.ndarrays import aligned_empty
from ..arrays.packed_codes import BITS, WORDS, filled_up, packed, unit_of
from ..capi.settings import is_aligned
from ..capi.threads import get_num_threads
from ..ir.op import Array
from ..opset.convolution_geometry import ConvolutionGeometry
from ..opset.dtypes import DataType
from .ir.edit import Edit
from .kernels.code_product import GROUP, UNIT
from .kernels.native import compiled, value_of
from .kernels.panel_product import PANEL
from .shared_constants import Key, derived

LEAST_GROUP = 16  # codes that share a scale, of the kernel
CODINGS = {DataType[name]: name for name in BITS}
ZEROS = (np.int8, np.uint8)  # data types of zero points that take little memory


class Packed(NamedTuple):
    """Weights of a product as the kernel takes them.

    Attributes:
        coding: the data type of the codes, or of 16-bit weights.
        group: codes of a row that share a scale, as the kernel counts them.
        zero: the zero point of all codes, if there are no others.
        values: the ids of the weights, the scales and the zero points.
        has_zeros: whether there are zero points.
        is_finite: whether all scales are finite.
    """

    coding: str
    group: int
    zero: int
    values: tuple[int, ...]
    has_zeros: bool
    is_finite: bool


class Groups(NamedTuple):
    """How scales belong to the rows of codes of a packed matrix.

    Attributes:
        present: codes that share a scale in the model; 0 for a whole row.
        kept: codes that share a scale in the kernel; 0 for a whole row.
        per_row: groups of a row in the kernel, of which the last one may be a part of one.
    """

    present: int
    kept: int
    per_row: int

    @property
    def repeats(self) -> int:
        """How often the kernel has each scale."""
        return self.present // self.kept if self.kept else 1


def groups_of(size: int, depth: int, coding: str) -> Groups | None:
    """The groups for the kernel, where ``size`` codes share a scale; None if the kernel has no such groups."""
    if size == 0 or size >= depth:
        return Groups(0, 0, 1)
    unit = unit_of(BITS[coding])
    kept = size if size % unit == 0 else gcd(size, unit)
    return Groups(size, kept, -(-depth // kept)) if kept >= LEAST_GROUP else None


def pack(
    edit: Edit,
    name: str,
    coding: str,
    groups: Groups,
    weights: tuple[int, Callable[[], Array]],
    scales: tuple[int, Callable[[], Array]],
    zeros: tuple[int, Callable[[], Array]] | int,
    form: object = (),
) -> Packed:
    """Make constants of packed weights.

    Args:
        edit: the changes of the graph.
        name: the name of the weights.
        coding: the data type of the codes.
        groups: how many codes share a scale.
        weights: the value that the rows of bytes come from, and what makes them.
        scales: likewise, (columns, groups).
        zeros: likewise, or one zero point for all codes.
        form: what else the contents are made by, as plain data.
    """
    bits = BITS[coding]

    def constant(part: str, source: int, make: Callable[[], Array]) -> int:
        key: Key = derived(("packed", part, coding, *groups, form), edit.key(source))
        return edit.constant(edit.graph.shared.once(key, make), f"{name} ({part})", key)

    rows = constant("codes", weights[0], lambda: filled_up(weights[1]()))
    factors = constant("scales", scales[0], partial(_repeated, scales[1], groups))
    contents = edit.values[factors].constant
    assert contents is not None
    finite = bool(np.isfinite(contents.astype(np.float32)).all())
    depth = edit.values[rows].shape[-1] * 8 // bits
    group = groups.kept or depth
    if isinstance(zeros, int):
        return Packed(coding, group, zeros, (rows, factors), False, finite)
    points = zeros[1]()
    if (points == points.flat[0]).all() and float(points.flat[0]).is_integer():
        return Packed(coding, group, int(points.flat[0]), (rows, factors), False, finite)
    numbers = constant("zero points", zeros[0], lambda: _repeated(lambda: _small(points), groups))
    return Packed(coding, group, 0, (rows, factors, numbers), True, finite)


def _repeated(make: Callable[[], Array], groups: Groups) -> Array:
    array = make()
    is_whole = groups.repeats == 1 and array.shape[-1] == groups.per_row
    if is_whole and array.flags.c_contiguous and is_aligned(array):
        return array  # which may lie in a file
    repeated = np.ascontiguousarray(np.repeat(array, groups.repeats, -1)[:, : groups.per_row])
    give_back([array])
    return repeated


def _small(points: Array) -> Array:
    """Zero points in the smallest data type of the kernel that holds them."""
    for dtype in ZEROS:
        with np.errstate(invalid="ignore"):  # NaN has no code
            small = points.astype(dtype)
        if (small == points).all():
            return small
    return points.astype(np.float32)


def rows_of(codes: Array, is_turned: bool, coding: str) -> Array:
    """A matrix of codes (depth, columns), or (columns, depth) if it ``is_turned``, as packed rows."""
    matrix = codes.reshape(codes.shape[-2:])
    if coding.endswith("4"):
        matrix = matrix.astype(np.int8)
    return packed(matrix if is_turned else matrix.T, BITS[coding])


def numbers_of(weights: Array, is_turned: bool) -> Array:
    """Weights of 16 bits (columns, depth), filled up with zeros."""
    matrix = _turned(weights, not is_turned)
    rest = -matrix.shape[-1] % (4 * WORDS // matrix.itemsize)
    if not rest and matrix.flags.c_contiguous:
        return matrix
    padded = aligned_empty((len(matrix), matrix.shape[-1] + rest), matrix.dtype)
    padded[:, matrix.shape[-1] :] = 0
    _copy(matrix, padded[:, : matrix.shape[-1]])
    return padded


def panels_of(weights: Array, is_turned: bool) -> Array:
    """Weights of 32 bits (panels, depth, columns of a panel), filled up with zeros."""
    matrix = _turned(weights, is_turned)
    depth, columns = matrix.shape
    whole, rest = divmod(columns, PANEL)
    panels = aligned_empty((whole + bool(rest), depth, PANEL), matrix.dtype)
    if whole:
        _copy(matrix[:, : whole * PANEL].reshape(depth, whole, PANEL).transpose(1, 0, 2), panels[:whole])
    if rest:
        panels[whole, :, :rest], panels[whole, :, rest:] = matrix[:, whole * PANEL :], 0
    return panels


def window_panels(weights: Array, geometry: ConvolutionGeometry) -> Array:
    """Weights of 32 bits of a Convolution or ConvTranspose (panels of all groups, depth, columns of a panel).

    The depth has the taps of a window, each with the channels of a group. If each channel is a group with one column,
    all channels are columns of one panel.
    """
    is_last = geometry.weights_format.startswith("X")
    matrices = weights.swapaxes(-1, -2) if is_last else np.moveaxis(weights, (0, 1), (-2, -1))
    taps, groups = matrices.shape[:-2], geometry.groups
    by_group = matrices.reshape(prod(taps), groups, -1, matrices.shape[-1])
    if not geometry.transposed:
        by_group = by_group.swapaxes(-1, -2)
    ordered = by_group[_order_of_taps(taps, geometry)]
    if groups > 1 and by_group.shape[2:] == (1, 1):
        return np.ascontiguousarray(ordered.reshape(1, -1, groups))
    ordered = ordered.swapaxes(0, 1)
    return np.concatenate([panels_of(group.reshape(-1, group.shape[-1]), False) for group in ordered])


def matrices_of(codes: Array, is_turned: bool, geometry: ConvolutionGeometry | None) -> Array:
    """Weights of a product, or of a Convolution, as (groups, depth, columns); the depth has taps, then channels."""
    if geometry is None:
        return _turned(codes, is_turned)[np.newaxis]
    is_last = geometry.weights_format.startswith("X")
    ordered = codes if is_last else np.moveaxis(codes, (0, 1), (-1, -2))  # taps ..., channels, columns
    by_group = ordered.reshape(-1, ordered.shape[-1])
    return by_group.reshape(len(by_group), geometry.groups, -1).swapaxes(0, 1)


def code_panels(matrices: Array) -> Array:
    """Codes (groups, depth, columns) as s8 (panels of all groups, groups of the depth, columns of a panel, group)."""
    groups, depth, columns = matrices.shape
    panels, filled = -(-columns // PANEL), -(-depth // UNIT) * UNIT
    padded = np.zeros((groups, filled, panels * PANEL), np.int8)
    padded[:, :depth, :columns] = matrices
    parts = padded.reshape(groups, filled // GROUP, GROUP, panels, PANEL).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(parts).reshape(groups * panels, filled // GROUP, PANEL, GROUP)


def channel_lines(matrices: Array) -> Array:
    """Codes of depthwise channels (channels, taps, 1) as f32 (1, taps, channels), filled up to one panel."""
    channels, taps, _ = matrices.shape
    lines = np.zeros((1, taps, max(channels, PANEL)), np.float32)
    lines[0, :, :channels] = matrices[:, :, 0].T
    return lines


def _order_of_taps(taps: tuple[int, ...], geometry: ConvolutionGeometry) -> Array:
    """The taps of a window as the kernel meets them.

    Those of a ConvTranspose are divided by the residues of places by the strides that they reach. Those of one residue
    meet the elements in their order.
    """
    numbers = np.arange(prod(taps)).reshape(taps)
    if not geometry.transposed:
        return numbers.reshape(-1)
    assert geometry.pads_begin is not None
    reached = [
        [[tap for tap in range(count)[::-1] if (place + pad - tap * dilation) % stride == 0] for place in range(stride)]
        for count, pad, stride, dilation in zip(
            taps, geometry.pads_begin, geometry.strides, geometry.dilations, strict=True
        )
    ]
    return np.concatenate([numbers[np.ix_(*axes)].reshape(-1) for axes in product(*reached)])


def _turned(weights: Array, turns: bool) -> Array:
    """A matrix with or without exchanged axes."""
    matrix: Array = weights.reshape(weights.shape[-2:])
    return matrix.T if turns else matrix


def _copy(source: Array, target: Array) -> None:
    # OpenMP ends the process if the system refuses it a thread, as it may where the address space is limited.
    import resource  # which systems without the library may lack

    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    threads = 1 if is_limited else get_num_threads() or 1
    compiled("cast", [value_of(source)], [value_of(target)]).run_once(source, target, threads=threads)


def is_matrix(shape: tuple[int, ...]) -> bool:
    """Whether weights of this shape, which are not empty, are one matrix."""
    return len(shape) >= 2 and prod(shape[:-2]) == 1
