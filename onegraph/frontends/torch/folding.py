"""Computes once, with PyTorch, the calls that depend on parameters and numbers alone."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from ...lowering.movement import LEAST_CODES
from .lowering import is_call
from .node import DEQUANTIZES
from .results import shares_memory

LARGEST = 2**26  # bytes of a tensor that is made of numbers alone
# Ops that read the shape and the data type of their first input alone.
FILLS = frozenset(
    f"aten.{name}.default" for name in ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
)
TRANSPOSES = frozenset(["aten.t.default", "aten.transpose.int", "aten.permute.default"])


def folded(gm: GraphModule, prepared: Mapping[FxNode, Any]) -> dict[FxNode, Any]:
    """The results that are the same in every call, by node.

    Args:
        gm: a graph without mutations.
        prepared: the tensors of inputs that do not change.
    """
    values: dict[FxNode, Any] = dict(prepared)
    written = _written(gm)
    with torch.no_grad(), _disable_current_modes():
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                values[node] = _attribute(gm, str(node.target))
            elif node.target is operator.getitem and node.args[0] in values:
                values[node] = values[node.args[0]][node.args[1]]
            elif is_call(node) and node not in written and _is_foldable(node, values):
                args_of_node = node.args
                if str(node.target) in FILLS:
                    args_of_node = _stand_in(node), *args_of_node[1:]
                args, kwargs = (map_arg(one, values.__getitem__) for one in (args_of_node, node.kwargs))
                values[node] = node.target(*args, **kwargs)
    return values


def without_sources(known: Mapping[FxNode, Any]) -> None:
    """Let known calls that read only the shape of a tensor wait for no part that computes it."""
    for node in known:
        if str(node.target) in FILLS:
            node.args = ()


def _written(gm: GraphModule) -> set[FxNode]:
    """The calls whose results a later call overwrites."""
    nodes: set[FxNode] = set()
    for node in reversed(gm.graph.nodes):
        target: Any = node.target
        if (is_call(node) and target._schema.is_mutable) or (node in nodes and shares_memory(node)):
            nodes.update(node.all_input_nodes)
    return nodes


def without_empty(gm: GraphModule) -> None:
    """Leave tensors without elements out of joins whose data type the others have: no op of a graph takes them."""
    for node in [*gm.graph.nodes]:
        if str(node.target) != "aten.cat.default":
            continue
        tensors: Any = node.args[0]
        full = [one for one in tensors if all(type(dim) is not int or dim for dim in one.meta["val"].shape)]
        kinds = [one.meta["val"].dtype for one in full]
        if 0 < len(full) < len(tensors) and reduce(torch.promote_types, kinds) == node.meta["val"].dtype:
            node.args = (full, *node.args[1:])


def without_returns(gm: GraphModule) -> None:
    """Leave out pairs of transposes that undo each other, as the gradients of products have: each is a call of PyTorch.

    A result that a graph returns stays a tensor of its own beside the inputs and other results.
    """
    for node in [*gm.graph.nodes]:
        order, source = _order(node), next(iter(node.all_input_nodes), None)
        if not order or source is None or not (first := _order(source)):
            continue
        origin = source.all_input_nodes[0]
        is_returned = any(user.op == "output" for user in node.users)
        is_kept = origin.op == "placeholder" or any(user.op == "output" for user in origin.users)
        if [first[axis] for axis in order] == [*range(len(order))] and not (is_returned and is_kept):
            node.replace_all_uses_with(origin)


def _order(node: FxNode) -> list[int] | None:
    """The axes of a tensor in the order that a call puts them into; None for other calls."""
    if str(node.target) not in TRANSPOSES or "val" not in node.meta:
        return None
    rank = len(node.meta["val"].shape)
    order = [*range(rank)]
    if str(node.target) == "aten.permute.default":
        axes: Any = node.args[1]
        return [axis % rank for axis in axes]
    if str(node.target) == "aten.transpose.int" and rank:
        pair: Any = node.args[1:]
        first, second = (axis % rank for axis in pair)
        order[first], order[second] = second, first
        return order
    return order[::-1]


def _attribute(gm: GraphModule, path: str) -> Any:
    attribute: Any = gm
    for name in path.split("."):
        attribute = getattr(attribute, name)
    return attribute


def _stand_in(node: FxNode) -> Any:
    """A tensor whose data type is that of the first input of a fill, and whose shape is that of the result."""
    like, (source, *_) = node.meta["val"], node.all_input_nodes
    return torch.empty_strided(like.shape, like.stride(), dtype=source.meta["val"].dtype)


def _unpacks(node: FxNode) -> bool:
    """Whether a call makes numbers of a matrix of codes, which a product reads as they are."""
    if str(node.target).startswith(DEQUANTIZES):
        return True
    if str(node.target) != "aten._to_copy.default" or not node.all_input_nodes:
        return False
    codes, numbers = node.all_input_nodes[0].meta.get("val"), node.meta.get("val")
    if codes is None or numbers is None or codes.dtype not in (torch.int8, torch.uint8):
        return False
    return bool(numbers.dtype.is_floating_point and codes.ndim == 2 and codes.numel() >= LEAST_CODES)


def _is_foldable(node: FxNode, values: Mapping[FxNode, Any]) -> bool:
    """Whether a call gives the same in every run, and no more than memory for parameters."""
    target: Any = node.target
    if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable or _unpacks(node):
        return False
    read = node.all_input_nodes[1:] if str(target) in FILLS else node.all_input_nodes
    if not all(one in values for one in read):
        return False
    like = node.meta.get("val")
    likes = like if type(like) in (tuple, list) else [like]
    size = 0
    for like in likes:
        if not hasattr(like, "stride") or like.device.type != "cpu" or "empty" in str(target):
            return False
        dims = [*like.shape]
        if any(type(dim) is not int for dim in dims):
            return False
        size += like.numel() * like.element_size()
    read_bytes = sum(values[one].nbytes for one in read if hasattr(values[one], "nbytes"))
    return bool(size <= max(LARGEST, 2 * read_bytes))
