"""Defines linear attention, whose state is a matrix for each head, over all tokens, which the specification lacks."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding
from ..shapes import compatible, show
from ..signature import Shape, rows
from ..traits import Trait
from .types import host


def attended_shape(call: Call) -> tuple[Shape, ...]:
    """dst is (batch, tokens, heads, queries, size of a value), and last has the shape of state."""
    query, value = call.shape("query"), call.shape("value")
    dst = None if query is None or value is None else (*query[:4], value[3])
    return dst, call.shape("state")


def operands_fit(call: Call) -> Iterable[RuleFinding]:
    """The operands have the axes of the query, and the sizes of the value and the state."""
    axes = {"query": 5, "key": 4, "value": 4, "state": 4, "decay": 4, "rate": 3}
    for port, rank in axes.items():
        if call.rank(port) not in (rank, None):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"{rank} axes")
            return
    query, value = call.shape("query") or (None,) * 5, call.shape("value") or (None,) * 4
    batch, tokens, heads, _, size = query
    wanted: dict[str, list[Shape]] = {
        "key": [(batch, tokens, heads, size)],
        "value": [(batch, tokens, heads, None)],
        "state": [(batch, heads, size, value[3])],
        "decay": [(batch, tokens, heads, size), (batch, tokens, heads, 1)],
        "rate": [(batch, tokens, heads), (batch, tokens, 1)],
    }
    for port, shapes in wanted.items():
        if not any(compatible(call.shape(port), shape) for shape in shapes):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {' or '.join(map(show, shapes))}")


OPS = (
    host(
        "LinearAttention",
        "Attention by a state, a matrix for each head. For each token in turn, the rows of the state are multiplied by "
        "decay; with rate, the value becomes rate * (value - key @ state); state += key.T @ value; and "
        "dst = query @ state. query is (batch, tokens, heads, queries, size), key and value are "
        "(batch, tokens, heads, size), state is (batch, heads, size of a key, size of a value), decay is "
        "(batch, tokens, heads, size of a key or 1), and rate is (batch, tokens, heads or 1).",
        "query:T key:T value:T state:T decay:T? rate:T?",
        "dst:T last:T",
        rows("T", "f32|float64"),
        attended_shape,
        shape_rules=(operands_fit,),
        traits=Trait.NONE,
    ),
)
