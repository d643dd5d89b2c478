"""Composes a layer of a recurrent network of simpler ops: each step is a few products, sums and activations.

Gradients of unusual cells are those of these ops. :mod:`onegraph.lowering.recurrence` adds one op for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from .._util.records import record
from ..opset.host.recurrence import Activation, activations_of
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .elementwise import add, binary, clamp, filled, multiply, select, softsign, thresholded_relu, unary
from .emitter import Emitter, Value, dtype_of, numbers, shape_of
from .layers import matmul
from .movement import concat, reshape, slice_
from .recurrence import from_blocks


def activated(emit: Emitter, function: Activation, src: Value, clip: float = 0) -> Value:
    """The activation of numbers, which are first limited to -clip to clip; 0 is no limit."""
    if clip:
        src = clamp(emit, src, filled(-clip, src), filled(clip, src))
    alpha, beta = function.alpha, function.beta

    def affine() -> Value:
        return add(emit, multiply(emit, src, filled(alpha, src)), filled(beta, src))

    def scaled_tanh() -> Value:
        inner = unary(emit, "Tanh", multiply(emit, src, filled(beta, src)))
        return multiply(emit, inner, filled(alpha, src))

    functions: dict[str, Callable[[], Value]] = {
        "affine": affine,
        "elu": lambda: unary(emit, "Elu", src, {"alpha": alpha}),
        "hardsigmoid": lambda: unary(emit, "HardSigmoid", src, {"alpha": alpha, "beta": beta}),
        "leakyrelu": lambda: unary(emit, "LeakyReLU", src, {"alpha": alpha}),
        "relu": lambda: unary(emit, "ReLU", src),
        "scaledtanh": scaled_tanh,
        "sigmoid": lambda: unary(emit, "Sigmoid", src),
        "softplus": lambda: unary(emit, "SoftPlus", src),
        "softsign": lambda: softsign(emit, src),
        "tanh": lambda: unary(emit, "Tanh", src),
        "thresholdedrelu": lambda: thresholded_relu(emit, src, alpha),
    }
    return functions[function.name]()


@record(frozen=True)
class Direction:
    """One direction of a network.

    Attributes:
        emit: adds the ops.
        call: the Recurrence.
        factors, biases: of each gate (units, units of the state) and (units).
        peepholes: of each gate (units); None has none.
        activations: of the gates, of the new state, and of the cell state of an LSTM.
    """

    emit: Emitter
    call: Call
    factors: Sequence[Value]
    biases: Sequence[Value]
    peepholes: Sequence[Value] | None
    activations: Sequence[Activation]

    def step(self, inputs: Sequence[Value], state: Value, memory: Value) -> tuple[Value, Value]:
        """The state and the cell state behind a step."""
        if self.call.string("cell") == "lstm":
            return self._lstm(inputs, state, memory)
        return self._gru(inputs, state) if len(inputs) > 1 else self._limited(0, self._seen(0, inputs, state)), memory

    def _limited(self, function: int, src: Value) -> Value:
        return activated(self.emit, self.activations[function], src, self.call.f32("clip"))

    def _seen(self, place: int, inputs: Sequence[Value], state: Value) -> Value:
        """What enters a gate: its inputs, and the product with the state."""
        product = matmul(self.emit, state, self.factors[place], self.biases[place], transpose_b=True)
        return add(self.emit, product, inputs[place])

    def _gru(self, inputs: Sequence[Value], state: Value) -> Value:
        emit = self.emit
        update, reset = (self._limited(0, self._seen(place, inputs, state)) for place in (0, 1))
        if self.call.string("cell") == "gru":
            product = matmul(emit, state, self.factors[2], self.biases[2], transpose_b=True)
            total = add(emit, multiply(emit, product, reset), inputs[2])
        else:
            total = self._seen(2, inputs, multiply(emit, reset, state))
        fresh = self._limited(1, total)
        # (1 - update) * fresh + update * state
        return add(emit, multiply(emit, binary(emit, "Subtract", state, fresh), update), fresh)

    def _lstm(self, inputs: Sequence[Value], state: Value, memory: Value) -> tuple[Value, Value]:
        emit = self.emit

        def gate(place: int, memory: Value) -> Value:
            total = self._seen(place, inputs, state)
            if self.peepholes is not None:
                total = add(emit, total, multiply(emit, memory, self.peepholes[place]))
            return self._limited(0, total)

        entry, fresh = gate(0, memory), self._limited(1, self._seen(3, inputs, state))
        is_rest = self.call.flag("input_forget")
        forget = binary(emit, "Subtract", filled(1, entry), entry) if is_rest else gate(2, memory)
        after = add(emit, multiply(emit, entry, fresh), multiply(emit, forget, memory))
        return multiply(emit, activated(emit, self.activations[2], after), gate(1, after)), after


def _directions(emit: Emitter, call: Call, weights: Value, sizes: Sequence[int]) -> list[Direction]:
    directions, gates, units = sizes
    functions = activations_of(call)
    per_direction = len(functions) // directions
    ends = [0, units, units + 1, *([units + 2] if call.flag("peepholes") else [])]
    rows = [from_blocks(emit, weights, units, *pair) for pair in pairwise(ends)]

    def part(value: Value, *place: int) -> Value:
        cut = slice_(emit, value, [*place], [at + 1 for at in place], [0, 1])
        return reshape(emit, cut, numbers(units, -1) if value is rows[0] else numbers(units))

    result = []
    for at in range(directions):
        factors, biases, *peepholes = ([part(row, at, gate) for gate in range(gates)] for row in rows)
        activations = functions[at * per_direction : (at + 1) * per_direction]
        result.append(Direction(emit, call, factors, biases, peepholes[0] if peepholes else None, activations))
    return result


def composed_recurrence(
    emit: Emitter,
    call: Call,
    inputs: Value,
    weights: Value,
    hidden: Value | None = None,
    cell: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """The results of a Recurrence of known dims, op by op."""
    steps, batch, *sizes = known_dims(shape_of(inputs))
    units = sizes[-1]
    zeros = np.zeros((batch, units), dtype_of(inputs).numpy)
    ends = None if lengths is None else reshape(emit, lengths, numbers(batch, 1))

    def cut(value: Value, dims: Sequence[int], **places: int) -> Value:
        axes = [*places.values()]
        return reshape(
            emit, slice_(emit, value, axes, [at + 1 for at in axes], [int(axis[1:]) for axis in places]), numbers(*dims)
        )

    columns, lasts = [], []
    for at, direction in enumerate(_directions(emit, call, weights, sizes)):
        state, memory = (zeros if value is None else cut(value, (batch, units), _0=at) for value in (hidden, cell))
        states: dict[int, Value] = {}
        is_reversed = call.string("direction") == "reverse" or at == 1
        for time in range(steps)[::-1] if is_reversed else range(steps):
            gates_in = [cut(inputs, (batch, units), _0=time, _2=at, _3=gate) for gate in range(sizes[1])]
            after, memory_after = direction.step(gates_in, state, memory)
            states[time] = after
            if ends is not None:
                lives = emit.op("Less", [np.array(time, dtype_of(ends).numpy), ends])
                states[time] = select(emit, lives, after, zeros)
                after = select(emit, lives, after, state)
                memory_after = memory_after if memory_after is memory else select(emit, lives, memory_after, memory)
            state, memory = after, memory_after
        rows = [reshape(emit, states[time], numbers(1, 1, batch, units)) for time in range(steps)]
        columns.append(concat(emit, rows, 0))
        lasts.append([reshape(emit, value, numbers(1, batch, units)) for value in (state, memory)])
    return concat(emit, columns, 1), *[concat(emit, [*values], 0) for values in zip(*lasts, strict=True)]
