"""Computes attention by one kernel of the package where sizes change or few queries meet many keys.

The library compiles its ops for each size. The steps of a decoder have one token more each time. Products with the
keys and the values, and the SoftMax between them, would be compiled for each number of tokens, which takes 100 times as
long as the attention. The kernel takes any number.

A few queries take as long as reading the keys, which the library copies before the product, in another order.
"""

from __future__ import annotations

from typing import NamedTuple

from ...opset.dtypes import DataType
from ...opset.kinds import ARITHMETIC, MOVES
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..options import Options
from .attention_scores import (
    RANKS,
    Scores,
    is_plain,
    is_reshape,
    is_without_last,
    number_of,
    only_maker,
    unscaled,
    with_sinks,
)
from .attention_views import before_joining, is_view, joined_shape, place_for_reader, with_views

Dims = tuple[int, ...]
SPARE = MOVES | ARITHMETIC | {"TypeCast"}
FEW_QUERIES, LEAST_KEYS = 16, 64  # of a head
CHANGING = "by onegraph: sizes change, and the library would compile its ops for each of them"
FEW = "by onegraph: few queries take as long as reading the keys, which the library would copy first"


def attend(edit: Edit, options: Options) -> None:
    """Put steps of executor ``attention`` in the place of products, a SoftMax and what lies between."""
    graph = edit.graph
    if options.reproducible:
        return
    for step in graph.steps:
        if step.kind != "SoftMax" or not is_plain(graph, step, 1):
            continue
        match = _attention(graph, step)
        changes = graph.shared.partitions.rounds
        if match is not None and (changes or _has_few_queries(graph, match)):
            match, factor = match._replace(note=CHANGING if changes else FEW), match.attrs.get("factor")
            match = match._replace(attrs={name: number for name, number in match.attrs.items() if name != "factor"})
            *following, last = match.members
            for member in following:
                edit.replace(member)
            edit.replace(last, *with_views(edit, match, factor))  # type: ignore[arg-type]
            edit.spare([step for step in graph.steps if step.kind in SPARE])
            place_for_reader(edit, match.outputs[0])


def _attention(graph: Lowered, softmax: Step) -> Step | None:
    """The step for the attention around a SoftMax; None if there is none."""
    sinks = with_sinks(graph, softmax)
    scores = Scores(graph, softmax.inputs[0] if sinks is None else sinks.scores)
    behind_softmax = _behind(graph, softmax, has_sinks=sinks is not None, joins=bool(scores.joint))
    if behind_softmax is None:
        return None
    members, last, has_plain_shares = behind_softmax
    product = only_maker(graph, scores.number)
    if (
        product is None
        or product.kind != "MatMul"
        or not is_plain(graph, product, 2)
        or product.attrs.get("transpose_a")
    ):
        return None
    (query, key), value, turned = product.inputs, last.inputs[1], bool(product.attrs.get("transpose_b"))
    (result,) = last.outputs
    query, factor = unscaled(graph, query)
    key, key_factor = unscaled(graph, key)
    key, value = _exact(graph, key), _exact(graph, value)
    maker = graph.maker(key)
    if not turned:
        if not is_view(maker):
            return None
        assert maker is not None
        key_factor *= unscaled(graph, maker.inputs[0])[1]
    attrs = scores.numbers(factor * key_factor)
    if attrs is None:
        return None
    attrs["plain"] = has_plain_shares
    if scores.factor is not None:
        attrs["factor"] = scores.factor
    members = [product, *reversed(scores.members), *([] if sinks is None else sinks.members), *members, last]
    joint = scores.joint or graph.values[product.outputs[0]].shape
    if scores.joint:
        # The rows of heads that share keys and values were one matrix.
        before, consumer = graph.maker(query), graph.only_consumer(result)
        if before is not None and is_reshape(graph, before) and graph.values[before.inputs[0]].shape[:3] == joint[:3]:
            query = before.inputs[0]
        if (
            consumer is not None
            and is_reshape(graph, consumer)
            and graph.values[consumer.outputs[0]].shape[:3] == joint[:3]
        ):
            (result,), members = consumer.outputs, [*members, consumer]
    own = joint if scores.joint else graph.values[query].shape
    if not _fit(graph, own, key, value, joint, scores.mask, turned):
        return None
    ends = [query, key, value, *scores.mask]
    if sinks is not None:
        if not _fits_scores(graph, sinks.sink, joint):
            return None
        attrs["sink"] = True
        ends.append(sinks.sink)
    step = members[-1].instead("attention", tuple(ends), (result,), attrs=attrs)
    return step._replace(members=tuple(members))


class _Behind(NamedTuple):
    """The steps from a SoftMax to the product with the values, that product, and whether NaN stays in the shares."""

    members: list[Step]
    product: Step
    is_plain: bool


def _behind(graph: Lowered, softmax: Step, *, has_sinks: bool, joins: bool) -> _Behind | None:
    """What lies behind a SoftMax along the last axis; None if that is no product with the values."""
    shares, last = softmax.outputs[0], graph.only_consumer(softmax.outputs[0])
    rank = len(graph.values[shares].shape)
    if int(softmax.attrs.get("axis", 1)) % rank != rank - 1:  # type: ignore[arg-type]
        return None
    members = [softmax]

    def take(*steps: Step) -> tuple[int, Step | None]:
        members.extend(steps)
        return steps[-1].outputs[0], graph.only_consumer(steps[-1].outputs[0])

    replaces = last is not None and last.kind == "ReplaceNaN" and number_of(graph, last.inputs[1]) == 0
    if replaces:
        assert last is not None
        shares, last = take(last)
    if rounded := _rounded(graph, last):
        shares, last = take(*rounded)
    if has_sinks:
        if last is None or not is_without_last(graph, last, shares):
            return None
        shares, last = take(last)
    if joins and last is not None and is_reshape(graph, last):
        shares, last = take(last)
    if last is None or last.kind != "MatMul" or not is_plain(graph, last, 2) or _is_turned(last):
        return None
    return _Behind(members, last, not replaces) if last.inputs[0] == shares else None


def _exact(graph: Lowered, value: int) -> int:
    """The f16 or bf16 numbers that an f32 value has, which the kernel reads as they are; otherwise the value."""
    maker = graph.maker(value)
    return maker.inputs[0] if maker is not None and maker.kind == "TypeCast" else value


def _rounded(graph: Lowered, first: Step | None) -> tuple[Step, ...]:
    """The steps that round shares to 16 bits and back, where the graph permits f32 between ops; () for none."""
    if graph.graph._roundings is None or first is None or first.kind != "TypeCast":
        return ()
    (narrow,) = first.outputs
    second = graph.only_consumer(narrow)
    if second is None or second.kind != "TypeCast":
        return ()
    return first, second


def _has_few_queries(graph: Lowered, step: Step) -> bool:
    """Whether an attention takes as long as reading the keys, which the library copies first."""
    query, _, value = (graph.values[number].shape for number in step.inputs[:3])
    return query[-2] <= FEW_QUERIES and value[-2] >= LEAST_KEYS


def _is_turned(step: Step) -> bool:
    return bool(step.attrs.get("transpose_a") or step.attrs.get("transpose_b"))


def _fit(graph: Lowered, q: Dims, key: int, value: int, s: Dims, mask: tuple[int, ...], turned: bool) -> bool:
    """Whether the kernel takes tensors of these shapes.

    ``q``: the shape of the query, whose last axis the product has compared; ``s``: that of the scores; ``turned``:
    whether keys are rows.
    """
    k, v = (graph.values[number].shape for number in (key, value))
    if len(k) == len(s) and not turned:
        k = (*k[:-2], k[-1], k[-2])
    if any(len(shape) != len(s) for shape in (q, k, v)) or k[:-1] != v[:-1]:
        return False
    if q[0] != k[0] or q[1] % k[1] or (len(s) > RANKS[0] and (q[1] != k[1] or k[2] != 1)):
        return False
    return s == (*q[:-1], k[-2]) and all(_fits_scores(graph, number, s) for number in mask)


def _fits_scores(graph: Lowered, mask: int, s: Dims) -> bool:
    """Whether a mask is broadcast to scores of this shape, also where heads are one axis."""
    value = graph.values[mask]
    if not all(dim in (1, full) for dim, full in zip(reversed(value.shape), reversed(s), strict=False)):
        return False
    if len(s) == RANKS[0]:
        return True
    _, *heads, _, _ = (*(1,) * (RANKS[1] - len(value.shape)), *value.shape)
    # The library has no view of booleans.
    is_viewed = value.dtype is DataType.f32 or len(value.shape) < RANKS[0] or value.shape == joined_shape(value.shape)
    return heads in ([1, 1], [*s[1:3]]) and (is_viewed or before_joining(graph, mask) is not None)
