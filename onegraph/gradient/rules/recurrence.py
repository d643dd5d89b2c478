"""Gradients of recurrent networks: the gates of all steps at once, then one product for each step, from the last one.

A gate's gradient is a factor times the gradient of the state, plus another one times that of the cell state of an LSTM.
The last gate of a GRU that resets the state first has a product of its own, as its input is another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._util.records import record
from ...errors import UnsupportedError
from ...lowering.elementwise import add, binary, filled, multiply, select, unary
from ...lowering.emitter import Emitter, Value, dtype_of, numbers
from ...lowering.layers import matmul
from ...lowering.movement import concat, reshape, slice_
from ...lowering.recurrence import from_blocks, in_blocks
from ...lowering.reduction import reduce
from ...opset.shapes import known_dims
from ..use import GradientUse
from .table import gradient_of

MAX_STEPS = 1024


def refuse_many_steps(use: GradientUse, steps: int) -> None:
    """Raise UnsupportedError for more steps than a graph of all of them should have."""
    if not 0 < steps <= MAX_STEPS:
        text = f"{steps} steps; expected at most {MAX_STEPS}"
        raise UnsupportedError(f"gradient: {use.op.kind} {use.op.name!r}: {text}")


@gradient_of("host Recurrence", "inputs weights hidden cell")
def recurrence(
    emit: Emitter, use: GradientUse, diff: Value | None, diff_last: Value | None = None, diff_cell: Value | None = None
) -> tuple[Value | None, ...]:
    steps, batch, directions, gates, units = use.dims("inputs")
    use.dims("weights")
    refuse_many_steps(use, steps)
    direction = use.call.string("direction")
    factors, bias = (from_blocks(emit, use["weights"], units, *part) for part in ((0, units), (units, units + 1)))

    def of(value: Value | None, place: int, axis: int, *dims: int) -> Value | None:
        """The part of a direction."""
        return (
            None if value is None else reshape(emit, slice_(emit, value, [place], [place + 1], [axis]), numbers(*dims))
        )

    gradients_by_direction: list[tuple[Value, ...]] = []
    for place in range(directions):
        operands: list[Value | None] = [
            use["lengths"] if use.has("lengths") else None,
            of(use["inputs"], place, 2, steps, batch, gates, units),
            of(factors, place, 0, gates * units, units),
            of(bias, place, 0, gates * units),
            of(use.result("states"), place, 1, steps, batch, units),
            *(of(use[port] if use.has(port) else None, place, 0, batch, units) for port in ("hidden", "cell")),
            of(diff, place, 1, steps, batch, units),
            *(of(one, place, 0, batch, units) for one in (diff_last, diff_cell)),
        ]
        is_reversed = direction == "reverse" or place == 1
        network = _Direction(emit, use.call.string("cell"), is_reversed, *operands)  # type: ignore[arg-type]
        gradients_by_direction.append(network.gradients())
    by_inputs, by_factors, by_bias, by_hidden, by_cell = zip(*gradients_by_direction, strict=True)

    def together(values: Sequence[Value], axis: int, *dims: int) -> Value:
        return concat(emit, [reshape(emit, value, numbers(*dims)) for value in values], axis)

    weights = in_blocks(emit, together(by_factors, 0, 1, gates, units, units), together(by_bias, 0, 1, gates, units, 1))
    is_lstm = use.call.string("cell") == "lstm"
    ends = [
        together(gradient_by_direction, 0, 1, batch, units) if use.has(port) and (is_lstm or port == "hidden") else None
        for gradient_by_direction, port in ((by_hidden, "hidden"), (by_cell, "cell"))
    ]
    return together(by_inputs, 2, steps, batch, 1, gates, units), weights, *ends


@record(frozen=True)
class Slopes:
    """How the gradients of a step depend on that of its state and that of its cell state.

    Attributes:
        inputs: factors from the state to what enters the gates (steps, batch, gates, units).
        seen: the same, to the products with the state before; they differ for the last gate of a GRU.
        state: from the state to the state before, beside the products (steps, batch, units); None is zeros.
        of_cell: of an LSTM, from the cell state to what enters the gates, and from the state and from the cell state
            to the cell state before.
        reset: of reset_gru, from the state before to what the last gate multiplies, and to the reset gate.
    """

    inputs: Value
    seen: Value
    state: Value | None = None
    of_cell: tuple[Value, Value, Value] | None = None
    reset: tuple[Value, Value] | None = None


class _Direction:
    """One direction of a network; values have the shapes (steps, batch, units) or (batch, units) if nothing is said.

    Attributes:
        lengths: of the sequences (batch); None is all steps.
        inputs: (steps, batch, gates, units).
        factors: (gates * units, units of the state).
        bias: (gates * units).
        hidden, cell: the first states; None is zeros.
        diff, diff_last, diff_cell: the gradients of the states, of the last one, and of the last cell state.
    """

    def __init__(
        self,
        emit: Emitter,
        kind: str,
        is_reversed: bool,
        lengths: Value | None,
        inputs: Value,
        factors: Value,
        bias: Value,
        states: Value,
        hidden: Value | None,
        cell: Value | None,
        diff: Value | None,
        diff_last: Value | None,
        diff_cell: Value | None,
    ) -> None:
        self.emit, self.kind = emit, kind
        self.steps, self.batch, self.gates, self.units = known_dims(inputs.shape)
        self.inputs, self.factors, self.bias, self.states = inputs, factors, bias, states
        self.order = range(self.steps)[::-1] if is_reversed else range(self.steps)
        self.zeros = np.zeros((self.batch, self.units), dtype_of(states).numpy)
        self.hidden, self.cell = (self.zeros if one is None else one for one in (hidden, cell))
        self.diff, self.diff_last, self.diff_cell = diff, diff_last, diff_cell
        self.lives: Value | None = None  # 1 in the steps of a sequence, and 0 behind its last one (steps, batch, units)
        if lengths is not None:
            places = np.arange(self.steps, dtype=np.int32)[:, None, None]
            is_before = emit.op("Less", [places, reshape(emit, lengths, numbers(1, self.batch, 1))])
            ones = np.ones((self.steps, self.batch, self.units), self.zeros.dtype)
            self.lives = select(emit, is_before, ones, np.zeros_like(ones))
            self.diff = None if diff is None else multiply(emit, diff, self.lives)

    def gradients(self) -> tuple[Value, ...]:
        """The gradients by inputs, factors, bias, hidden and cell."""
        emit = self.emit
        before = self.shifted(self.carried(self.states, self.hidden), self.hidden)
        lines = reshape(emit, before, numbers(-1, self.units))
        seen = matmul(emit, lines, self.factors, self.bias, transpose_b=True)
        seen = reshape(emit, seen, numbers(self.steps, self.batch, self.gates, self.units))
        cells = {"lstm": self.lstm, "gru": self.gru, "reset_gru": self.reset_gru}
        slopes = self.ended(cells.get(self.kind, self.plain)(before, seen))
        by_state, by_seen, first, cell = self.back(slopes)
        by_rows = self.rows_of(by_seen, 0, self.gates)
        by_factors = matmul(emit, by_rows, lines, transpose_a=True)
        if slopes.reset is not None:
            reset_lines = reshape(emit, self.product(slopes.reset[0], before), numbers(-1, self.units))
            parts = [
                matmul(emit, self.rows_of(by_seen, *gates), factors, transpose_a=True)
                for gates, factors in (((0, 2), lines), ((2, 3), reset_lines))
            ]
            by_factors = concat(emit, parts, 0)
        by_inputs = by_seen if slopes.inputs is slopes.seen else self.spread(slopes.inputs, by_state)
        return by_inputs, by_factors, reduce(emit, "ReduceSum", by_rows, [0], keep=False), first, cell

    def back(self, slopes: Slopes) -> tuple[Value, Value, Value, Value]:
        """The gradients by the states, by what they add to the gates, and by both first states."""
        emit = self.emit
        states: dict[int, Value] = {}
        seen: dict[int, Value] = {}
        state = self.zeros if self.diff_last is None else self.diff_last
        cell = self.zeros if self.diff_cell is None else self.diff_cell
        for time in reversed(self.order):
            if self.diff is not None:
                state = add(emit, self.at(self.diff, time), state)
            states[time] = state
            gates = self.spread(self.at(slopes.seen, time), state)
            if slopes.of_cell is not None:
                gates = add(emit, gates, self.spread(self.at(slopes.of_cell[0], time), cell))
            if slopes.reset is None:
                carried = matmul(emit, reshape(emit, gates, numbers(self.batch, -1)), self.factors)
            else:
                gates, carried = self.before_reset(gates, *(self.at(one, time) for one in slopes.reset))
            seen[time] = gates
            if slopes.of_cell is not None:
                _, by_state, by_cell = slopes.of_cell
                kept = multiply(emit, self.at(by_cell, time), cell)
                cell = add(emit, multiply(emit, self.at(by_state, time), state), kept)
            if slopes.state is not None:
                carried = add(emit, multiply(emit, self.at(slopes.state, time), state), carried)
            state = carried
        return self.stacked(states), self.stacked(seen), state, cell

    def before_reset(self, gates: Value, reset: Value, by_reset: Value) -> tuple[Value, Value]:
        """The gradients by the gates of a step, with that of the gate that resets, and by the state before."""
        emit, units = self.emit, self.units
        update, fresh = (slice_(emit, gates, [place], [place + 1], [1]) for place in (0, 2))
        ends = (0, 2 * units), (2 * units, 3 * units)
        first, last = (slice_(emit, self.factors, [at], [end], [0]) for at, end in ends)
        by_given = matmul(emit, reshape(emit, fresh, numbers(self.batch, units)), last)
        slopes_of_both = [update, reshape(emit, multiply(emit, by_reset, by_given), numbers(self.batch, 1, units))]
        carried = matmul(emit, reshape(emit, concat(emit, slopes_of_both, 1), numbers(self.batch, -1)), first)
        return concat(emit, [*slopes_of_both, fresh], 1), add(emit, multiply(emit, reset, by_given), carried)

    def carried(self, value: Value, first: Value) -> Value:
        """The states of all steps, in which sequences that have not begun have the first one."""
        if self.lives is None:
            return value
        return add(self.emit, value, multiply(self.emit, self.rest(self.lives), first))

    def ended(self, slopes: Slopes) -> Slopes:
        """The slopes, where steps behind the last one of a sequence keep both states."""
        if self.lives is None:
            return slopes
        emit, lives, over = self.emit, self.lives, self.rest(self.lives)

        def kept(value: Value | None) -> Value:
            return over if value is None else add(emit, self.product(value, lives), over)

        inputs = self.spread(slopes.inputs, lives)
        seen = inputs if slopes.seen is slopes.inputs else self.spread(slopes.seen, lives)
        if slopes.of_cell is None:
            return Slopes(inputs, seen, kept(slopes.state), reset=slopes.reset)
        by_cell, cell, cell_by_cell = slopes.of_cell
        of_cell = self.spread(by_cell, lives), self.product(cell, lives), kept(cell_by_cell)
        return Slopes(inputs, seen, kept(slopes.state), of_cell)

    # The cells ------------------------------------------------------------------------------------------------------

    def lstm(self, before: Value, seen: Value) -> Slopes:
        emit, mul = self.emit, self.product
        total = add(emit, self.inputs, seen)
        entry, out, forget = (unary(emit, "Sigmoid", self.gate(total, place)) for place in range(3))
        fresh = unary(emit, "Tanh", self.gate(total, 3))
        added = mul(entry, fresh)
        cells: dict[int, Value] = {}
        cell = self.cell
        for time in self.order:
            after_it = add(emit, multiply(emit, self.at(forget, time), cell), self.at(added, time))
            if self.lives is not None:
                after_it = select(emit, emit.op("Greater", [self.at(self.lives, time), self.zeros]), after_it, cell)
            cell = after_it
            cells[time] = cell
        after = self.stacked(cells)
        height = unary(emit, "Tanh", after)
        slope = mul(out, self.rest(mul(height, height)))  # of the state by the cell state
        by_cell = [
            mul(added, self.rest(entry)),
            np.zeros((self.steps, self.batch, self.units), self.zeros.dtype),
            mul(self.shifted(after, self.cell), forget, self.rest(forget)),
            mul(entry, self.rest(mul(fresh, fresh))),
        ]
        by_state = [mul(one, slope) for one in by_cell]
        by_state[1] = mul(height, out, self.rest(out))
        gates = self.together(by_state)
        return Slopes(gates, gates, None, (self.together(by_cell), mul(slope, forget), forget))

    def gru(self, before: Value, seen: Value) -> Slopes:
        emit, mul = self.emit, self.product
        update, reset = (
            unary(emit, "Sigmoid", add(emit, self.gate(self.inputs, place), self.gate(seen, place))) for place in (0, 1)
        )
        last = self.gate(seen, 2)
        fresh = unary(emit, "Tanh", add(emit, self.gate(self.inputs, 2), mul(reset, last)))
        by_fresh = mul(self.rest(update), self.rest(mul(fresh, fresh)))
        by_update = mul(binary(emit, "Subtract", before, fresh), update, self.rest(update))
        by_reset = mul(by_fresh, last, reset, self.rest(reset))
        inputs = self.together([by_update, by_reset, by_fresh])
        return Slopes(inputs, self.together([by_update, by_reset, mul(by_fresh, reset)]), update)

    def reset_gru(self, before: Value, seen: Value) -> Slopes:
        emit, mul, units = self.emit, self.product, self.units
        update, reset = (
            unary(emit, "Sigmoid", add(emit, self.gate(self.inputs, place), self.gate(seen, place))) for place in (0, 1)
        )
        reset_rows = reshape(emit, mul(reset, before), numbers(-1, units))
        last, bias = (slice_(emit, one, [2 * units], [3 * units], [0]) for one in (self.factors, self.bias))
        total = matmul(emit, reset_rows, last, bias, transpose_b=True)
        total = reshape(emit, total, numbers(self.steps, self.batch, units))
        fresh = unary(emit, "Tanh", add(emit, self.gate(self.inputs, 2), total))
        by_fresh = mul(self.rest(update), self.rest(mul(fresh, fresh)))
        by_update = mul(binary(emit, "Subtract", before, fresh), update, self.rest(update))
        gates = self.together([by_update, np.zeros((self.steps, self.batch, units), self.zeros.dtype), by_fresh])
        return Slopes(gates, gates, update, reset=(reset, mul(before, reset, self.rest(reset))))

    def plain(self, before: Value, seen: Value) -> Slopes:
        if self.kind == "tanh":
            slope = self.rest(self.product(self.states, self.states))
        else:
            ones = np.ones((self.steps, self.batch, self.units), self.zeros.dtype)
            slope = self.emit.op("ReLUBackward", [self.states, ones], {"use_dst": True})
        slope = self.together([slope])
        return Slopes(slope, slope)

    # Shapes ---------------------------------------------------------------------------------------------------------

    def at(self, value: Value, time: int) -> Value:
        """What belongs to one step."""
        moment = slice_(self.emit, value, [time], [time + 1], [0])
        return reshape(self.emit, moment, numbers(*known_dims(value.shape)[1:]))

    def gate(self, value: Value, place: int) -> Value:
        """One gate of all steps."""
        gate_value = slice_(self.emit, value, [place], [place + 1], [2])
        return reshape(self.emit, gate_value, numbers(self.steps, self.batch, self.units))

    def rows_of(self, value: Value, first: int, last: int) -> Value:
        """Some gates of all steps (steps * batch, gates * units)."""
        part = slice_(self.emit, value, [first], [last], [2])
        return reshape(self.emit, part, numbers(-1, (last - first) * self.units))

    def shifted(self, value: Value, first: Value) -> Value:
        """For each step, the value of the step before, or the first one."""
        emit, start = self.emit, reshape(self.emit, first, numbers(1, self.batch, self.units))
        if self.steps == 1:
            return start
        if self.order[0]:
            return concat(emit, [slice_(emit, value, [1], [self.steps], [0]), start], 0)
        return concat(emit, [start, slice_(emit, value, [0], [self.steps - 1], [0])], 0)

    def stacked(self, values: dict[int, Value]) -> Value:
        """The values of all steps, in the order of time."""
        parts = [
            reshape(self.emit, values[time], numbers(1, *known_dims(values[time].shape))) for time in range(self.steps)
        ]
        return concat(self.emit, parts, 0)

    def together(self, gates: Sequence[Value]) -> Value:
        """Values of all steps, one for each gate, as (steps, batch, gates, units)."""
        shape = numbers(self.steps, self.batch, 1, self.units)
        return concat(self.emit, [reshape(self.emit, gate, shape) for gate in gates], 2)

    def spread(self, slopes: Value, value: Value) -> Value:
        """The products of the slopes of all gates (..., gates, units) with a value (..., units)."""
        *lead, units = known_dims(value.shape)
        return multiply(self.emit, slopes, reshape(self.emit, value, numbers(*lead, 1, units)))

    def product(self, first: Value, *factors: Value) -> Value:
        for factor in factors:
            first = multiply(self.emit, first, factor)
        return first

    def rest(self, value: Value) -> Value:
        """1 - value."""
        return binary(self.emit, "Subtract", filled(1, value), value)
