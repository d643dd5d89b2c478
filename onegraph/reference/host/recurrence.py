"""Computes layers of recurrent networks in numpy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.recurrence import DIRECTIONS, GATES, Activation, activations_of
from ...opset.schema import Call

Array = NDArray[Any]


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def activated(function: Activation, x: Array) -> Array:
    """The activation of x."""
    alpha, beta = function.alpha, function.beta
    if function.name == "sigmoid":
        return _sigmoid(x)
    if function.name == "softsign":
        return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))
    functions: dict[str, Callable[[Array], Array]] = {
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "affine": lambda x: alpha * x + beta,
        "elu": lambda x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
        "hardsigmoid": lambda x: np.clip(alpha * x + beta, 0, 1),
        "leakyrelu": lambda x: np.where(x < 0, alpha * x, x),
        "scaledtanh": lambda x: alpha * np.tanh(beta * x),
        "softplus": lambda x: np.logaddexp(0, x),
        "thresholdedrelu": lambda x: np.where(x <= alpha, 0, x),
    }
    return functions[function.name](x)


def _functions(call: Call, direction: int) -> list[Callable[[Array], Array]]:
    """The activations of gates and of the new state, which limit what they get, and that of the cell state."""
    functions, clip = activations_of(call), call.f32("clip") or np.inf
    width = len(functions) // DIRECTIONS[call.string("direction")]
    gate, inner, outer = (functions[direction * width : (direction + 1) * width] * 3)[:3]
    limited = [lambda x, function=one: activated(function, np.clip(x, -clip, clip)) for one in (gate, inner)]
    return [*limited, partial(activated, outer)]


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
    turned = weights.transpose(0, 2, 3, 1, 4)
    whole = turned.reshape(directions, weights.shape[2], gates, -1)[..., :units].astype(np.float64)
    factors, bias = whole[:, :units], whole[:, units, :, None]
    peeps = whole[:, -1] if call.flag("peepholes") else None
    states = np.empty((steps, directions, batch, units))
    ends = np.full(batch, steps) if lengths is None else lengths
    if np.any((ends < 0) | (ends > steps)):
        raise ValueError(f"lengths {ends.tolist()}; expected 0 to {steps}")
    last, last_cell = np.empty((2, directions, batch, units))
    for direction_number in range(directions):
        state, memory = (
            np.zeros((batch, units)) if given is None else given[direction_number].astype(np.float64)
            for given in (hidden, cell)
        )
        gate, inner, outer = _functions(call, direction_number)
        order = range(steps)
        for step in reversed(order) if direction == "reverse" or direction_number == 1 else order:
            gates_in = inputs[step, :, direction_number].astype(np.float64).swapaxes(0, 1)  # (gates, batch, units)
            seen = np.einsum("bk,kgu->gbu", state, factors[direction_number]) + bias[direction_number]
            before, lives = (state, memory), (step < ends)[:, None]
            if kind == "lstm":
                entry, out, forget, fresh = gates_in + seen
                if peeps is not None:
                    entry, forget = (
                        entry + peeps[direction_number, 0] * memory,
                        forget + peeps[direction_number, 2] * memory,
                    )
                entry = gate(entry)
                kept = 1 - entry if call.flag("input_forget") else gate(forget)
                memory = kept * memory + entry * inner(fresh)
                out = out if peeps is None else out + peeps[direction_number, 1] * memory
                state = gate(out) * outer(memory)
            elif kind in ("gru", "reset_gru"):
                update, reset = gate(gates_in[:2] + seen[:2])
                if kind == "gru":
                    fresh = inner(gates_in[2] + reset * seen[2])
                else:
                    fresh = inner(
                        gates_in[2] + (reset * state) @ factors[direction_number, :, 2] + bias[direction_number, 2]
                    )
                state = fresh + update * (state - fresh)
            else:
                state = gate(gates_in[0] + seen[0])
            state, memory = (np.where(lives, *pair) for pair in zip((state, memory), before, strict=True))
            states[step, direction_number] = np.where(lives, state, 0)
        last[direction_number], last_cell[direction_number] = state, memory
    return tuple(one.astype(inputs.dtype) for one in (states, last, last_cell))
