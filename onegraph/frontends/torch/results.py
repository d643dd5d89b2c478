"""Lets each call return memory of its own, which results share as they do in PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg

from .lowering import is_call

UNSAFE = ("aten._unsafe_view.default", "aten.lift_fresh.default")  # views whose declaration does not say so


def shares_memory(node: FxNode) -> bool:
    """Whether the result of a call lies in the memory of its input."""
    if node.target is operator.getitem:
        return True
    return is_call(node) and (bool(getattr(node.target, "is_view", False)) or str(node.target) in UNSAFE)


def with_own_results(gm: GraphModule, known: Mapping[FxNode, Any], saved: frozenset[FxNode]) -> frozenset[FxNode]:
    """Make what a graph returns outside of parts, where that decides which memory it lies in.

    A view that is returned is a view of what it names, also if a part reads the view. What is the same in every call is
    computed again for the caller, who may write to it.

    Args:
        gm: a graph without mutations.
        known: the results that are the same in every call.
        saved: the results that only the backward graph reads; their memory is not seen.

    Returns:
        The calls that are computed again.
    """
    (end,) = (node for node in gm.graph.nodes if node.op == "output")
    copies = _Copies(end, known)
    end.args = map_arg(end.args, lambda node: node if node in saved else copies.of(node))
    return frozenset(copies.made_anew)


class _Copies:
    """Copies of calls in front of the end of a graph.

    Attributes:
        made_anew: those of results that are the same in every call.
    """

    def __init__(self, end: FxNode, known: Mapping[FxNode, Any]) -> None:
        self.made_anew: set[FxNode] = set()
        self._end, self._known = end, known
        self._copies: dict[FxNode, FxNode] = {}

    def of(self, node: FxNode) -> FxNode:
        """The copy of a view or of what is the same in every call; another node itself."""
        is_known = node in self._known and node.op == "call_function"
        if not is_known and not shares_memory(node):
            return node
        if node not in self._copies:
            if shares_memory(node):
                source, *_ = node.all_input_nodes
                self.of(source)
            with self._end.graph.inserting_before(self._end):
                self._copies[node] = self._end.graph.node_copy(node, lambda one: self._copies.get(one, one))
            if is_known:
                self.made_anew.add(self._copies[node])
        return self._copies[node]


__all__ = ["shares_memory", "with_own_results"]
