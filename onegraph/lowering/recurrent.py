"""Lowers LSTM, GRU and RNN over a known number of steps: matrix products and elementwise ops.

The inputs of all steps meet their weights in one product for each gate. In a step, each gate is a product with the
state, a sum and an activation, which the library fuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._util.records import record
from .elementwise import add, binary, celu, clamp, filled, multiply, select, softsign, thresholded_relu, unary
from .emitter import Emitter, NotLowered, Value, dtype_of, numbers, shape_of
from .layers import matmul
from .movement import concat, reshape, slice_

MAX_STEPS = 1024
Activation = Callable[[Emitter, Value], Value]


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
        weights, recurrence: (gates * hidden, inputs) and (gates * hidden, hidden).
        bias: (2 * gates * hidden), for the inputs and for the state; None is zeros.
        peepholes: (3 * hidden) of an LSTM.
        hidden, cell: the first state (batch, hidden); None is zeros.
        activations: functions of the gates.
        reverse: whether the last step is the first.
    """

    weights: Value
    recurrence: Value
    bias: Value | None
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


class Layer:
    """One direction over all steps of src (steps, batch, inputs)."""

    def __init__(self, emit: Emitter, src: Value, size: int, cell: Cell, lengths: Value | None) -> None:
        shape = shape_of(src)
        if shape is None or len(shape) != 3 or None in shape:
            raise NotLowered("unknown steps, batch or inputs")
        self.emit, self.src, self.size, self.cell = emit, src, size, cell
        self.steps, self.batch, self.inputs = (dim or 0 for dim in shape)
        if not 0 < self.steps <= MAX_STEPS:
            raise NotLowered(f"{self.steps} steps")
        if isinstance(lengths, np.ndarray) and (lengths == self.steps).all():
            lengths = None
        self.lengths = None if lengths is None else reshape(emit, lengths, numbers(self.batch, 1))

    def run(self, direction: Direction) -> tuple[Value, Value, Value | None]:
        """The states of all steps (steps, 1, batch, size), the last state, and the last cell state."""
        emit, zeros = self.emit, np.zeros((self.batch, self.size), dtype_of(self.src).numpy)
        state = zeros if direction.hidden is None else direction.hidden
        cell: Value | None = None
        if self.cell.gates == 4:
            cell = zeros if direction.cell is None else direction.cell
        gates = self._projected(direction)
        recurrent = self._parts(direction.recurrence, self.cell.gates)
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

    def _parts(self, value: Value, count: int) -> list[Value]:
        """Equal parts along the first axis."""
        size = self.size
        return [slice_(self.emit, value, [at * size], [(at + 1) * size], [0]) for at in range(count)]

    def _projected(self, direction: Direction) -> list[Value]:
        """For each gate the product of the inputs of all steps with its weights, plus the bias."""
        emit, count = self.emit, self.cell.gates
        rows = reshape(emit, self.src, numbers(self.steps * self.batch, self.inputs))
        biases: list[Value | None] = [None] * count
        if direction.bias is not None:
            of_input, of_state = self._biases(direction)
            biases = [
                one if self.cell.linear_before_reset and place == 2 else add(emit, one, other)
                for place, (one, other) in enumerate(zip(of_input, of_state, strict=True))
            ]
        parts = self._parts(direction.weights, count)
        return [matmul(emit, rows, part, bias, transpose_b=True) for part, bias in zip(parts, biases, strict=True)]

    def _biases(self, direction: Direction) -> tuple[list[Value], list[Value]]:
        count = self.cell.gates
        assert direction.bias is not None
        parts = self._parts(direction.bias, 2 * count)
        return parts[:count], parts[count:]

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
            bias = None if direction.bias is None else self._biases(direction)[1][2]
            product = matmul(emit, state, weights[2], bias, transpose_b=True)
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
            peeps = [*self._parts(direction.peepholes, 3)]

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
