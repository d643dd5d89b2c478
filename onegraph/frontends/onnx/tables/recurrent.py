"""Lowers LSTM, GRU and RNN."""

from __future__ import annotations

from ....lowering.emitter import Value, numbers
from ....lowering.movement import concat, reshape, slice_, transpose
from ....lowering.recurrent import Activation, Cell, Direction, Layer, activation
from ..node import Node, NotLowered, lowers
from .layers import native

DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
# Activations that take alpha, and beta too; each takes its numbers from the lists of the node in turn.
WITH_ALPHA = frozenset(["affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu", "celu"])
WITH_BETA = frozenset(["affine", "scaledtanh", "hardsigmoid"])


def _activations(node: Node, count: int) -> list[Activation]:
    """The activations of all directions in turn."""
    names = node.attr("activations") or ACTIVATIONS[node.proto.op_type] * count
    names = [name.decode() if isinstance(name, bytes) else name for name in names]
    alphas, betas = iter(node.attr("activation_alpha", [])), iter(node.attr("activation_beta", []))
    return [
        activation(
            name,
            next(alphas, None) if name.lower() in WITH_ALPHA else None,
            next(betas, None) if name.lower() in WITH_BETA else None,
        )
        for name in names
    ]


@lowers("LSTM", "GRU", "RNN")
def recurrent(node: Node) -> tuple[Value | None, ...]:
    """A network over a known number of steps."""
    native(node)
    emit, kind, hidden = node.emit, node.proto.op_type, node.attr("hidden_size")
    size = hidden or (node.shape(2) or (None, None, None))[2]
    if not size:
        raise NotLowered("the size of the state is unknown")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
        node.attr("direction", "forward")
    ]
    batch_first = bool(node.attr("layout", 0))
    src = transpose(emit, node.value(0), (1, 0, 2)) if batch_first else node.value(0)
    cell = Cell(
        GATES[kind],
        node.attr("clip"),
        bool(node.attr("input_forget", 0)),
        bool(node.attr("linear_before_reset", 0)),
    )
    layer = Layer(emit, src, size, cell, node.optional(4))
    functions, each = _activations(node, len(directions)), len(ACTIVATIONS[kind])
    outputs, states, cells = [], [], []
    for place, backwards in enumerate(directions):
        weights, recurrence = _part(node, 1, place), _part(node, 2, place)
        if weights is None or recurrence is None:
            raise NotLowered("no weights")
        direction = Direction(
            weights,
            recurrence,
            bias=_part(node, 3, place),
            peepholes=_part(node, 7, place),
            hidden=_state(node, 5, place, batch_first),
            cell=_state(node, 6, place, batch_first),
            activations=functions[place * each : (place + 1) * each],
            reverse=backwards,
        )
        found = layer.run(direction)
        outputs.append(found[0])
        states.append(reshape(emit, found[1], numbers(1, layer.batch, size)))
        if found[2] is not None:
            cells.append(reshape(emit, found[2], numbers(1, layer.batch, size)))
    whole = concat(emit, outputs, 1)
    ends = [concat(emit, one, 0) for one in (states, cells) if one]
    if batch_first:
        whole, ends = transpose(emit, whole, (2, 0, 1, 3)), [transpose(emit, one, (1, 0, 2)) for one in ends]
    return (whole, *ends)[: len(node.proto.output)]


def _part(node: Node, index: int, place: int) -> Value | None:
    """What one direction has of an input, whose first axis counts the directions."""
    found, shape = node.optional(index), None if node.optional(index) is None else node.shape(index)
    if found is None or shape is None or None in shape:
        return None
    part = slice_(node.emit, found, [place], [place + 1], [0])
    return reshape(node.emit, part, numbers(*shape[1:]))


def _state(node: Node, index: int, place: int, batch_first: bool) -> Value | None:
    """The first state of one direction."""
    if not batch_first or node.optional(index) is None:
        return _part(node, index, place)
    shape = node.shape(index)
    if shape is None or None in shape:
        raise NotLowered("unknown dims of the first state")
    part = slice_(node.emit, node.value(index), [place], [place + 1], [1])
    return reshape(node.emit, part, numbers(shape[0], shape[2]))
