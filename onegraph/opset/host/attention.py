"""Defines scaled dot product attention, its gradient, rotary embeddings and caches of keys and values.

The specification spells out attention as several ops, and lacks the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding, required_outputs
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
SOFTCAP = Attribute(
    "softcap",
    "f32",
    "Limit of the scores before the mask, softcap * tanh(scores / softcap); 0 for none.",
    default=0.0,
    range=NON_NEGATIVE,
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


def ranks_are_four(call: Call) -> Iterable[RuleFinding]:
    """query, key and value are (batch, heads, tokens, size)."""
    for port in ("query", "key", "value"):
        if call.rank(port) not in (4, None):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", "(batch, heads, tokens, size)")


def operands_fit(call: Call) -> Iterable[RuleFinding]:
    """query, key and value belong together; each head of key and value serves as many heads of the query."""
    query, key, value = (call.shape(port) or (None,) * 4 for port in ("query", "key", "value"))
    for port, shape, wanted in (
        ("key", key, (query[0], None, None, query[3])),
        ("value", value, (key[0] if query[0] is None else query[0], key[1], key[2], None)),
    ):
        if not compatible(shape, wanted):
            yield RuleFinding(port, f"shape {show(shape)}", f"a shape like {show(wanted)}, where None is any number")
    if query[1] is not None and key[1] is not None and (key[1] == 0 or query[1] % key[1]):
        yield RuleFinding("key", f"{key[1]} heads", f"a divisor of {query[1]}, the number of heads of query")


def mask_fits(call: Call) -> Iterable[RuleFinding]:
    """The mask broadcasts to (batch, heads, queries, keys)."""
    query, key, mask = (call.shape(port) for port in ("query", "key", "mask"))
    if query is None or key is None or mask is None:
        return
    scores = (*query[:3], key[2])
    fits = len(mask) <= len(scores) and all(
        None in (dim, whole) or dim in (1, whole) for dim, whole in zip(reversed(mask), reversed(scores), strict=False)
    )
    if not fits:
        yield RuleFinding("mask", f"shape {show(mask)}", f"a shape that broadcasts to {show(scores)}")


def lengths_fit(call: Call) -> Iterable[RuleFinding]:
    """There is a number for each batch."""
    src, lengths = call.shape(call.schema.inputs[0].name), call.shape("lengths")
    if src is not None and not compatible(lengths, src[:1]):
        yield RuleFinding("lengths", f"shape {show(lengths)}", f"shape {show(src[:1])}, one for each batch")


def rotary_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src."""
    return (call.shape("src"),)


def angles_fit(call: Call) -> Iterable[RuleFinding]:
    """cos and sin have one shape, which belongs to src."""
    src, cos, sin = map(call.shape, ("src", "cos", "sin"))
    if src is not None and len(src) != 4:
        yield RuleFinding("src", f"shape {show(src)}", "(batch, heads, tokens, size)")
        return
    if not compatible(cos, sin):
        yield RuleFinding("sin", f"shape {show(sin)}", f"shape {show(cos)}, as cos has")
    if cos is None or src is None:
        return
    is_table, has_lengths = len(cos) == 2, call.input("lengths") is not None
    if is_table is not has_lengths or (not is_table and len(cos) != 4):
        yield RuleFinding(
            "cos", f"shape {show(cos)}", "(rows, angles) beside lengths, else (batch, heads, tokens, angles)"
        )
        return
    if not is_table and any(
        None not in (dim, size) and dim not in (1, size) for dim, size in zip(cos[:3], src[:3], strict=True)
    ):
        yield RuleFinding("cos", f"shape {show(cos)}", f"a shape that broadcasts to {show(src[:3])} and angles")
    width = cos[-1] if cos[-1] is None or call.flag("whole") else 2 * cos[-1]
    if width is not None and (width % 2 or (src[3] is not None and width > src[3])):
        yield RuleFinding("cos", f"{cos[-1]} angles", f"angles of pairs of the {src[3]} numbers of a head")


def extended_shape(call: Call) -> tuple[Shape, ...]:
    """past with as many tokens as it has, or as there is room for."""
    past, room = call.shape("past"), call.value("total")
    if past is None:
        return (None,)
    most = call.s64("room") if call.input("total") is None else room[0] if room else None
    tokens = None if most is None or past[2] is None else max(most, past[2])
    return ((*past[:2], tokens, past[3]),)


def rows_are_alike(call: Call) -> Iterable[RuleFinding]:
    """past and rows differ in tokens alone."""
    past, rows = call.shape("past"), call.shape("rows")
    for port, shape in (("past", past), ("rows", rows)):
        if shape is not None and len(shape) != 4:
            yield RuleFinding(port, f"shape {show(shape)}", "(batch, heads, tokens, size)")
            return
    if past is not None and rows is not None and not compatible((*past[:2], None, past[3]), rows):
        yield RuleFinding(
            "rows", f"shape {show(rows)}", f"shape {show((*past[:2], None, past[3]))}, where None is any number"
        )


def results_fit(call: Call) -> Iterable[RuleFinding]:
    """dst and its gradient, and logsumexp, have the shapes that Attention gives."""
    dst, logsumexp = attention_shape(call)
    for port, wanted in (("dst", dst), ("logsumexp", logsumexp), ("grad_dst", dst)):
        if not compatible(call.shape(port), wanted):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {show(wanted)}")


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
    host(
        "CachedAttention",
        "Causal Attention of a cache, of which lengths[batch] keys are valid: query t sees the keys up to "
        f"max(lengths[batch] - queries, 0) + t. dst = shares @ value, and logsumexp as of Attention, where {SCORED}.",
        "query:T key:T value:T lengths:s64 mask:M?",
        "dst:T logsumexp:L?",
        TYPES,
        attention_shape,
        (ATTRIBUTES[0], ATTRIBUTES[-1], SOFTCAP),
        rules=(ranks_are_four,),
        shape_rules=(operands_fit, mask_fits, lengths_fit),
        implied_outputs=required_outputs,
        traits=Trait.NONE,
    ),
    host(
        "Rotary",
        "src with its first numbers turned: of a pair, a becomes a * cos - b * sin, and b becomes b * cos + a * sin. "
        "With lengths, cos and sin are tables, and token t of a batch has row max(lengths[batch] - tokens, 0) + t.",
        "src:T cos:T sin:T lengths:s64?",
        "dst:T",
        rows("T", "f32|f16|bf16|float64"),
        rotary_shape,
        (
            Attribute(
                "interleaved", "bool", "Whether the numbers of a pair are neighbours, or of two halves.", default=False
            ),
            Attribute("whole", "bool", "Whether each number of a pair has its own cos and sin.", default=False),
        ),
        shape_rules=(angles_fit, lengths_fit),
        traits=Trait.NONE,
    ),
    host(
        "ExtendCache",
        "past, with rows in the place of its tokens from max(lengths[batch] - tokens of rows, 0) on. It has room for "
        "total or `room` tokens if past has fewer; the new ones are 0.",
        "past:T rows:T lengths:s64 total:s64?!",
        "dst:T",
        rows("T", "f32|f16|bf16|float64|s8|u8"),
        extended_shape,
        (Attribute("room", "s64", "Least number of tokens, if total is absent.", default=0, range=NON_NEGATIVE),),
        shape_rules=(rows_are_alike, lengths_fit),
        traits=Trait.MOVES | Trait.BOUNDED,
    ),
)
