"""Lowers recurrent networks that PyTorch keeps whole: layers of an LSTM, and the networks of an exported program."""

from __future__ import annotations

from ....lowering.emitter import Value
from ....lowering.movement import cast, concat, reshape, slice_, transpose
from ....lowering.recurrence import layer, ordered, whole_layer
from ....opset.dtypes import DataType
from ....opset.host.recurrence import GATES
from ..node import AtenNode, NotLowered, lowers

LSTM = 2  # the number of the kind of network


@lowers("mkldnn_rnn_layer.default")
def lstm(node: AtenNode) -> list[Value | None]:
    """One direction of an LSTM over the steps of (steps, batch, inputs), without gradients."""
    emit, src = node.emit, node.value("input")
    unusual = "bidirectional", "batch_first", "train", "batch_sizes"
    if node["mode"] != LSTM or node["num_layers"] != 1 or any(node[name] for name in unusual):
        raise NotLowered("a recurrent network other than one direction of an LSTM")
    if node.dtype("input") is not DataType.f32 or 0 in node.shape("input"):
        raise NotLowered(f"a recurrent network of {node.dtype('input')} {node.shape('input')}")
    steps, batch, _ = node.shape("input")
    units = node["hidden_size"]

    def in_order(name: str) -> Value:
        return ordered(emit, node.value(name), "lstm", units)

    weights, recurrence = (reshape(emit, in_order(name), (1, *node.shape(name))) for name in ("weight0", "weight1"))
    bias = None
    if node["has_biases"]:
        bias = concat(emit, [in_order("weight2"), in_order("weight3")], 0)
        bias = reshape(emit, bias, (1, 2 * GATES["lstm"] * units))
    hidden, cell = (reshape(emit, node.value(name), (1, batch, units)) for name in ("hx_", "cx_"))
    direction = "reverse" if node["reverse"] else "forward"
    states, *last = whole_layer(emit, "lstm", direction, src, weights, recurrence, bias, hidden, cell)
    return [reshape(emit, states, (steps, batch, units)), *last, None]


@lowers("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def network(node: AtenNode) -> list[Value]:
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
    ends_by_state: list[list[Value]] = [[] for _ in last]
    for at in range(0, node["num_layers"] * directions, directions):
        parts = [params[size * (at + place) : size * (at + place + 1)] for place in range(directions)]
        states, *ends = layer(
            emit, cell, states, parts, [slice_(emit, one, [at], [at + directions], [0]) for one in last]
        )
        for ends_of, end in zip(ends_by_state, ends, strict=True):
            ends_of.append(end)
    result = transpose(emit, states, (1, 0, 2)) if node["batch_first"] else states
    return [cast(emit, one, node.result_dtype) for one in (result, *(concat(emit, ends, 0) for ends in ends_by_state))]
