"""Lowers recurrent networks that PyTorch keeps whole: layers of an LSTM, and the networks of an exported program."""

from __future__ import annotations

from collections.abc import Sequence

from ....lowering.emitter import Emitter, Value, numbers, shape_of
from ....lowering.movement import cast, concat, reshape, slice_, transpose
from ....lowering.recurrent import parts_of, whole_layer
from ....opset.dtypes import DataType
from ....opset.host.recurrence import GATES
from ....opset.shapes import known_dims
from ..node import Node, NotLowered, lowers

LSTM = 2  # the number of the kind of network
# Places in PyTorch of the gates of a Recurrence: PyTorch has in, forget, cell, out; reset, update, new.
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def _ordered(emit: Emitter, value: Value, cell: str, units: int) -> Value:
    """Weights or biases of PyTorch with the gates of a Recurrence."""
    if cell not in ORDERS:
        return value
    parts = parts_of(emit, value, GATES[cell], units)
    return concat(emit, [parts[place] for place in ORDERS[cell]], 0)


@lowers("mkldnn_rnn_layer.default")
def lstm(node: Node) -> list[Value | None]:
    """One direction of an LSTM over the steps of (steps, batch, inputs), without gradients."""
    emit, src = node.emit, node.value("input")
    unusual = "bidirectional", "batch_first", "train", "batch_sizes"
    if node["mode"] != LSTM or node["num_layers"] != 1 or any(node[name] for name in unusual):
        raise NotLowered("a recurrent network other than one direction of an LSTM")
    if node.dtype("input") is not DataType.f32 or 0 in node.shape("input"):
        raise NotLowered(f"a recurrent network of {node.dtype('input')} {node.shape('input')}")
    steps, batch, _ = node.shape("input")
    units = node["hidden_size"]

    def ordered(name: str) -> Value:
        return _ordered(emit, node.value(name), "lstm", units)

    weights, recurrence = (
        reshape(emit, ordered(name), numbers(1, *node.shape(name))) for name in ("weight0", "weight1")
    )
    bias = None
    if node["has_biases"]:
        bias = concat(emit, [ordered("weight2"), ordered("weight3")], 0)
        bias = reshape(emit, bias, numbers(1, 2 * GATES["lstm"] * units))
    hidden, cell = (reshape(emit, node.value(name), numbers(1, batch, units)) for name in ("hx_", "cx_"))
    direction = "reverse" if node["reverse"] else "forward"
    states, *last = whole_layer(emit, "lstm", direction, src, weights, recurrence, bias, hidden, cell)
    return [reshape(emit, states, numbers(steps, batch, units)), *last, None]


@lowers("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def network(node: Node) -> list[Value]:
    """All layers of a network in one or both directions: the states of all steps, and the last ones of each layer."""
    emit, cell = node.emit, node.name.split(".")[1].removeprefix("rnn_")
    if node["train"] and node["dropout"] and node["num_layers"] > 1:
        raise NotLowered("a dropout between the layers")
    if 0 in node.shape("input"):
        raise NotLowered(f"a recurrent network of {node.shape('input')}")
    directions = 2 if node["bidirectional"] else 1
    firsts = node["hx"] if cell == "lstm" else [node["hx"]]
    first, *last = [cast(emit, one, DataType.f32) for one in (node.value("input"), *firsts)]
    states = transpose(emit, first, (1, 0, 2)) if node["batch_first"] else first
    params = [cast(emit, one, DataType.f32) for one in node["params"]]
    size = len(params) // (node["num_layers"] * directions)
    if size != (4 if node["has_biases"] else 2):
        raise NotLowered("a recurrent network with projections")
    found: list[list[Value]] = [[] for _ in last]
    for layer in range(0, node["num_layers"] * directions, directions):
        parts = [params[size * (layer + place) : size * (layer + place + 1)] for place in range(directions)]
        states, *ends = _layer(
            emit, cell, states, parts, [slice_(emit, one, [layer], [layer + directions], [0]) for one in last]
        )
        for ends_of, end in zip(found, ends, strict=True):
            ends_of.append(end)
    result = transpose(emit, states, (1, 0, 2)) if node["batch_first"] else states
    return [cast(emit, one, node.result_dtype) for one in (result, *(concat(emit, ends, 0) for ends in found))]


def _layer(
    emit: Emitter, cell: str, src: Value, parts: Sequence[Sequence[Value]], firsts: Sequence[Value]
) -> list[Value]:
    """One layer: the states (steps, batch, directions * units), and the last ones (directions, batch, units).

    Args:
        emit: adds the ops.
        cell: the attribute of Recurrence.
        src: (steps, batch, inputs).
        parts: the weights, the recurrence and both biases, if there are any, of each direction.
        firsts: the first states (directions, batch, units).
    """
    steps, batch, _ = known_dims(shape_of(src))
    units = known_dims(shape_of(parts[0][1]))[1]

    def of_all(*places: int) -> Value:
        ordered = [concat(emit, [_ordered(emit, part[place], cell, units) for place in places], 0) for part in parts]
        return concat(emit, [reshape(emit, one, numbers(1, *known_dims(shape_of(one)))) for one in ordered], 0)

    bias = of_all(2, 3) if len(parts[0]) > 2 else None
    direction = "bidirectional" if len(parts) > 1 else "forward"
    hidden, *cells = firsts
    found, *lasts = whole_layer(
        emit, cell, direction, src, of_all(0), of_all(1), bias, hidden, cells[0] if cells else None
    )
    if len(parts) > 1:
        found = transpose(emit, found, (0, 2, 1, 3))
    return [reshape(emit, found, numbers(steps, batch, len(parts) * units)), *lasts]
