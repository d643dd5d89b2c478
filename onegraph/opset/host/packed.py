"""Defines the product by packed weights and the rows of a packed table, of codes of 4 or 8 bits in bytes."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding
from ..shapes import compatible, show
from ..signature import NON_NEGATIVE, Attribute, Shape, rows
from ..traits import Trait
from .types import host

BITS = {"s4": 4, "u4": 4, "s8": 8, "u8": 8}
CODING = (
    Attribute("coding", "str", "The data type of the codes.", required=True, values=tuple(BITS)),
    Attribute("group", "s64", "Codes of a row that share a scale; 0 for a whole row.", default=0, range=NON_NEGATIVE),
    Attribute("zero", "s64", "The zero point of all codes, if the input zps is absent.", default=0),
)
EXACT, CODES = "exact", "codes"
NUMBERS = (
    "A number is (code - zero point) * scale; of two codes of 4 bits in a byte, the first one is in the lower half."
)


def _groups(depth: int, group: int) -> int:
    return -(-depth // group) if group else 1


def _weights_fit(call: Call, name: str, depth: int | None) -> Iterable[RuleFinding]:
    """The rows have enough bytes, and each group has a scale and a zero point."""
    shape, bits = call.shape(name), BITS[call.string("coding")]
    if shape is None:
        return
    if len(shape) != 2:
        yield RuleFinding(name, f"shape {show(shape)}", "(rows, bytes of a row)")
        return
    if depth is None:
        return
    least = -(-depth * bits // 8)
    if shape[1] is not None and shape[1] < least:
        yield RuleFinding(name, f"{shape[1]} bytes of a row", f"at least {least}, for {depth} codes of {bits} bits")
    wanted = shape[0], _groups(depth, call.s64("group"))
    for port in ("scales", "zps"):
        if not compatible(call.shape(port), wanted):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {show(wanted)}, one for each group")


def product_shape(call: Call) -> tuple[Shape, ...]:
    """Src with the columns of the weights in the place of its last axis."""
    src, weights = call.shape("src"), call.shape("weights")
    return (None if not src else (*src[:-1], weights[0] if weights and len(weights) == 2 else None),)


def operands_fit(call: Call) -> Iterable[RuleFinding]:
    """Weights, scales and zero points belong to src."""
    src = call.shape("src")
    if src == ():
        yield RuleFinding("src", "shape []", "at least one axis")
        return
    yield from _weights_fit(call, "weights", None if src is None else src[-1])


def gathered_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of the indices, and the numbers of a row."""
    indices = call.shape("indices")
    return (None if indices is None else (*indices, call.s64("depth")),)


def rows_fit(call: Call) -> Iterable[RuleFinding]:
    """The table, scales and zero points have rows of ``depth`` codes."""
    yield from _weights_fit(call, "table", call.s64("depth"))


def chosen_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of the places, and the columns of the weights."""
    places, weights = call.shape("places"), call.shape("weights")
    return (None if places is None else (*places, weights[1] if weights and len(weights) == 3 else None),)


def experts_fit(call: Call) -> Iterable[RuleFinding]:
    """Src has a row for each token or choice, and the weights of each expert fit it."""
    src, places, weights = (call.shape(name) for name in ("src", "places", "weights"))
    if places is not None and len(places) != 2:
        yield RuleFinding("places", f"shape {show(places)}", "(tokens, choices)")
        return
    if src is not None and (
        len(src) not in (2, 3) or not compatible(src[:-1], (places or (None, None))[: len(src) - 1])
    ):
        yield RuleFinding("src", f"shape {show(src)}", "(tokens, depth) or (tokens, choices, depth)")
        return
    if weights is not None and len(weights) != 3:
        yield RuleFinding("weights", f"shape {show(weights)}", "(experts, columns, bytes of a row)")
        return
    depth = None if src is None else src[-1]
    if weights is None or depth is None:
        return
    least = -(-depth * BITS[call.string("coding")] // 8)
    if weights[2] is not None and weights[2] < least:
        yield RuleFinding("weights", f"{weights[2]} bytes of a row", f"at least {least}, for {depth} codes")
    wanted = *weights[:2], _groups(depth, call.s64("group"))
    for port in ("scales", "zps"):
        if not compatible(call.shape(port), wanted):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {show(wanted)}, one for each group")


ARITHMETIC = Attribute(
    "arithmetic",
    "str",
    "exact: sums in f32; codes: src may become 8-bit codes with a scale for each block of a row, or both sides bf16.",
    default=EXACT,
    values=(EXACT, CODES),
)
OPS = (
    host(
        "PackedMatMul",
        "dst = src @ weights.T, where a row of weights has the codes of one column of a matrix. " + NUMBERS,
        "src:T weights:u8 scales:S zps:Z?",
        "dst:T",
        rows("T S Z", "f32|f16|bf16 f32|f16|bf16 u8|s8|f32|f16|bf16"),
        product_shape,
        (*CODING, ARITHMETIC),
        shape_rules=(operands_fit,),
        traits=Trait.NONE,
    ),
    host(
        "PackedGather",
        "The rows of a packed table that indices name, as numbers; a negative index counts from the end. " + NUMBERS,
        "table:u8 indices:s32|s64 scales:S zps:Z?",
        "dst:S",
        rows("S Z", "f32|f16|bf16 u8|s8|f32|f16|bf16"),
        gathered_shape,
        (*CODING, Attribute("depth", "s64", "The numbers of a row.", required=True, range=NON_NEGATIVE)),
        shape_rules=(rows_fit,),
        traits=Trait.NONE,
    ),
    host(
        "PackedExperts",
        "dst[t, i] = src[t, i] @ weights[places[t, i]].T: each choice of a token meets one of several packed matrices. "
        "Src may have one row for all choices of a token. A place that is no expert gives zeros. " + NUMBERS,
        "src:T places:s64 weights:u8 scales:S zps:Z?",
        "dst:T",
        rows("T S Z", "f32|f16|bf16 f32|f16|bf16 u8|s8|f32|f16|bf16"),
        chosen_shape,
        (*CODING, ARITHMETIC),
        shape_rules=(experts_fit,),
        traits=Trait.NONE,
    ),
)
