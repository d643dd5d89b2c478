"""Recognizes rotary embeddings as exporters spell them out: a product by cosines and one of turned pairs by sines."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.op import LogicalTensor, Op
from ...opset.shapes import known, known_dims
from ..emitter import Emitter, Value, rank_of
from ..movement import NATIVE
from ..rotary import rotated
from .table import either, ends_of, made, number, operand_of, rewrites

_Part = tuple[LogicalTensor, int, int, int]  # see `_part`


class _Turned(NamedTuple):
    """The tensor of whose last axis the numbers are turned, and whether a pair are neighbours."""

    src: LogicalTensor
    interleaved: bool


@rewrites("Add", of_known_dims=True)
def spelled_out(emit: Emitter, op: Op) -> Value | None:
    """src * cos + turned * sin, of the last axis of (batch, heads, tokens, size).

    turned is concat(-second half of src, first half), or has -b, a in the place of each two neighbours a, b.
    """
    dst = op.outputs[0]
    if dst.shape is None or len(dst.shape) != 4 or dst.dtype not in NATIVE:
        return None
    for plain, turned in either(op):
        first, second = made(emit, plain, "Multiply"), made(emit, turned, "Multiply")
        if first is None or second is None:
            continue
        for pairs, sin in either(second):
            if (pairing := _source(emit, pairs)) is None:
                continue
            cos = next((operand_ for value, operand_ in either(first) if value is pairing.src), None)
            if cos is not None and _fit(pairing.src, cos, sin):
                return rotated(emit, pairing.src, cos, sin, interleaved=pairing.interleaved, whole=True)
    return None


@rewrites("Concat", of_known_dims=True)
def in_halves(emit: Emitter, op: Op) -> Value | None:
    """concat(a * cos - b * sin, b * cos + a * sin) of the halves a, b of a tensor; or turned numbers and the others."""
    if rank_of(op.outputs[0]) != 4 or len(op.inputs) != 2 or op.attrs.get("axis") not in (-1, 3):
        return None
    rotation = _turned_by(emit, op, is_near=False)
    return _partly(emit, op) if rotation is None else rotation


@rewrites("StaticReshape", of_known_dims=True)
def in_neighbours(emit: Emitter, op: Op) -> Value | None:
    """The same of neighbours a, b, whose results are stacked."""
    joined = _stacked(emit, op.outputs[0])
    return None if joined is None or rank_of(op.outputs[0]) != 4 else _turned_by(emit, joined, is_near=True)


def _turned_by(emit: Emitter, op: Op, is_near: bool) -> Value | None:
    """A rotation by one angle for each pair, whose two results ``op`` joins."""
    real, imaginary = (_apart(emit, value) if is_near else value for value in op.inputs)
    difference, total = made(emit, real, "Subtract"), made(emit, imaginary, "Add")
    if difference is None or total is None:
        return None
    made_products = [made(emit, value, "Multiply") for value in (*difference.inputs, *total.inputs)]
    products = [product for product in made_products if product is not None]
    if len(products) < len(made_products):
        return None
    for a, cos in either(products[0]):
        for b, sin in either(products[1]):
            parts = [_part(emit, value) for value in (a, b)]
            if parts[0] is None or parts[1] is None or parts[0][0] is not parts[1][0]:
                continue
            src = parts[0][0]
            terms = {frozenset([end.id for end in ends_of(one)]) for one in products[2:]}
            is_turned = terms == {frozenset([b.id, cos.id]), frozenset([a.id, sin.id])}
            if is_turned and _is_pair(src, parts[0], parts[1], is_near) and _fit(src, cos, sin, numbers=2):
                return rotated(emit, src, cos, sin, interleaved=is_near)
    return None


def _partly(emit: Emitter, op: Op) -> Value | None:
    """A rotation of the first numbers of each row, behind which the others are joined."""
    turned, rest = made(emit, op.inputs[0], "Rotary"), _part(emit, op.inputs[1])
    if turned is None or rest is None or len(turned.inputs) != 3:
        return None
    src, begin, end, step = rest
    if _part(emit, turned.inputs[0]) != (src, 0, begin, 1) or (end, step) != (known_dims(src.shape)[-1], 1):
        return None
    flags = {name: bool(turned.attrs.get(name)) for name in ("interleaved", "whole")}
    return emit.op("Rotary", [src, *turned.inputs[1:]], flags)


def _source(emit: Emitter, value: LogicalTensor) -> _Turned | None:
    """The tensor of which a value has the second number of each pair, negative, and the first one."""
    stacked, concat = _stacked(emit, value), made(emit, value, "Concat")
    if stacked is not None:
        ends = [_apart(emit, end) for end in stacked.inputs]
    elif concat is None or len(concat.inputs) != 2 or concat.attrs.get("axis") not in (-1, 3):
        return None
    else:
        ends = [*concat.inputs]
    second, first = _part(emit, _negated(emit, ends[0])), _part(emit, ends[1])
    if first is None or second is None or first[0].id != second[0].id:
        return None
    is_near = stacked is not None
    return _Turned(first[0], is_near) if _is_pair(first[0], first, second, is_near) else None


def _is_pair(src: LogicalTensor, first: _Part, second: _Part, is_near: bool) -> bool:
    """Whether two parts are the first and the second numbers of the pairs of a tensor."""
    size = known_dims(src.shape)[-1]
    ends = ((0, size, 2), (1, size, 2)) if is_near else ((0, size // 2, 1), (size // 2, size, 1))
    return (first[1:], second[1:]) == ends


def _stacked(emit: Emitter, value: LogicalTensor) -> Op | None:
    """The Concat of two tensors along a further, last axis, which a reshape joins with the one before."""
    joined = made(emit, value, "StaticReshape", "Reshape")
    concat = None if joined is None else made(emit, joined.inputs[0], "Concat")
    shape = None if concat is None else concat.outputs[0].shape
    if concat is None or shape is None or len(shape) != 5 or len(concat.inputs) != 2:
        return None
    is_last = concat.attrs.get("axis") in (-1, 4) and shape[4] == 2
    return concat if is_last and value.shape == (*shape[:3], 2 * known_dims(shape)[3]) else None


def _apart(emit: Emitter, value: LogicalTensor | None) -> LogicalTensor | None:
    """The tensor that got a further, last axis; None for others."""
    op = made(emit, value, "Unsqueeze", "StaticReshape", "Reshape")
    if op is None:
        return None
    source = operand_of(op)
    return None if source.shape is None or op.outputs[0].shape != (*source.shape, 1) else source


def _negated(emit: Emitter, value: LogicalTensor | None) -> LogicalTensor | None:
    """What a value is the negative of; None for others."""
    op = made(emit, value, "Negative")
    if op is not None:
        return op.inputs[0]
    op = made(emit, value, "Multiply")
    if op is None:
        return None
    return next((operand_ for factor, operand_ in either(op) if number(factor) == -1), None)


def _part(emit: Emitter, value: LogicalTensor | None) -> _Part | None:
    """The tensor of whose last axis a value is a part, where the part begins and ends, and its step."""
    op = made(emit, value, "Slice")
    if op is None or len(op.inputs) < 4:
        return None
    src, places = operand_of(op), [number(input_) for input_ in op.inputs[1:]]
    dims = known_dims(src.shape)
    if not any(dims[-1:]) or None in places or places[2] not in (-1, len(dims) - 1):
        return None
    start, end, _, *step = (int(place) for place in places if place is not None)
    return src, *slice(start, end, *step).indices(dims[-1])


def _fit(src: LogicalTensor, cos: LogicalTensor, sin: LogicalTensor, numbers: int = 1) -> bool:
    """Whether cos and sin are angles (batch or 1, heads or 1, tokens or 1, angles) of a source of known sizes.

    ``numbers``: the numbers of the source for each angle.
    """
    shape, angles = src.shape, cos.shape
    assert shape is not None  # the source has parts
    if not known(angles) or angles != sin.shape or not len(shape) == len(angles) == 4:
        return False
    if {cos.dtype, sin.dtype} != {src.dtype}:
        return False
    pairs = zip(angles[:3], shape[:3], strict=True)
    return numbers * angles[-1] == shape[-1] and all(dim in (1, size) for dim, size in pairs)
