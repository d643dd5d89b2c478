"""Fused ops that spread a result over more elements with a reference kernel: 20 to 400 times as long as in parts."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.traits import Trait
from .fault import SLOW, Faults
from .operands import is_fast, varying
from .post_ops import post_ops
from .use import BINARY, ELEMENTWISE, Fused, Use

FAULTS = Faults[Fused](where="", severity=SLOW)

ORDERED = kinds.ARITHMETIC - kinds.base_kinds(Trait.COMMUTATIVE)  # the inputs of the others change places


def _spreads_first(use: Use) -> bool:
    """Whether a binary op has more elements than its first input."""
    first = use.shape(0)
    return (1,) * (len(use.result) - len(first)) + first != use.result


def _widens(fused: Fused) -> str:
    """A binary op that spreads the result before it over the shape of its operand, for which it is slow."""
    for post in post_ops(fused):
        narrow, wide = post.main.result, post.use.result
        if post.use.kind not in BINARY or len(narrow) != len(wide) or narrow == wide:
            continue
        # A first input of fewer elements gives the result of a quotient or a difference a layout of its own.
        is_turned = post.main.kind in ORDERED and _spreads_first(post.main)
        if is_turned or not is_fast(varying(wide, narrow)):
            return f"oneDNN has a reference kernel only for {post.use.kind} with a result of shape {list(narrow)}"
    return ""


SLOW_WIDENING = FAULTS.add(
    "slow_widening",
    ops=BINARY,
    when=_widens,
    seen={(3, 2): "slow"},
    reason="A binary op that spreads the result of the op before it takes a reference kernel: along the last of more "
    "than three axes, or if that op is a quotient of or a difference from fewer numbers",
    instead="the binary op alone, on fewer axes",
)


@SLOW_WIDENING.example({(3, 2): "right"})
def product_of_rows_and_their_largest_numbers(g: DataGraph) -> LogicalTensor:
    largest = g.op("ReduceMax", [g.input("x", "f32", (2, 3, 4, 6))], {"axes": [-1], "keep_dims": True})
    return g.multiply(g.input("y", "f32", (2, 3, 4, 6)), largest)


def _spreads_the_first(fused: Fused) -> str:
    """A binary op with a kernel of its own behind an elementwise op or a reduction, whose first input is spread."""
    for post in post_ops(fused):
        if (
            post.use.kind in BINARY
            and post.main.kind in ELEMENTWISE | kinds.REDUCTIONS
            and not (post.is_joined and post.main.result == post.use.result)
            and _spreads_first(post.use)
        ):
            shape = list(post.use.shape(0))
            return f"oneDNN has a reference kernel only for {post.use.kind} with a first input of shape {shape}"
    return ""


SLOW_FIRST = FAULTS.add(
    "slow_first_input",
    ops=BINARY,
    when=_spreads_the_first,
    seen={(3, 2): "slow"},
    reason="Behind an elementwise op or a reduction, a binary op that spreads its first input takes a reference "
    "kernel, as its inputs do not change places",
    instead="the binary op alone, whose inputs change places",
)


@SLOW_FIRST.example({(3, 2): "right"})
def gate_of_each_channel(g: DataGraph) -> LogicalTensor:
    return g.multiply(g.sigmoid(g.input("x", "f32", (2, 1, 1, 8))), g.input("y", "f32", (2, 5, 5, 8)))
