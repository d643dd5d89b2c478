"""Joins the gradients of the parts of a tensor.

Attention reads queries, keys and values as parts of one product, and a rotary embedding reads two halves of each. For
each part, PyTorch fills a tensor with zeros, puts the gradient of the part in its place, and adds up these tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

aten = torch.ops.aten
ZEROS = (aten.new_zeros.default, aten.zeros.default, aten.zeros_like.default)
FULL = (aten.full.default, aten.new_full.default, aten.full_like.default)


class ZeroPadded(NamedTuple):
    """A tensor of zeros but for the elements from ``start`` up to ``end`` of an axis, which are those of ``source``."""

    node: FxNode
    source: FxNode
    axis: int
    start: int
    end: int


def join_parts(gm: GraphModule) -> None:
    """Replace sums of disjoint parts of a tensor by one tensor that is made of the parts."""
    inner: set[FxNode] = set()
    for node in reversed([*gm.graph.nodes]):
        if not _is_sum(node) or node in inner:
            continue
        sums, terms = _terms(node)
        inner.update(sums)
        if groups := _disjoint(terms):
            _rebuild(gm.graph, node, terms, groups)
            parts = [part.node for group in groups for part in group]
            zeros: list[Any] = [part.args[0] for part in parts]
            for unread in dict.fromkeys((node, *sums, *parts, *zeros)):
                if not unread.users:
                    gm.graph.erase_node(unread)


def _is_sum(node: Any) -> bool:
    """Whether a call adds two tensors of its shape and data type, which are not the same."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return False
    if node.args[0] is node.args[1]:  # each term counts twice
        return False
    examples: list[Any] = [argument.meta.get("val") if isinstance(argument, FxNode) else None for argument in node.args]
    like = node.meta["val"]
    return all(hasattr(one, "stride") and (one.shape, one.dtype) == (like.shape, like.dtype) for one in examples)


def _terms(node: FxNode) -> tuple[list[FxNode], list[FxNode]]:
    """The sums that only another sum reads, the last first, and the terms of the whole sum in order."""
    sums: list[FxNode] = []
    terms: list[FxNode] = []
    waiting: list[Any] = [*reversed(node.args)]
    while waiting:
        term = waiting.pop()
        if _is_sum(term) and len(term.users) == 1:
            sums.append(term)
            waiting += reversed(term.args)
        else:
            terms.append(term)
    return sums, terms


def _disjoint(terms: Iterable[FxNode]) -> list[list[ZeroPadded]]:
    """The terms that are disjoint parts along one axis, in the order of their places: two or more for each axis."""
    by_axis: dict[int, list[ZeroPadded]] = {}
    for part in sorted(filter(None, map(_part, terms)), key=lambda part: part.start):
        group = by_axis.setdefault(part.axis, [])
        if not group or group[-1].end <= part.start:
            group.append(part)
    return [group for group in by_axis.values() if len(group) > 1 and (_is_full(group) or all(map(_is_static, group)))]


def _part(node: FxNode) -> ZeroPadded | None:
    if node.target not in (aten.select_scatter.default, aten.slice_scatter.default) or len(node.users) > 1:
        return None
    zeros, source, axis, *place = (*node.args, 0)[: max(len(node.args), 3)]
    like = node.meta["val"]
    size = like.shape[axis]
    if node.kwargs or not _is_zero(zeros) or type(size) is not int or source.meta["val"].dtype != like.dtype:
        return None
    if any(type(one) not in (int, type(None)) for one in place):
        return None
    if node.target is aten.select_scatter.default:
        start = place[0] % size
        return ZeroPadded(node, source, axis % like.dim(), start, start + 1)
    start, end, step = slice(*(*place, None, None, None)[:3]).indices(size)
    return ZeroPadded(node, source, axis % like.dim(), start, end) if step == 1 and start < end else None


def _is_zero(node: FxNode) -> bool:
    return node.target in ZEROS or (node.target in FULL and node.args[-1] == 0)


def _is_full(group: Sequence[ZeroPadded]) -> bool:
    """Whether the parts leave no gap."""
    first, *_ = group
    size: int = first.node.meta["val"].shape[first.axis]
    return sum(part.end - part.start for part in group) == size


def _is_static(part: ZeroPadded) -> bool:
    return all(type(dim) is int for dim in part.node.meta["val"].shape)


def _rebuild(
    graph: torch.fx.Graph, node: FxNode, terms: Sequence[FxNode], groups: Sequence[Sequence[ZeroPadded]]
) -> None:
    """Use the sum of joined parts and of the other terms in the place of a sum."""

    def call(target: Any, *args: Any) -> FxNode:
        made = graph.call_function(target, args)
        examples = torch.fx.node.map_arg(args, lambda one: one.meta["val"])
        made.meta = {**node.meta, "val": target(*examples)}
        return made

    joined = {part.node: group for group in groups for part in group}
    with graph.inserting_before(node):
        whole = [_joined(call, group) for group in groups]
        rest = [term for term in terms if term not in joined]
        node.replace_all_uses_with(reduce(partial(call, aten.add.Tensor), [*whole, *rest]))


def _joined(call: Any, group: Sequence[ZeroPadded]) -> FxNode:
    """The parts and zeros between them, side by side."""
    first, *_ = group
    like, axis = first.node.meta["val"], first.axis

    def zeros(size: int) -> list[FxNode]:
        shape = [size if at == axis else dim for at, dim in enumerate(like.shape)]
        return [call(aten.new_zeros.default, first.source, shape)] if size else []

    pieces: list[FxNode] = []
    at = 0
    for part in group:
        is_selected = part.node.target is aten.select_scatter.default
        source = call(aten.unsqueeze.default, part.source, axis) if is_selected else part.source
        pieces += [*zeros(part.start - at), source]
        at = part.end
    result: FxNode = call(aten.cat.default, [*pieces, *zeros(like.shape[axis] - at)], axis)
    return result


__all__ = ["join_parts"]
