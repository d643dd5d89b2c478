"""Lowers LSTM, GRU and RNN over a known number of steps.

The inputs of all steps meet their weights in one product. Then each gate of a step is a product with the state, a sum
and an activation, which the library fuses. The usual networks take another way: :mod:`onegraph.lowering.recurrence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._util.records import record
from ..opset.shapes import known_dims
from .elementwise import add, binary, celu, clamp, filled, multiply, select, softsign, thresholded_relu, unary
from .emitter import Emitter, NotLowered, Value, dtype_of, numbers, shape_of
from .layers import matmul
from .movement import concat, reshape, slice_

MAX_STEPS = 1024
Activation = Callable[[Emitter, Value], Value]


def parts_of(emit: Emitter, value: Value, count: int, size: int) -> list[Value]:
    """Equal parts along the first axis."""
    return [slice_(emit, value, [at * size], [(at + 1) * size], [0]) for at in range(count)]


def activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    """The activation of this name; alpha and beta default to those of the name."""

    def number(given: float | None, default: float) -> float:
        return default if given is None else given

    def affine(emit: Emitter, src: Value) -> Value:
        scaled = multiply(emit, src, filled(number(alpha, 1), src))
        return add(emit, scaled, filled(number(beta, 0), src))

    def scaled_tanh(emit: Emitter, src: Value) -> Value:
        inner = unary(emit, "Tanh", multiply(emit, src, filled(number(beta, 1), src)))
        return multiply(emit, inner, filled(number(alpha, 1), src))

    found: dict[str, Activation] = {
        "affine": affine,
        "celu": lambda emit, src: celu(emit, src, number(alpha, 1)),
        "elu": lambda emit, src: unary(emit, "Elu", src, {"alpha": number(alpha, 1)}),
        "hardsigmoid": lambda emit, src: unary(
            emit, "HardSigmoid", src, {"alpha": number(alpha, 0.2), "beta": number(beta, 0.5)}
        ),
        "leakyrelu": lambda emit, src: unary(emit, "LeakyReLU", src, {"alpha": number(alpha, 0.01)}),
        "relu": lambda emit, src: unary(emit, "ReLU", src),
        "scaledtanh": scaled_tanh,
        "sigmoid": lambda emit, src: unary(emit, "Sigmoid", src),
        "softplus": lambda emit, src: unary(emit, "SoftPlus", src),
        "softsign": softsign,
        "tanh": lambda emit, src: unary(emit, "Tanh", src),
        "thresholdedrelu": lambda emit, src: thresholded_relu(emit, src, number(alpha, 1)),
    }
    if name.lower() not in found:
        raise NotLowered(f"activation {name}")
    return found[name.lower()]


@record(frozen=True)
class Direction:
    """What one direction of a network has.

    Attributes:
        recurrence: (gates * hidden, hidden).
        state_bias: (hidden), of the last gate of a GRU that multiplies before it resets; None is zeros.
        peepholes: (3 * hidden) of an LSTM.
        hidden, cell: the first state (batch, hidden); None is zeros.
        activations: functions of the gates.
        reverse: whether the last step is the first.
    """

    recurrence: Value
    state_bias: Value | None
    peepholes: Value | None
    hidden: Value | None
    cell: Value | None
    activations: Sequence[Activation]
    reverse: bool


@record(frozen=True)
class Cell:
    """The kind of a cell, and its options."""

    gates: int
    clip: float | None = None
    input_forget: bool = False
    linear_before_reset: bool = False


class Steps:
    """One direction of a network, op by op."""

    def __init__(self, emit: Emitter, steps: int, batch: int, size: int, cell: Cell, lengths: Value | None) -> None:
        if not 0 < steps <= MAX_STEPS:
            raise NotLowered(f"{steps} steps")
        self.emit, self.steps, self.batch, self.size, self.cell = emit, steps, batch, size, cell
        if isinstance(lengths, np.ndarray) and (lengths == steps).all():
            lengths = None
        self.lengths = None if lengths is None else reshape(emit, lengths, numbers(batch, 1))

    def run(self, direction: Direction, gates: Sequence[Value]) -> tuple[Value, Value, Value | None]:
        """The states of all steps (steps, 1, batch, size), the last state, and the last cell state.

        Args:
            direction: the direction.
            gates: what the inputs of all steps add to each gate (steps * batch, size).
        """
        emit, zeros = self.emit, np.zeros((self.batch, self.size), dtype_of(gates[0]).numpy)
        state = zeros if direction.hidden is None else direction.hidden
        cell: Value | None = None
        if self.cell.gates == 4:
            cell = zeros if direction.cell is None else direction.cell
        recurrent = parts_of(emit, direction.recurrence, self.cell.gates, self.size)
        outputs: list[Value] = []
        order = range(self.steps - 1, -1, -1) if direction.reverse else range(self.steps)
        step = {1: self._rnn, 3: self._gru, 4: self._lstm}[self.cell.gates]
        for place in order:
            inputs = [slice_(emit, gate, [place * self.batch], [(place + 1) * self.batch], [0]) for gate in gates]
            after, cell_after = step(direction, inputs, recurrent, state, cell)
            output = after
            if self.lengths is not None:
                lives = emit.op("Less", [np.array(place, dtype_of(self.lengths).numpy), self.lengths])
                output, after = select(emit, lives, after, zeros), select(emit, lives, after, state)
                cell_after = None if cell is None or cell_after is None else select(emit, lives, cell_after, cell)
            state, cell = after, cell_after
            outputs.append(reshape(emit, output, numbers(1, 1, self.batch, self.size)))
        if direction.reverse:
            outputs.reverse()
        return concat(emit, outputs, 0), state, cell

    def _gate(self, inputs: Value, state: Value, weights: Value, bias: Value | None = None) -> Value:
        """The sum of the projected inputs and the product of the state with the weights."""
        product = matmul(self.emit, state, weights, bias, transpose_b=True)
        return self._clipped(add(self.emit, product, inputs))

    def _clipped(self, src: Value) -> Value:
        if self.cell.clip is None:
            return src
        return clamp(self.emit, src, filled(-self.cell.clip, src), filled(self.cell.clip, src))

    def _rnn(
        self, direction: Direction, inputs: list[Value], weights: list[Value], state: Value, cell: Value | None
    ) -> tuple[Value, Value | None]:
        return direction.activations[0](self.emit, self._gate(inputs[0], state, weights[0])), None

    def _gru(
        self, direction: Direction, inputs: list[Value], weights: list[Value], state: Value, cell: Value | None
    ) -> tuple[Value, Value | None]:
        emit, (outer, inner) = self.emit, direction.activations[:2]
        update = outer(emit, self._gate(inputs[0], state, weights[0]))
        reset = outer(emit, self._gate(inputs[1], state, weights[1]))
        if self.cell.linear_before_reset:
            product = matmul(emit, state, weights[2], direction.state_bias, transpose_b=True)
            fresh = self._clipped(add(emit, multiply(emit, product, reset), inputs[2]))
        else:
            fresh = self._gate(inputs[2], multiply(emit, reset, state), weights[2])
        fresh = inner(emit, fresh)
        # (1 - update) * fresh + update * state
        kept = multiply(emit, binary(emit, "Subtract", state, fresh), update)
        return add(emit, kept, fresh), None

    def _lstm(
        self, direction: Direction, inputs: list[Value], weights: list[Value], state: Value, cell: Value | None
    ) -> tuple[Value, Value | None]:
        emit, (outer, inner, last) = self.emit, direction.activations[:3]
        assert cell is not None
        peeps: list[Value | None] = [None, None, None]
        if direction.peepholes is not None:
            peeps = [*parts_of(emit, direction.peepholes, 3, self.size)]

        def gate(place: int, seen: Value, peep: Value | None) -> Value:
            total = add(emit, matmul(emit, state, weights[place], transpose_b=True), inputs[place])
            if peep is not None:
                total = add(emit, total, multiply(emit, seen, peep))
            return self._clipped(total)

        entry = outer(emit, gate(0, cell, peeps[0]))
        fresh = inner(emit, gate(3, cell, None))
        if self.cell.input_forget:
            forget = binary(emit, "Subtract", filled(1, entry), entry)
        else:
            forget = outer(emit, gate(2, cell, peeps[2]))
        after = add(emit, multiply(emit, entry, fresh), multiply(emit, forget, cell))
        output = outer(emit, gate(1, after, peeps[1]))
        return multiply(emit, last(emit, after), output), after


def projected(emit: Emitter, src: Value, weights: Value, bias: Value | None) -> Value:
    """The products of src (steps, batch, inputs) with (outputs, inputs), plus the bias: (steps * batch, outputs)."""
    steps, batch, inputs = known_dims(shape_of(src))
    rows = reshape(emit, src, numbers(steps * batch, inputs))
    return matmul(emit, rows, weights, bias, transpose_b=True)
