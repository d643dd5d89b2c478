"""Unrolls control flow whose course is known when a model is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....lowering import movement as lowering
from ....lowering.emitter import Value
from ..node import Node, NotLowered, TensorList, Unsettled, lowers
from ..protos import GraphProto, ValueInfoProto

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
    """The iterations one after the other, if their number is known and small, or the loop runs now."""
    body, states = node.attr("body"), [node.any(index) for index in range(2, len(node))]
    trips, going = node.known(0), node.known(1)
    limit, most = None if trips is None else int(trips.reshape(-1)[0]), _most(node, body)
    if limit is None and going is None:
        raise NotLowered("a loop without an end")
    if limit is not None and going is None and limit > most:
        raise NotLowered(f"more than {MAX_UNROLLED} nodes")
    scans: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    number = 0
    while (limit is None or number < limit) and (going is None or bool(going.reshape(-1)[0])):
        if number > most:
            raise NotLowered(f"more than {MAX_UNROLLED} nodes")
        flag = np.array(True) if going is None else going
        again, *found = node.subgraph(body, [np.array(number, np.int64), flag, *states])
        if not isinstance(again, np.ndarray):
            raise NotLowered("the condition is not known before the graph runs")
        states, going = found[: len(states)], again
        for parts, one in zip(scans, found[len(states) :], strict=True):
            parts.append(one)
        number += 1
    ends = body.output[1 + len(states) :]
    return [*states, *[_stacked(node, parts, one) for parts, one in zip(scans, ends, strict=True)]]


def _most(node: Node, body: GraphProto) -> float:
    """The largest number of iterations that are unrolled; a node that runs now takes all."""
    return float("inf") if node.importer.now else MAX_UNROLLED // max(len(body.node), 1)


def _stacked(node: Node, parts: list[Value], end: ValueInfoProto, axis: int = 0) -> Value:
    """The results of all iterations along an axis; of no iteration an empty tensor of the type that the body states."""
    if not parts:
        tensor = end.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
        dims.insert(axis % (len(dims) + 1), 0)
        return np.zeros(dims, node.importer.dtype(tensor.elem_type, node.where).numpy)
    if any(isinstance(one, TensorList) or one is None for one in parts):
        raise node.invalid("a sequence as a scan output", "a tensor")
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, one, [axis]) for one in parts], axis)


@lowers("Scan")
def scan(node: Node) -> list[Any]:
    """The iterations one after the other, if the size of the scanned axis is known and small."""
    states = len(node) - node.attr("num_scan_inputs")
    if node.opset >= 9:
        return _scan(node, [node.value(index) for index in range(states)], [*map(node.value, range(states, len(node)))])
    # Before op set 9 the first input has the lengths, and the first axis of all others is a batch.
    if node.optional(0) is not None:
        raise NotLowered("lengths of sequences")
    images = [_parts(node, node.value(index), 0) for index in range(1, len(node))]
    if not images or not images[0]:
        raise NotLowered("no sequence")
    results = [_scan(node, one[: states - 1], one[states - 1 :]) for one in map(list, zip(*images, strict=True))]
    ends = node.attr("body").output
    return [_stacked(node, list(parts), end) for parts, end in zip(zip(*results, strict=True), ends, strict=True)]


def _scan(node: Node, states: list[Value], scanned: list[Value]) -> list[Any]:
    body = node.attr("body")
    axes, order = node.attr("scan_input_axes"), node.attr("scan_input_directions", node.attr("directions"))
    steps = [_parts(node, one, axes[index] if axes else 0) for index, one in enumerate(scanned)]
    steps = [parts[::-1] if order and order[index] else parts for index, parts in enumerate(steps)]
    if not steps or len(steps[0]) > _most(node, body):
        raise NotLowered(f"no scanned input, or more than {MAX_UNROLLED} nodes")
    scans: list[list[Value]] = [[] for _ in body.output[len(states) :]]
    for inputs in zip(*steps, strict=True):
        found = node.subgraph(body, [*states, *inputs])
        states = found[: len(states)]
        for results, one in zip(scans, found[len(states) :], strict=True):
            results.append(one)
    axes, order = node.attr("scan_output_axes"), node.attr("scan_output_directions")
    scans = [parts[::-1] if order and order[index] else parts for index, parts in enumerate(scans)]
    ends = body.output[len(states) :]
    return [
        *states,
        *[
            _stacked(node, parts, end, axes[index] if axes else 0)
            for index, (parts, end) in enumerate(zip(scans, ends, strict=True))
        ],
    ]


def _parts(node: Node, value: Value, axis: int) -> list[Value]:
    """The slices of a tensor along an axis, without that axis."""
    dim = None if value.shape is None else value.shape[axis]
    if dim is None:
        raise Unsettled("the size of the scanned axis is unknown")
    if dim > MAX_UNROLLED and not node.importer.now:
        raise NotLowered(f"more than {MAX_UNROLLED} nodes")
    parts = lowering.split(node.emit, value, [1] * dim, axis)
    return [lowering.squeeze(node.emit, one, [axis]) for one in parts]
