"""Unrolls control flow whose course is known when a model is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...lowering import movement as lowering
from ...lowering.emitter import Value
from ..node import Node, NotLowered, TensorList, lowers

MAX_UNROLLED = 2000  # nodes; a longer loop runs on the host


@lowers("If")
def branch(node: Node) -> list[Any]:
    """The branch that a known condition chooses."""
    condition = node.known(0)
    if condition is None or condition.size != 1:
        raise node.invalid("no condition of one element", "a boolean")
    graph = node.attr("then_branch" if condition.reshape(-1)[0] else "else_branch")
    return node.subgraph(graph, [])


@lowers("Loop")
def loop(node: Node) -> list[Any]:
    """The iterations one after the other, if their number is known and small."""
    body, states = node.attr("body"), [node.any(index) for index in range(2, len(node))]
    trips, going = node.integers(0), node.known(1)
    limit = None if trips is None else trips[0]
    if limit is None and going is None:
        raise NotLowered("a loop without an end")
    if limit is not None and limit * max(len(body.node), 1) > MAX_UNROLLED:
        raise NotLowered(f"more than {MAX_UNROLLED} nodes")
    scans: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    number = 0
    while (limit is None or number < limit) and (going is None or bool(going.reshape(-1)[0])):
        if number * max(len(body.node), 1) > MAX_UNROLLED:
            raise NotLowered(f"more than {MAX_UNROLLED} nodes")
        flag = np.array(True) if going is None else going
        again, *found = node.subgraph(body, [np.array(number, np.int64), flag, *states])
        if not isinstance(again, np.ndarray):
            raise NotLowered("the condition is not known before the graph runs")
        states, going = found[: len(states)], again
        for parts, one in zip(scans, found[len(states) :], strict=True):
            parts.append(one)
        number += 1
    if not all(scans):
        raise NotLowered("no iteration")
    return [*states, *[_stacked(node, parts) for parts in scans]]


def _stacked(node: Node, parts: list[Value]) -> Value:
    if any(isinstance(one, TensorList) or one is None for one in parts):
        raise node.invalid("a sequence as a scan output", "a tensor")
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, one, [0]) for one in parts], 0)
