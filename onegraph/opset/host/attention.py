"""Defines scaled dot product attention, which the specification spells out as several ops, and its gradient."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, Finding, required_outputs
from ..shapes import compatible, show
from ..signature import NON_NEGATIVE, Attribute, Shape, rows
from ..traits import Trait
from .types import host

ATTRIBUTES = (
    Attribute("scale", "f32", "Factor of the products of query and key; 1 / sqrt(size) if it is not given."),
    Attribute("causal", "bool", "Whether query t sees no key behind key t + past.", default=False),
    Attribute("past", "s64", "Number of keys before that of the first query.", default=0, range=NON_NEGATIVE),
    Attribute(
        "window",
        "s64",
        "Number of last keys that a query sees if causal, its own among them; 0 for all.",
        default=0,
        range=NON_NEGATIVE,
    ),
)
TYPES = rows("T M L", "f32|f16|bf16 f32|f16|bf16|boolean f32", "float64 float64|boolean float64")
SCORED = "shares = softmax(scale * query @ key.T + mask) over the keys; a boolean mask keeps the keys where it is True"


def scale_of(call: Call) -> float:
    """The factor of the products of query and key."""
    return call.f32("scale") if call.has("scale") else ((call.shape("query") or (1,))[-1] or 1) ** -0.5


def attention_shape(call: Call) -> tuple[Shape, ...]:
    """dst is (batch, heads, tokens, size of a value), and logsumexp lacks the last axis."""
    query, value = call.shape("query"), call.shape("value")
    if query is None or value is None:
        return None, None
    return (*query[:3], value[3]), query[:3]


def backward_shape(call: Call) -> tuple[Shape, ...]:
    """The shapes of query, key and value."""
    return call.shape("query"), call.shape("key"), call.shape("value")


def ranks_are_four(call: Call) -> Iterable[Finding]:
    """query, key and value are (batch, heads, tokens, size)."""
    for port in ("query", "key", "value"):
        if call.rank(port) not in (4, None):
            yield Finding(port, f"shape {show(call.shape(port))}", "(batch, heads, tokens, size)")


def operands_fit(call: Call) -> Iterable[Finding]:
    """query, key and value belong together; each head of key and value serves as many heads of the query."""
    query, key, value = (call.shape(port) or (None,) * 4 for port in ("query", "key", "value"))
    for port, given, wanted in (
        ("key", key, (query[0], None, None, query[3])),
        ("value", value, (key[0] if query[0] is None else query[0], key[1], key[2], None)),
    ):
        if not compatible(given, wanted):
            yield Finding(port, f"shape {show(given)}", f"a shape like {show(wanted)}, where None is any number")
    if query[1] is not None and key[1] is not None and (key[1] == 0 or query[1] % key[1]):
        yield Finding("key", f"{key[1]} heads", f"a divisor of {query[1]}, the number of heads of query")


def mask_fits(call: Call) -> Iterable[Finding]:
    """The mask broadcasts to (batch, heads, queries, keys)."""
    query, key, mask = (call.shape(port) for port in ("query", "key", "mask"))
    if query is None or key is None or mask is None:
        return
    scores = (*query[:3], key[2])
    fits = len(mask) <= len(scores) and all(
        None in (dim, whole) or dim in (1, whole) for dim, whole in zip(reversed(mask), reversed(scores), strict=False)
    )
    if not fits:
        yield Finding("mask", f"shape {show(mask)}", f"a shape that broadcasts to {show(scores)}")


def results_fit(call: Call) -> Iterable[Finding]:
    """dst and its gradient, and logsumexp, have the shapes that Attention gives."""
    dst, logsumexp = attention_shape(call)
    for port, wanted in (("dst", dst), ("logsumexp", logsumexp), ("grad_dst", dst)):
        if not compatible(call.shape(port), wanted):
            yield Finding(port, f"shape {show(call.shape(port))}", f"shape {show(wanted)}")


OPS = (
    host(
        "Attention",
        f"dst = shares @ value, where {SCORED}; logsumexp = ln of the sum of e ** score. Memory grows linearly with "
        "the numbers of queries and keys. A query that sees no key gets 0, and its logsumexp is minus infinity.",
        "query:T key:T value:T mask:M?",
        "dst:T logsumexp:L?",
        TYPES,
        attention_shape,
        ATTRIBUTES,
        rules=(ranks_are_four,),
        shape_rules=(operands_fit, mask_fits),
        implied_outputs=required_outputs,
        traits=Trait.NONE,
    ),
    host(
        "AttentionBackward",
        f"The gradients of Attention, by its inputs, results and the gradient of dst. With {SCORED}.",
        "query:T key:T value:T dst:T logsumexp:L grad_dst:T mask:M?",
        "grad_query:T grad_key:T grad_value:T",
        TYPES,
        backward_shape,
        ATTRIBUTES,
        rules=(ranks_are_four,),
        shape_rules=(operands_fit, mask_fits, results_fit),
        traits=Trait.NONE,
    ),
)
