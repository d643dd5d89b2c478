"""Lowers control flow: unrolled where its course is known when a model is read and short, else as ops with bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....lowering import movement as lowering
from ....lowering.control import Looping, Scans, Turn
from ....lowering.control import branch as lowered_branch
from ....lowering.emitter import Value, dtype_of
from ....lowering.subgraph import BodyBuilder
from ....opset.dtypes import DataType
from ..node import SEQUENCES, GrowingList, Node, NotLowered, StackedList, TensorList, Unsettled, lowers
from ..protos import GraphProto, ValueInfoProto
from .sequences import joined

SHORT = 256  # nodes of all iterations; a longer loop is compiled once, as a body
MAX_UNROLLED = 2000  # nodes, where the body has shapes that depend on the number of the iteration


@lowers("If")
def branch(node: Node) -> list[Any]:
    """The branch that a known condition chooses, or both as bodies."""
    condition = node.value(0)
    names = {True: "then_branch", False: "else_branch"}
    if not isinstance(condition, np.ndarray):
        then, otherwise = ([node.attr(names[choice]), choice] for choice in (True, False))

        def bodies(graph: GraphProto) -> Any:
            return lambda body: _tensors(body, node.subgraph(graph, [], body))

        return lowered_branch(node.emit, _flag(node, condition), bodies(then[0]), bodies(otherwise[0]))
    if condition.size != 1:
        raise node.invalid("no condition of one element", "a boolean")
    return node.subgraph(node.attr(names[bool(condition.reshape(-1)[0])]), [])


def _flag(node: Node, condition: Value) -> Value:
    if dtype_of(condition) is not DataType.boolean:
        raise node.invalid(f"a condition of {dtype_of(condition)}", "a boolean")
    return condition


def _tensors(body: BodyBuilder, results: Sequence[Any]) -> list[Value]:
    """The results of a body; a value that is none of the body's tensors is read from outside."""
    del body
    if any(one is None or isinstance(one, SEQUENCES) for one in results):
        raise NotLowered("a body returns a sequence or an absent optional")
    return [*results]


@lowers("Loop")
def loop(node: Node) -> list[Any]:
    """The iterations one after the other, if their number is known and small, or a loop that runs a body."""
    body, states = node.attr("body"), [node.any(index) for index in range(2, len(node))]
    trips, going = node.optional(0), node.optional(1)
    is_known = all(one is None or isinstance(one, np.ndarray) for one in (trips, going))
    is_known = is_known and not (trips is None and going is None)

    def unrolled(nodes: float) -> list[Any] | None:
        try:
            most = nodes if node.importer.now else nodes // max(len(body.node), 1)
            return _unrolled(node, body, states, trips, going, most) if is_known else None
        except NotLowered:
            if node.importer.now:
                raise
            return None

    states_after = _bags(node, body, states, trips, going) or unrolled(float("inf") if node.importer.now else SHORT)
    if states_after is not None:
        return states_after
    try:
        looping, growing = _looping(node, body, states, trips, going)
    except NotLowered:
        states_after = unrolled(MAX_UNROLLED)
        if states_after is None:
            raise
        return states_after
    if looping.has_open_shapes and (states_after := unrolled(MAX_UNROLLED)) is not None:
        return states_after
    return _with_sequences(node, states, looping.results(), growing)


def _bags(node: Node, body: GraphProto, states: Sequence[Any], trips: Any, going: Any) -> list[Any] | None:
    """The result of a loop that reduces one bag of rows in each iteration; None for other loops."""
    if node.importer.now or states or len(body.output) != 2:
        return None
    try:
        result = _looping(node, body, states, trips, going)[0].bags()
    except NotLowered:
        return None
    return None if result is None else [result]


def _looping(
    node: Node, body: GraphProto, states: Sequence[Any], trips: Any, going: Any
) -> tuple[Looping, Mapping[int, int]]:
    """The loop with its body, and how many tensors an iteration adds to each state that is a sequence."""
    if any(state is None or isinstance(state, GrowingList) for state in states):
        raise NotLowered("an absent optional, or a sequence that grows, is a state of a loop")
    condition = np.array(True) if going is None else _flag(node, going)
    if trips is not None and dtype_of(trips) is not DataType.s64:
        raise node.invalid(f"a number of iterations of {dtype_of(trips)}", "s64")
    growing: dict[int, int] = {}
    tensors = [state for state in states if not isinstance(state, SEQUENCES)]

    def iteration(inside: BodyBuilder, number: Value, seen_states: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del slices
        rest = iter(seen_states)
        seen = [
            GrowingList(place) if isinstance(state, SEQUENCES) else next(rest) for place, state in enumerate(states)
        ]
        again, *returned = node.subgraph(body, [number, np.array(True), *seen], inside)
        added: list[Value] = []
        for place, state_value in enumerate(seen):
            after = returned[place]
            if isinstance(state_value, GrowingList):
                if not isinstance(after, GrowingList) or after.state != place:
                    raise NotLowered("a sequence that a loop changes in another way than by tensors at its end")
                growing[place] = len(after.added)
                added += after.added
        after = [one for one, before in zip(returned, seen, strict=False) if not isinstance(before, GrowingList)]
        results = _tensors(inside, [*after, *returned[len(states) :], *added])
        return Turn(_flag(node, again), results[: len(tensors)], results[len(tensors) :])

    scans = Scans((), (), (), (), ())
    return Looping(node.emit, trips, condition, tensors, scans, iteration), growing


def _with_sequences(
    node: Node, states: Sequence[Any], results: Sequence[Value], growing: Mapping[int, int]
) -> list[Any]:
    """The results of a loop, with the tensors that it has added to sequences in their places."""
    count = len(results) - sum(growing.values())
    rest, added, result = iter(results[:count]), iter(results[count:]), list[Any]()
    for place, first in enumerate(states):
        if not isinstance(first, SEQUENCES):
            result.append(next(rest))
            continue
        stacks = [StackedList(next(added)) for _ in range(growing[place])]
        if not stacks:
            result.append(first)
        elif len(stacks) > 1 or isinstance(first, GrowingList):
            raise NotLowered("loops add several tensors to a sequence in an iteration")
        else:
            result.append(joined(node, [first, *stacks]))
    return [*result, *rest]


def _unrolled(node: Node, body: GraphProto, states: Sequence[Any], trips: Any, going: Any, most: float) -> list[Any]:
    """The iterations one after the other, at most ``most``."""
    limit = None if trips is None else int(np.reshape(trips, -1)[0])
    if limit is not None and going is None and limit > most:
        raise NotLowered(f"more than {MAX_UNROLLED} nodes")
    scans: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    number = 0
    while (limit is None or number < limit) and (going is None or bool(going.reshape(-1)[0])):
        if number > most:
            raise NotLowered(f"more than {MAX_UNROLLED} nodes")
        flag = np.array(True) if going is None else going
        again, *returned = node.subgraph(body, [np.array(number, np.int64), flag, *states])
        if not isinstance(again, np.ndarray):
            raise NotLowered("the condition is not known before the graph runs")
        states, going = returned[: len(states)], again
        for parts, scanned in zip(scans, returned[len(states) :], strict=True):
            parts.append(scanned)
        number += 1
    ends = body.output[1 + len(states) :]
    return [*states, *[_stacked(node, parts, end) for parts, end in zip(scans, ends, strict=True)]]


def _stacked(node: Node, parts: list[Value], end: ValueInfoProto, axis: int = 0) -> Value:
    """The results of all iterations along an axis; of no iteration an empty tensor of the type that the body states."""
    if not parts:
        tensor = end.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
        dims.insert(axis % (len(dims) + 1), 0)
        return np.zeros(dims, node.importer.dtype(tensor.elem_type, node.where).numpy)
    if any(isinstance(part, TensorList) or part is None for part in parts):
        raise node.invalid("a sequence as a scan output", "a tensor")
    return lowering.concat(node.emit, [lowering.unsqueeze(node.emit, part, [axis]) for part in parts], axis)


@lowers("Scan")
def scan(node: Node) -> list[Any]:
    """The iterations one after the other, if the scanned axis is known and short, or a loop that runs a body."""
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
    body, count = node.attr("body"), len(scanned)
    n_results = len(body.output) - len(states)
    axes = node.attr("scan_input_axes") or [0] * count
    backwards = node.attr("scan_input_directions", node.attr("directions")) or [0] * count
    ends = node.attr("scan_output_axes") or [0] * n_results
    order = node.attr("scan_output_directions") or [0] * n_results
    if not scanned:
        raise NotLowered("no scanned input")

    def unrolled() -> list[Any]:
        steps = [_parts(node, one, axis) for one, axis in zip(scanned, axes, strict=True)]
        steps = [parts[::-1] if back else parts for parts, back in zip(steps, backwards, strict=True)]
        return _scanned(node, states, steps, ends, order)

    shape = scanned[0].shape
    size = None if shape is None else shape[axes[0]]
    nodes = None if size is None else size * max(len(body.node), 1)
    if node.importer.now or (nodes is not None and nodes <= SHORT):
        return unrolled()

    def iteration(inside: BodyBuilder, number: Value, seen_states: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del number
        returned = _tensors(inside, node.subgraph(body, [*seen_states, *slices], inside))
        return Turn(np.array(True), returned[: len(states)], returned[len(states) :])

    scans = Scans(scanned, axes, [*map(bool, backwards)], ends, [*map(bool, order)])
    looping = Looping(node.emit, None, np.array(True), states, scans, iteration)
    if looping.has_open_shapes and nodes is not None and nodes <= MAX_UNROLLED:
        return unrolled()
    return looping.results()


def _scanned(
    node: Node, states: list[Value], steps: list[list[Value]], axes: Sequence[int], order: Sequence[int]
) -> list[Any]:
    """The iterations of a scan one after the other."""
    body = node.attr("body")
    scans: list[list[Value]] = [[] for _ in body.output[len(states) :]]
    for inputs in zip(*steps, strict=True):
        returned = node.subgraph(body, [*states, *inputs])
        states = returned[: len(states)]
        for results, scanned in zip(scans, returned[len(states) :], strict=True):
            results.append(scanned)
    ends = body.output[len(states) :]
    return [
        *states,
        *[
            _stacked(node, parts[::-1] if back else parts, end, axis)
            for parts, end, axis, back in zip(scans, ends, axes, order, strict=True)
        ],
    ]


def _parts(node: Node, value: Value, axis: int) -> list[Value]:
    """The slices of a tensor along an axis, without that axis."""
    dim = None if value.shape is None else value.shape[axis]
    if dim is None:
        raise Unsettled("the size of the scanned axis is unknown")
    parts = lowering.split(node.emit, value, [1] * dim, axis)
    return [lowering.squeeze(node.emit, part, [axis]) for part in parts]
