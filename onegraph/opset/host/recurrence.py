"""Defines a layer of a recurrent network over all steps, which the specification lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..._util.counted import counted
from ..schema import Call, RuleFinding
from ..shapes import compatible, show
from ..signature import NON_NEGATIVE, Attribute, Shape, rows
from ..traits import Trait
from .types import host

LANES = 16  # units of a block of weights
GATES = {"lstm": 4, "gru": 3, "reset_gru": 3, "tanh": 1, "relu": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
# The activations of one direction: of gates, of the new state, and of the cell state of an LSTM.
USUAL = {
    "lstm": ("sigmoid", "tanh", "tanh"),
    "gru": ("sigmoid", "tanh"),
    "reset_gru": ("sigmoid", "tanh"),
    "tanh": ("tanh",),
    "relu": ("relu",),
}
# Activations, with the default of alpha, and that of beta, if they have such a number in ONNX.
ACTIVATIONS: dict[str, tuple[float, ...]] = {
    "sigmoid": (),
    "tanh": (),
    "relu": (),
    "affine": (1, 0),
    "elu": (1,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "scaledtanh": (1, 1),
    "softplus": (),
    "softsign": (),
    "thresholdedrelu": (1,),
}


class Activation(NamedTuple):
    """A function of ``ACTIVATIONS`` with its numbers."""

    name: str
    alpha: float
    beta: float


def activations_of(call: Call) -> tuple[Activation, ...]:
    """The activations of each direction in turn."""
    words = call.string("activations").split()
    names = words or USUAL[call.string("cell")] * DIRECTIONS[call.string("direction")]
    defaults = [(*ACTIVATIONS[name], 0, 0) for name in names]
    alphas, betas = (call.f32s(key) or [row[place] for row in defaults] for place, key in enumerate(("alpha", "beta")))
    return tuple([Activation(*row) for row in zip(names, alphas, betas, strict=True)])


def is_usual(call: Call) -> bool:
    """Whether the cell has the activations of its name, and none of the options."""
    has_options = call.f32("clip") or call.flag("input_forget") or call.flag("peepholes")
    usual = USUAL[call.string("cell")] * DIRECTIONS[call.string("direction")]
    return not has_options and tuple([activation.name for activation in activations_of(call)]) == usual


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


def operands_fit(call: Call) -> Iterable[RuleFinding]:
    """The operands are those of the cell and the direction, and of equal sizes."""
    cell, direction = call.string("cell"), call.string("direction")
    inputs, wanted = call.shape("inputs"), (None, None, DIRECTIONS[direction], GATES[cell], None)
    if not compatible(inputs, wanted):
        expected = f"(steps, batch, {wanted[2]}, {wanted[3]}, units) for {cell}, {direction}"
        yield RuleFinding("inputs", f"shape {show(inputs)}", expected)
        return
    _, batch, directions, gates, units = _sizes(call)
    state = directions, batch, units
    rows = None if units is None else units + 1 + call.flag("peepholes")
    operands: dict[str, Shape] = {
        "weights": (directions, blocks_of(units), rows, gates, LANES),
        "hidden": state,
        "cell": state,
        "lengths": (batch,),
    }
    for port, shape in operands.items():
        if not compatible(call.shape(port), shape):
            yield RuleFinding(port, f"shape {show(call.shape(port))}", f"shape {show(shape)}")


def has_cell(call: Call) -> Iterable[RuleFinding]:
    """Only an LSTM has a cell state. In front of lengths the port holds a place for other cells, which ignore it."""
    if call.string("cell") == "lstm":
        return
    if call.input("cell") is not None and call.input("lengths") is None:
        yield RuleFinding("cell", "a cell state", "it only if the attribute cell is lstm, or before lengths")
    elif (call.n_outputs or 0) > 2:
        yield RuleFinding("last_cell", "the output last_cell", "it only if the attribute cell is lstm")


def options_fit(call: Call) -> Iterable[RuleFinding]:
    """Each activation is known and has its numbers, and only an LSTM has peepholes and a forget gate."""
    words, count = call.string("activations").split(), DIRECTIONS[call.string("direction")]
    wanted = len(USUAL[call.string("cell")]) * count
    if words and (len(words) != wanted or not ACTIVATIONS.keys() >= {*words}):
        yield RuleFinding(
            "activations", repr(" ".join(words)), f"{wanted} of {', '.join(ACTIVATIONS)}, separated by spaces"
        )
    for name in ("alpha", "beta"):
        values = call.f32s(name)
        if len(values) not in (0, wanted):
            yield RuleFinding(
                name, counted(len(values), "number"), f"one for each of {counted(wanted, 'activation')}, or none"
            )
    for name in ("input_forget", "peepholes"):
        if call.flag(name) and call.string("cell") != "lstm":
            yield RuleFinding(name, "true", "it only if the attribute cell is lstm")


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
        "are 0, and the last states are those where it ends. Cells other than lstm ignore a cell state before lengths. "
        "With peepholes, the weights have one more row, by which i and f add the cell state before the step, and o the "
        "one behind it.",
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
            Attribute(
                "clip",
                "f32",
                "Limits what enters an activation to -clip to clip; 0 is no limit.",
                default=0.0,
                range=NON_NEGATIVE,
            ),
            Attribute("input_forget", "bool", "Whether the gate f of an LSTM is 1 - i.", default=False),
            Attribute("peepholes", "bool", "Whether the gates of an LSTM see its cell state.", default=False),
            Attribute(
                "activations",
                "str",
                "The activations of each direction in turn, separated by spaces, in the place of those of the cell: of "
                "the gates, of the new state, and of the cell state of an LSTM.",
                default="",
            ),
            Attribute("alpha", "f32[]", "The first number of each activation; those of ONNX if not given.", default=()),
            Attribute("beta", "f32[]", "The second number of each activation; those of ONNX if not given.", default=()),
        ),
        rules=(has_cell, options_fit),
        shape_rules=(operands_fit,),
        implied_outputs=lambda call: 3 if call.string("cell") == "lstm" else 2,
        traits=Trait.NONE,
    ),
)
