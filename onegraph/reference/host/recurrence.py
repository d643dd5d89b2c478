"""Computes layers of recurrent networks in numpy, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.recurrence import GATES
from ...opset.schema import Call

Array = NDArray[Any]


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def recurrence(
    call: Call,
    inputs: Array,
    weights: Array,
    hidden: Array | None = None,
    cell: Array | None = None,
    lengths: Array | None = None,
) -> tuple[Array, ...]:
    """The states of all steps, and the last ones."""
    steps, batch, directions, gates, units = inputs.shape
    kind, direction = call.string("cell"), call.string("direction")
    assert gates == GATES[kind]
    # (directions, units of the state and the bias, gates, units)
    whole = weights.transpose(0, 2, 3, 1, 4).reshape(directions, units + 1, gates, -1)[..., :units].astype(np.float64)
    factors, bias = whole[:, :-1], whole[:, -1, :, None]
    states = np.empty((steps, directions, batch, units))
    ends = np.full(batch, steps) if lengths is None else lengths
    if np.any((ends < 0) | (ends > steps)):
        raise ValueError(f"lengths {ends.tolist()}; expected 0 to {steps}")
    last, last_cell = np.empty((2, directions, batch, units))
    for one in range(directions):
        state, memory = (
            np.zeros((batch, units)) if given is None else given[one].astype(np.float64) for given in (hidden, cell)
        )
        order = range(steps)
        for step in reversed(order) if direction == "reverse" or one == 1 else order:
            given = inputs[step, :, one].astype(np.float64).swapaxes(0, 1)  # (gates, batch, units)
            seen = np.einsum("bk,kgu->gbu", state, factors[one]) + bias[one]
            before, lives = (state, memory), (step < ends)[:, None]
            if kind == "lstm":
                entry, out, forget, fresh = given + seen
                memory = _sigmoid(forget) * memory + _sigmoid(entry) * np.tanh(fresh)
                state = _sigmoid(out) * np.tanh(memory)
            elif gates == GATES["gru"]:
                update, reset = _sigmoid(given[:2] + seen[:2])
                if kind == "gru":
                    fresh = np.tanh(given[2] + reset * seen[2])
                else:
                    fresh = np.tanh(given[2] + (reset * state) @ factors[one, :, 2] + bias[one, 2])
                state = fresh + update * (state - fresh)
            else:
                state = np.tanh(given[0] + seen[0]) if kind == "tanh" else np.maximum(given[0] + seen[0], 0)
            state, memory = (np.where(lives, *pair) for pair in zip((state, memory), before, strict=True))
            states[step, one] = np.where(lives, state, 0)
        last[one], last_cell[one] = state, memory
    return tuple(one.astype(inputs.dtype) for one in (states, last, last_cell))
