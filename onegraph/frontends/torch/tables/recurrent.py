"""Lowers the layers of recurrent networks that PyTorch does not take apart."""

from __future__ import annotations

from ....lowering.emitter import Value, numbers
from ....lowering.movement import concat, reshape
from ....lowering.recurrent import parts_of, whole_layer
from ....opset.dtypes import DataType
from ....opset.host.recurrence import GATES
from ..node import Node, NotLowered, lowers

LSTM = 2  # the number of the kind of network
ORDER = 0, 3, 1, 2  # of the gates of PyTorch, which are in, forget, cell, out


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
        parts = parts_of(emit, node.value(name), GATES["lstm"], units)
        return concat(emit, [parts[place] for place in ORDER], 0)

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
