"""Defines the quantization of a tensor by the range of its own elements."""

from __future__ import annotations

from collections.abc import Iterable

from ..dtypes import DataType
from ..schema import Call, RuleFinding
from ..signature import NON_NEGATIVE, POSITIVE, Attribute, Shape, rows
from ..traits import Trait
from .types import host, unary

LIMITS = {DataType.u8: (0, 255), DataType.s8: (-128, 127)}


def codes_and_numbers(call: Call) -> tuple[Shape, ...]:
    """The shape of src, and none for the scale and the zero point."""
    return call.shape("src"), (), ()


def codes_fit(call: Call) -> Iterable[RuleFinding]:
    """The codes from low to high are numbers of their data type."""
    dtype, low, high = call.output_type(0), call.s64("low"), call.s64("high")
    if dtype in LIMITS and not LIMITS[dtype][0] <= low < high <= LIMITS[dtype][1]:
        yield RuleFinding("low", [low, high], f"low < high, numbers of {dtype}")


OPS = (
    host(
        "DynamicQuantizeLinear",
        "The codes low to high cover the range of src and 0: scale = (max - min) / (high - low), zero is the code of "
        "0, and codes = src / scale + zero, rounded to the nearest. NaN in src makes scale NaN.",
        "src:f32",
        "codes:T scale:f32 zero:T",
        rows("T", "u8|s8"),
        codes_and_numbers,
        (
            Attribute("low", "s64", "The least code.", default=0),
            Attribute("high", "s64", "The largest code.", default=255),
            Attribute("least", "f32", "The least scale; a scale of 0 is 1.", default=0.0, range=NON_NEGATIVE),
        ),
        rules=(codes_fit,),
        traits=Trait.JUMPS,
    ),
    unary(
        "FakeQuantize",
        "dst = step * the integer nearest to src / step, halves to even, within low to high; NaN stays NaN.",
        rows("T", "f32"),
        Attribute("step", "f32", "The distance of two results.", required=True, range=POSITIVE),
        Attribute("low", "f32", "The least integer, of at most 2**22 in size.", required=True),
        Attribute("high", "f32", "The largest integer, of at most 2**22 in size.", required=True),
        traits=Trait.POLYNOMIAL | Trait.JUMPS,
    ),
)
