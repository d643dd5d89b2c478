"""Gradients of recurrent networks: the gates of all steps at once, then one product for each step, from the last one.

A gate's gradient is a factor times the gradient of the state, plus another one times that of the cell state of an LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._util.records import record
from ...errors import UnsupportedError
from ...lowering.elementwise import add, binary, filled, multiply, unary
from ...lowering.emitter import Emitter, Value, dtype_of, numbers
from ...lowering.layers import matmul
from ...lowering.movement import concat, reshape, slice_, transpose
from ...lowering.recurrence import in_blocks
from ...lowering.recurrent import MAX_STEPS
from ...lowering.reduction import reduce
from ...opset.host.recurrence import LANES, blocks_of
from ...opset.shapes import known_dims
from ..use import Use
from .table import gradient_of


@gradient_of("host Recurrence", "inputs weights hidden cell")
def recurrence(
    emit: Emitter, use: Use, diff: Value | None, diff_last: Value | None = None, diff_cell: Value | None = None
) -> tuple[Value | None, ...]:
    steps, batch, directions, gates, units = use.dims("inputs")
    if not 0 < steps <= MAX_STEPS:
        text = f"{steps} steps; expected at most {MAX_STEPS}"
        raise UnsupportedError(f"gradient: {use.op.kind} {use.op.name!r}: {text}")
    blocks, direction = blocks_of(units), use.call.string("direction")
    assert blocks is not None

    def of_units(first: int, last: int) -> Value:
        """The weights of some units of the state (directions, gates, units, those units), in memory of their own."""
        cut = slice_(emit, use["weights"], [first], [last], [2])
        turned = reshape(
            emit, transpose(emit, cut, (0, 3, 1, 4, 2)), numbers(directions, gates, blocks * LANES, last - first)
        )
        return slice_(emit, turned, [0], [units], [2])

    factors, bias = of_units(0, units), of_units(units, units + 1)

    def of(value: Value | None, place: int, axis: int, *dims: int) -> Value | None:
        """The part of a direction."""
        return (
            None if value is None else reshape(emit, slice_(emit, value, [place], [place + 1], [axis]), numbers(*dims))
        )

    found: list[tuple[Value, ...]] = []
    for place in range(directions):
        given: list[Value | None] = [
            of(use["inputs"], place, 2, steps, batch, gates, units),
            of(factors, place, 0, gates * units, units),
            of(bias, place, 0, gates * units),
            of(use.result("states"), place, 1, steps, batch, units),
            *(of(use[port] if use.has(port) else None, place, 0, batch, units) for port in ("hidden", "cell")),
            of(diff, place, 1, steps, batch, units),
            *(of(one, place, 0, batch, units) for one in (diff_last, diff_cell)),
        ]
        is_reversed = direction == "reverse" or place == 1
        found.append(_Direction(emit, use.call.string("cell"), is_reversed, *given).gradients())  # type: ignore[arg-type]
    by_inputs, by_factors, by_bias, by_hidden, by_cell = zip(*found, strict=True)

    def together(values: Sequence[Value], axis: int, *dims: int) -> Value:
        return concat(emit, [reshape(emit, one, numbers(*dims)) for one in values], axis)

    weights = in_blocks(emit, together(by_factors, 0, 1, gates, units, units), together(by_bias, 0, 1, gates, units, 1))
    ends = [
        together(one, 0, 1, batch, units) if use.has(port) else None
        for one, port in ((by_hidden, "hidden"), (by_cell, "cell"))
    ]
    return together(by_inputs, 2, steps, batch, 1, gates, units), weights, *ends


@record(frozen=True)
class Slopes:
    """How the gradients of a step depend on that of its state and that of its cell state.

    Attributes:
        inputs: factors from the state to what enters the gates (steps, batch, gates, units).
        seen: the same, to the products with the state before; they differ for the last gate of a GRU.
        state: from the state to the state before, beside the products (steps, batch, units); None is zeros.
        inputs_by_cell: from the cell state to what enters the gates, of an LSTM.
        cell, cell_by_cell: from the state and from the cell state to the cell state before, of an LSTM.
    """

    inputs: Value
    seen: Value
    state: Value | None = None
    inputs_by_cell: Value | None = None
    cell: Value | None = None
    cell_by_cell: Value | None = None


class _Direction:
    """One direction of a network; values have the shapes (steps, batch, units) or (batch, units) if nothing is said.

    Attributes:
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

    def gradients(self) -> tuple[Value, ...]:
        """The gradients by inputs, factors, bias, hidden and cell."""
        emit = self.emit
        before = self.shifted(self.states, self.hidden)
        rows = numbers(-1, self.gates * self.units)
        lines = reshape(emit, before, numbers(-1, self.units))
        seen = matmul(emit, lines, self.factors, self.bias, transpose_b=True)
        seen = reshape(emit, seen, numbers(self.steps, self.batch, self.gates, self.units))
        slopes = {"lstm": self.lstm, "gru": self.gru}.get(self.kind, self.plain)(before, seen)
        by_state, by_seen, first, cell = self.back(slopes)
        by_rows = reshape(emit, by_seen, rows)
        by_factors = matmul(emit, by_rows, lines, transpose_a=True)
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
            if slopes.inputs_by_cell is not None:
                gates = add(emit, gates, self.spread(self.at(slopes.inputs_by_cell, time), cell))
            seen[time] = gates
            carried = matmul(emit, reshape(emit, gates, numbers(self.batch, -1)), self.factors)
            if slopes.cell is not None and slopes.cell_by_cell is not None:
                kept = multiply(emit, self.at(slopes.cell_by_cell, time), cell)
                cell = add(emit, multiply(emit, self.at(slopes.cell, time), state), kept)
            if slopes.state is not None:
                carried = add(emit, multiply(emit, self.at(slopes.state, time), state), carried)
            state = carried
        return self.stacked(states), self.stacked(seen), state, cell

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
            cell = add(emit, multiply(emit, self.at(forget, time), cell), self.at(added, time))
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
        return Slopes(gates, gates, None, self.together(by_cell), mul(slope, forget), forget)

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

    def plain(self, before: Value, seen: Value) -> Slopes:
        if self.kind == "tanh":
            found = self.rest(self.product(self.states, self.states))
        else:
            ones = np.ones((self.steps, self.batch, self.units), self.zeros.dtype)
            found = self.emit.op("ReLUBackward", [self.states, ones], {"use_dst": True})
        found = self.together([found])
        return Slopes(found, found)

    # Shapes ---------------------------------------------------------------------------------------------------------

    def at(self, value: Value, time: int) -> Value:
        """What belongs to one step."""
        found = slice_(self.emit, value, [time], [time + 1], [0])
        return reshape(self.emit, found, numbers(*known_dims(value.shape)[1:]))

    def gate(self, value: Value, place: int) -> Value:
        """One gate of all steps."""
        found = slice_(self.emit, value, [place], [place + 1], [2])
        return reshape(self.emit, found, numbers(self.steps, self.batch, self.units))

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
        return concat(self.emit, [reshape(self.emit, one, shape) for one in gates], 2)

    def spread(self, slopes: Value, value: Value) -> Value:
        """The products of the slopes of all gates (..., gates, units) with a value (..., units)."""
        *lead, units = known_dims(value.shape)
        return multiply(self.emit, slopes, reshape(self.emit, value, numbers(*lead, 1, units)))

    def product(self, first: Value, *others: Value) -> Value:
        for other in others:
            first = multiply(self.emit, first, other)
        return first

    def rest(self, value: Value) -> Value:
        """1 - value."""
        return binary(self.emit, "Subtract", filled(1, value), value)
