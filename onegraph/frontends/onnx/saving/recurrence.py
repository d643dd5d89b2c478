"""Writes a layer of a recurrent network as the standard node behind a product with ones and zeros.

The standard nodes multiply their input by weights, which a Recurrence has already done.
"""

from __future__ import annotations

import numpy as np

from ....opset.host.recurrence import GATES, LANES
from ....opset.schema import Call
from .body import Value
from .nodes import Attr
from .table import composes, known_dims_of

NODES = {"lstm": "LSTM", "gru": "GRU", "reset_gru": "GRU", "tanh": "RNN", "relu": "RNN"}


@composes("host Recurrence")
def recurrence(
    call: Call,
    inputs: Value,
    weights: Value,
    hidden: Value | None = None,
    cell: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    steps, batch, directions, gates, units = known_dims_of(call, call.shape("inputs"), "inputs")
    kind, each = call.string("cell"), gates * units
    body, blocks, dtype = inputs.body, -(-units // LANES), inputs.dtype
    whole = weights.transpose((0, 3, 1, 4, 2)).reshape(directions, gates, blocks * LANES, units + 1)
    factors, of_state = (
        whole.op("Slice", *(body.numbers(*pair) for pair in ((0, first), (units, last), (2, 3))))
        for first, last in ((0, units), (units, units + 1))
    )
    ones = np.eye(directions * each, dtype=dtype.numpy).reshape(directions, each, directions * each)
    zeros = body.constant(np.zeros((directions, each), dtype.numpy))
    given: list[Value | None] = [
        inputs.reshape(steps, batch, directions * each),
        body.constant(ones),
        factors.reshape(directions, each, units),
        body.node("Concat", [zeros, of_state.reshape(directions, each)], axis=1),
        lengths,
        hidden,
        cell if kind == "lstm" else None,
    ]
    attrs: dict[str, Attr] = {"hidden_size": units, "direction": call.string("direction")}
    if kind == "gru":
        attrs["linear_before_reset"] = 1
    if gates == GATES["relu"]:
        attrs["activations"] = [kind.capitalize()] * directions
    return body.nodes_results(NODES[kind], given, [dtype] * (3 if kind == "lstm" else 2), **attrs)
