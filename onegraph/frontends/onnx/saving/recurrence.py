"""Writes a layer of a recurrent network as the standard node behind a product with ones and zeros.

The standard nodes multiply their input by weights, which a Recurrence has already done.
"""

from __future__ import annotations

import numpy as np

from ....opset.host.recurrence import ACTIVATIONS, GATES, LANES, activations_of, is_usual
from ....opset.schema import Call
from .body import NodeValue
from .nodes import Attr
from .table import composes, known_dims_of

# The names of activations as ONNX spells them.
NAMES = {
    name.lower(): name
    for name in (
        *("Sigmoid", "Tanh", "Relu", "Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh"),
        *("Softplus", "Softsign", "ThresholdedRelu"),
    )
}
NODES = {"lstm": "LSTM", "gru": "GRU", "reset_gru": "GRU", "tanh": "RNN", "relu": "RNN"}


def _activations(call: Call) -> dict[str, Attr]:
    """The activations, and the numbers of those that take any, in turn."""
    functions = activations_of(call)
    attrs: dict[str, Attr] = {"activations": [NAMES[one.name] for one in functions]}
    for place, key in enumerate(("alpha", "beta")):
        numbers = [float(one[1 + place]) for one in functions if len(ACTIVATIONS[one.name]) > place]
        attrs |= {f"activation_{key}": numbers} if numbers else {}
    return attrs


@composes("host Recurrence")
def recurrence(
    call: Call,
    inputs: NodeValue,
    weights: NodeValue,
    hidden: NodeValue | None = None,
    cell: NodeValue | None = None,
    lengths: NodeValue | None = None,
) -> tuple[NodeValue, ...]:
    steps, batch, directions, gates, units = known_dims_of(call, call.shape("inputs"), "inputs")
    kind, width = call.string("cell"), gates * units
    body, blocks, dtype = inputs.body, -(-units // LANES), inputs.dtype
    has_peepholes = call.flag("peepholes")
    whole = weights.transpose((0, 3, 1, 4, 2)).reshape(directions, gates, blocks * LANES, units + 1 + has_peepholes)
    factors, of_state, *peepholes = (
        whole.op("Slice", *(body.numbers(*pair) for pair in ((0, first), (units, last), (2, 3))))
        for first, last in ((0, units), (units, units + 1), (units + 1, units + 2))[: 2 + has_peepholes]
    )
    ones = np.eye(directions * width, dtype=dtype.numpy).reshape(directions, width, directions * width)
    zeros = body.constant(np.zeros((directions, width), dtype.numpy))
    ports: list[NodeValue | None] = [
        inputs.reshape(steps, batch, directions * width),
        body.constant(ones),
        factors.reshape(directions, width, units),
        body.node("Concat", [zeros, of_state.reshape(directions, width)], axis=1),
        lengths,
        hidden,
        cell if kind == "lstm" else None,
    ]
    if peepholes:
        columns = peepholes[0].reshape(directions, width)
        ports.append(columns.op("Slice", body.numbers(0), body.numbers(3 * units), body.numbers(1)))
    attrs: dict[str, Attr] = {"hidden_size": units, "direction": call.string("direction")}
    if kind == "gru":
        attrs["linear_before_reset"] = 1
    if call.attr("clip"):
        attrs["clip"] = call.attr("clip")
    if call.flag("input_forget"):
        attrs["input_forget"] = 1
    if gates == GATES["relu"] or not is_usual(call):
        attrs |= _activations(call)
    return body.nodes_results(NODES[kind], ports, [dtype] * (3 if kind == "lstm" else 2), **attrs)
