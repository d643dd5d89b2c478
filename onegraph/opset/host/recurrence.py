"""Defines a layer of a recurrent network over all steps, which the specification lacks."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, Finding
from ..shapes import compatible, show
from ..signature import Attribute, Shape, rows
from ..traits import Trait
from .types import host

LANES = 16  # units of a block of weights
GATES = {"lstm": 4, "gru": 3, "reset_gru": 3, "tanh": 1, "relu": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def blocks_of(units: int | None) -> int | None:
    """The number of blocks of units; the last one may have fewer than ``LANES``."""
    return None if units is None else -(-units // LANES)


def _sizes(call: Call) -> tuple[int | None, ...]:
    """The numbers of steps, sequences, directions, gates and units."""
    shape = call.shape("inputs")
    return (None,) * 5 if shape is None or len(shape) != 5 else shape


def recurrence_shape(call: Call) -> tuple[Shape, ...]:
    """The states are (steps, directions, batch, units), and the last ones lack the first axis."""
    steps, batch, directions, _, units = _sizes(call)
    last = directions, batch, units
    return (steps, *last), last, last


def operands_fit(call: Call) -> Iterable[Finding]:
    """The operands are those of the cell and the direction, and of equal sizes."""
    cell, direction = call.string("cell"), call.string("direction")
    inputs, wanted = call.shape("inputs"), (None, None, DIRECTIONS[direction], GATES[cell], None)
    if not compatible(inputs, wanted):
        expected = f"(steps, batch, {wanted[2]}, {wanted[3]}, units) for {cell}, {direction}"
        yield Finding("inputs", f"shape {show(inputs)}", expected)
        return
    _, batch, directions, gates, units = _sizes(call)
    state = directions, batch, units
    rows = None if units is None else units + 1
    operands: dict[str, Shape] = {
        "weights": (directions, blocks_of(units), rows, gates, LANES),
        "hidden": state,
        "cell": state,
        "lengths": (batch,),
    }
    for port, shape in operands.items():
        if not compatible(call.shape(port), shape):
            yield Finding(port, f"shape {show(call.shape(port))}", f"shape {show(shape)}")


def has_cell(call: Call) -> Iterable[Finding]:
    """Only an LSTM has a cell state. In front of lengths the port holds a place for other cells, which ignore it."""
    if call.string("cell") == "lstm":
        return
    if call.input("cell") is not None and call.input("lengths") is None:
        yield Finding("cell", "a cell state", "it only if the attribute cell is lstm, or before lengths")
    elif (call.n_outputs or 0) > 2:
        yield Finding("last_cell", "the output last_cell", "it only if the attribute cell is lstm")


OPS = (
    host(
        "Recurrence",
        "A layer of a recurrent network over all steps. A step adds its inputs to seen = hidden @ weights + bias for "
        "each gate. lstm has the gates i, o, f, c: cell = sigmoid(f) * cell + sigmoid(i) * tanh(c), "
        "hidden = sigmoid(o) * tanh(cell). gru has z, r, n, where n = tanh(inputs + sigmoid(r) * seen): "
        "hidden = (1 - sigmoid(z)) * n + sigmoid(z) * hidden. reset_gru multiplies sigmoid(r) * hidden by the weights "
        "of n instead, and n = tanh(inputs + seen). tanh and relu have one gate. Weights lie in blocks of "
        f"{LANES} units: (directions, blocks, units of the state + 1, gates, {LANES}), with the bias behind the last "
        "unit of the state, and with zeros behind the last unit of the last block. The first states default to 0. "
        "A sequence ends after its number of steps in lengths, from 0 to all, in each direction: the states behind "
        "are 0, and the last states are those where it ends. Cells other than lstm ignore a cell state before lengths.",
        "inputs:T weights:T hidden:T? cell:T? lengths:s32?",
        "states:T last_hidden:T last_cell:T?",
        rows("T", "f32", "float64"),
        recurrence_shape,
        (
            Attribute("cell", "str", "The kind of the network.", required=True, values=tuple(GATES)),
            Attribute(
                "direction",
                "str",
                "Whether the first step is the first one, the last one, or one for each direction.",
                default="forward",
                values=tuple(DIRECTIONS),
            ),
        ),
        rules=(has_cell,),
        shape_rules=(operands_fit,),
        implied_outputs=lambda call: 3 if call.string("cell") == "lstm" else 2,
        traits=Trait.NONE,
    ),
)
