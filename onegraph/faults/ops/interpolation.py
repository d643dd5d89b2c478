"""What oneDNN gets wrong of Interpolate and its gradient: its coordinates are f32 numbers that may be off."""

from __future__ import annotations

from math import gcd

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.ops.interpolation import is_scaled_twice, resized
from ...opset.schema import Call
from ...opset.window import spatial
from ..fault import LIBRARY, UNSAFE, Faults, never

FAULTS = Faults[Call]()
BOTH = "Interpolate InterpolateBackward"
EXACT = 2**23  # up to which f32 holds every half
ABOUT = 2**21  # up to which a quotient that is off by two units in the last place is still on its side of a half
LONG = 2**14  # the share of a neighbour is off by up to the size of the axis / EXACT; this makes it 1 / 512
MAX_TABULATED = 2**24


def _resized(g: DataGraph, old: tuple[int, ...], new: tuple[int, ...], mode: str = "nearest") -> LogicalTensor:
    attrs = {"mode": mode, "sizes": [*new], "data_format": "NCX"}
    return g.op("Interpolate", [g.input("x", "f32", (1, 1, *old))], attrs)


def _gradient(g: DataGraph, old: int, new: int, mode: str = "nearest") -> LogicalTensor:
    ends = g.input("x", "f32", (1, 1, old)), g.input("d", "f32", (1, 1, new))
    return g.op("InterpolateBackward", ends, {"mode": mode, "sizes": [new], "data_format": "NCX"})


SIZES_TENSOR = FAULTS.add(
    "sizes_tensor",
    ops=BOTH,
    where="sizes",
    severity=LIBRARY,
    when=lambda call: call.input("sizes") is not None,
    seen={(3, 2): "refuses"},
    reason="sizes as an input are rejected, or ignored beside the attribute; the attribute alone is right",
    instead="the attribute, where the contents of the tensor are known",
)


@SIZES_TENSOR.example()
def sizes_as_a_tensor(g: DataGraph) -> LogicalTensor:
    return g.op(
        "Interpolate", [g.input("x", "f32", (1, 4, 2)), g.constant(np.array([3], np.int32))], {"mode": "nearest"}
    )


SIZES_AND_SCALES = FAULTS.add(
    "sizes_and_scales",
    ops=BOTH,
    where="scales",
    severity=LIBRARY,
    when=is_scaled_twice,
    seen={(3, 2): "refuses add_op: invalid_graph_op"},
    reason="sizes and scales together are rejected; the specification ignores scales beside sizes",
    instead="the op without scales",
)


@SIZES_AND_SCALES.example()
def sizes_beside_scales(g: DataGraph) -> LogicalTensor:
    return g.op("Interpolate", [g.input("x", "f32", (1, 4, 2))], {"mode": "nearest", "sizes": [6], "scales": [3.0]})


@SIZES_AND_SCALES.example()
def gradient_with_sizes_beside_scales(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 4, 2)), g.input("d", "f32", (1, 6, 2))
    return g.op("InterpolateBackward", ends, {"mode": "nearest", "sizes": [6], "scales": [3.0]})


ALIGN_CORNERS = FAULTS.add(
    "align_corners",
    ops=BOTH,
    where="coordinate_transformation_mode",
    severity=LIBRARY,
    when=lambda call: call.string("coordinate_transformation_mode") == "align_corners",
    seen={(3, 2): "unsupported"},
    reason="align_corners is unsupported",
    instead="numpy",
)


@ALIGN_CORNERS.example()
def aligned_corners(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": [3], "coordinate_transformation_mode": "align_corners"}
    return g.op("Interpolate", [g.input("x", "f32", (1, 4, 2))], attrs)


def one_column(call: Call) -> bool:
    """Whether the last spatial axis of the source has size 1."""
    shape = call.shape("src")
    return shape is not None and spatial(shape, call.string("data_format"))[-1:] == (1,)


def one_pixel(call: Call) -> bool:
    """Whether an Interpolate spreads single pixels of several channels whose channels come first."""
    shape = call.shape("src")
    if call.schema.kind != "Interpolate" or shape is None or call.string("data_format") != "NCX":
        return False
    return set(shape[2:]) == {1} and shape[1] not in (None, 1)


ONE_COLUMN = FAULTS.add(
    "one_column",
    ops=BOTH,
    where="src",
    severity=UNSAFE,
    when=one_column,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="the stride of the last spatial axis of src, which may be any number where the axis has size 1, or that of "
    "another op that was compiled before, counts as the number of channels: wrong values, some of them written beyond "
    "the result",
    instead="other ops, or numpy",
    certain=one_pixel,  # others by what was compiled before
)


@ONE_COLUMN.example({(3, 2): "right", (3, 6): "wrong | overrun | SIG", (3, 13): "wrong | overrun | SIG"})
def one_pixel_of_two_channels_is_spread(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "linear", "sizes": [3, 3], "data_format": "NCX"}
    return g.op("Interpolate", [g.input("x", "f32", (2, 2, 1, 1))], attrs)


@ONE_COLUMN.example({(3, 2): "right", (3, 6): "right", (3, 13): "right"})
def one_pixel_is_spread(g: DataGraph) -> LogicalTensor:
    return _resized(g, (1, 1), (8, 8))


def inexact_coordinates(call: Call) -> bool:
    """Whether an Interpolate may take another element than the nearest, or a gradient give it to one or to none.

    A gradient divides by either size, and from 3.3 on by way of a reciprocal.
    """
    is_linear = call.string("mode") != "nearest"
    if is_linear and any(old > LONG for old, _ in _axes(call)):
        return True
    if call.schema.kind == "InterpolateBackward":
        return any(_needs_more(ABOUT, old, new) or _needs_more(ABOUT, new, old) for old, new in _axes(call))
    return not is_linear and any(_needs_more(EXACT, old, new) for old, new in _axes(call))


def _needs_more(limit: int, old: int, new: int) -> bool:
    """Whether f32 must hold more than ``limit`` for (place + 1/2) * old / new.

    It must hold the product, and how near it may come to a whole number.
    """
    # Asked first, so that open sizes far below the limit stay open.
    return old * new > limit and max(_odd(old) * new, old * (new // gcd(old, new))) > limit


INEXACT_COORDINATES = FAULTS.add(
    "inexact_coordinates",
    ops=BOTH,
    where="src",
    severity=UNSAFE,
    when=inexact_coordinates,
    seen={(3, 2): "wrong"},
    reason="f32 does not hold the coordinates along axes this long: other elements are taken for the nearest, and "
    "gradients "
    "are added to too many or too few elements",
    instead="numpy",
)


@INEXACT_COORDINATES.example()
def the_nearest_of_5428_elements(g: DataGraph) -> LogicalTensor:
    return _resized(g, (5428,), (4885,))


@INEXACT_COORDINATES.example()
def between_2_to_the_18_elements(g: DataGraph) -> LogicalTensor:
    return _resized(g, (2**18,), (2**18 - 1,), "linear")


@INEXACT_COORDINATES.example()
def gradients_of_4377_elements(g: DataGraph) -> LogicalTensor:
    return _gradient(g, 4377, 2188)


@INEXACT_COORDINATES.example()
def gradients_between_4321_elements(g: DataGraph) -> LogicalTensor:
    return _gradient(g, 4321, 4321, "linear")


def misjudged_ties(call: Call) -> bool:
    """Whether the gradient may lie in the midst of two elements, by a quotient that f32 does not hold."""
    if call.string("mode") != "nearest":
        return False
    quotients = [old // gcd(old, new) for old, new in _axes(call)]
    return any(quotient % 2 == 0 and _odd(quotient) > 1 for quotient in quotients)


def _axes(call: Call) -> list[tuple[int, int]]:
    """The sizes of each spatial axis before and after, where they are known."""
    shape, sizes = call.shape("src"), resized(call)
    if shape is None or sizes is None:
        return []
    olds = spatial(shape, call.string("data_format"))
    return [(old, new) for old, new in zip(olds, sizes, strict=False) if old and new]


def _odd(number: int) -> int:
    """A number without the powers of two in it."""
    return number // (number & -number)


MISJUDGED_TIES = FAULTS.add(
    "misjudged_ties",
    ops="InterpolateBackward",
    where="sizes",
    severity=UNSAFE,
    when=misjudged_ties,
    seen={(3, 2): "wrong"},
    reason="a gradient halfway between two elements may be added to neither or to both of them",
    instead="numpy",
    certain=never,  # by how the quotients are rounded
)


@MISJUDGED_TIES.example({(3, 2): "wrong | right"})
def gradients_in_the_midst(g: DataGraph) -> LogicalTensor:
    return _gradient(g, 52, 14)


# Told apart from the other faults of single ops: it is known only when every shape is.
ENDLESS_TABLE = Faults[int]().add(
    "endless_table",
    ops=BOTH,
    where="shape",
    severity=UNSAFE,
    when=lambda longest: longest > MAX_TABULATED,
    seen={(3, 2): "hang"},
    reason="the library tabulates every position of an interpolation when it compiles, which takes minutes and "
    "gigabytes for "
    f"an axis of more than {MAX_TABULATED} elements",
    instead="numpy",
)


@ENDLESS_TABLE.example(runs=False)
def axis_of_2_to_the_25_elements(g: DataGraph) -> LogicalTensor:
    return _resized(g, (4,), (2**25,), "linear")
