"""Where Interpolate and its gradient look for elements: the library's coordinates, f32 numbers that may be off."""

from __future__ import annotations

from math import gcd

from ..opset.ops.interpolation import resized
from ..opset.schema import Call
from ..opset.window import spatial

EXACT = 2**23  # up to which f32 holds every half
ABOUT = 2**21  # up to which a quotient that is off by two units in the last place is still on its side of a half
LONG = 2**14  # the share of a neighbour is off by up to the size of the axis / EXACT; this makes it 1 / 512


def inexact_coordinates(call: Call) -> bool:
    """Whether an Interpolate may take another element than the nearest, or a gradient give it to one or to none.

    A gradient divides by either size, and from 3.3 on by way of a reciprocal.
    """
    is_linear = call.string("mode") != "nearest"
    if is_linear and any(old > LONG for old, _ in _axes(call)):
        return True
    if call.schema.kind == "InterpolateBackward":
        return any(max(_precision(old, new), _precision(new, old)) > ABOUT for old, new in _axes(call))
    return not is_linear and any(_precision(old, new) > EXACT for old, new in _axes(call))


def _precision(old: int, new: int) -> int:
    """What f32 must hold for (place + 1/2) * old / new: the product, and how near it may come to a whole number."""
    return max(_odd(old) * new, old * (new // gcd(old, new)))


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
