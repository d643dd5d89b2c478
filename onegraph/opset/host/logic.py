"""Defines host ops that compare, and ops on boolean tensors."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding, same_shape
from ..shapes import broadcast, compatible, show
from ..signature import Attribute, Shape, rows
from ..traits import Trait
from .types import ALL_NAMES, BOOLEANS, FLOATS, NUMBERS, binary, host, unary

NEGATIVE = Attribute("detect_negative", "bool", "Whether negative infinity counts.", default=True)
POSITIVE = Attribute("detect_positive", "bool", "Whether positive infinity counts.", default=True)


def where_shape(call: Call) -> tuple[Shape, ...]:
    """The broadcast shape of the condition and the two sources."""
    return (broadcast(call.shape("cond"), broadcast(call.shape("src_0"), call.shape("src_1"))),)


def three_broadcast(call: Call) -> Iterable[RuleFinding]:
    """The condition and the sources can be broadcast."""
    try:
        where_shape(call)
    except ValueError:
        shapes = ", ".join(show(call.shape(name)) for name in ("cond", "src_0", "src_1"))
        yield RuleFinding("cond", f"with src_0 and src_1 the shapes {shapes}", "shapes that can be broadcast")


def value_fits(call: Call) -> Iterable[RuleFinding]:
    """The value can be broadcast to src."""
    src, value = call.shape("src"), call.shape("value")
    try:
        fits = compatible(broadcast(src, value), src)
    except ValueError:
        fits = False
    if not fits:
        yield RuleFinding("value", f"shape {show(value)}", f"a shape that broadcasts to {show(src)} of src")


OPS = (
    binary("Equal", "dst = src_0 == src_1", rows("T", ALL_NAMES), dst="boolean", traits=Trait.COMMUTATIVE),
    binary("Greater", "dst = src_0 > src_1", NUMBERS, dst="boolean"),
    binary("GreaterEqual", "dst = src_0 >= src_1", NUMBERS, dst="boolean"),
    binary("Less", "dst = src_0 < src_1", NUMBERS, dst="boolean"),
    binary("LessEqual", "dst = src_0 <= src_1", NUMBERS, dst="boolean"),
    binary("And", "dst = src_0 and src_1", BOOLEANS, traits=Trait.COMMUTATIVE),
    binary("Or", "dst = src_0 or src_1", BOOLEANS, traits=Trait.COMMUTATIVE),
    binary("Xor", "dst = src_0 != src_1", BOOLEANS, traits=Trait.COMMUTATIVE),
    unary("Not", "dst = not src", BOOLEANS),
    unary("IsNaN", "dst = whether src is not a number", FLOATS, dst="boolean"),
    unary("IsInf", "dst = whether src is infinite", FLOATS, NEGATIVE, POSITIVE, dst="boolean"),
    host(
        "ReplaceNaN",
        "dst = value where src is not a number, else src",
        "src:T value:T",
        "dst:T",
        FLOATS,
        same_shape,
        shape_rules=(value_fits,),
        traits=Trait.POINTWISE,
    ),
    host(
        "Where",
        "dst = src_0 where cond is True, else src_1",
        "cond:boolean src_0:T src_1:T",
        "dst:T",
        rows("T", ALL_NAMES),
        where_shape,
        shape_rules=(three_broadcast,),
        traits=Trait.BOUNDED | Trait.POINTWISE,
    ),
)
