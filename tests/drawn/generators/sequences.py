"""Recurrent networks and linear attention, whose states follow from those before."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from onegraph.opset.host.recurrence import GATES, LANES, USUAL
from tests.helpers.drawn import Array, Wanted
from tests.helpers.host_cases import HostCase, graph_of

from ..draw import Draw
from ..entry import draws

# By name, in the order of the kernel, each a function of x, alpha and beta.
FUNCTIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "sigmoid": lambda x, a, b: 0.5 + 0.5 * np.tanh(0.5 * x),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "softplus": lambda x, a, b: np.logaddexp(0, np.maximum(x, -80)),  # never 0, which an infinity would make NaN
    "softsign": lambda x, a, b: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "thresholdedrelu": lambda x, a, b: np.where(x <= a, 0, x),
}
BOUNDED = ["sigmoid", "tanh", "hardsigmoid", "scaledtanh", "softsign"]
DIRECTIONS = {"forward": 0, "reverse": 1, "bidirectional": 2}


class Layer:
    """A drawn layer: the operands in float64, and what the kernel gets."""

    def __init__(self, draw: Draw) -> None:
        self.cell = draw.of([*GATES])
        self.direction = draw.of([*DIRECTIONS])
        self.gates, self.directions = GATES[self.cell], 2 if self.direction == "bidirectional" else 1
        self.steps, self.batch, self.units = draw.between(1, 5), draw.of([1, 2, 3, draw.size(17)]), draw.size(65)
        if draw.flag(0.02):  # worth several threads, which share rows of the batch, or the units of few rows
            self.steps, self.batch, self.units = draw.of([(3, 13, 100), (2, 1, 257)])
        shape = self.directions, self.batch, self.units
        special = draw.of(["", "", "", "inputs", "hidden", "factors"])
        mild = {name: draw.mild(dims, special=name == special) for name, dims in (
            ("inputs", (self.steps, self.batch, self.directions, self.gates, self.units)),
            ("factors", (self.directions, self.gates, self.units, self.units)),
            ("hidden", shape), ("memory", shape), ("bias", (self.directions, self.gates, self.units)),
            ("peeps", (self.directions, 3, self.units)))}  # fmt: skip
        self.inputs, self.bias = np.ascontiguousarray(mild["inputs"]), mild["bias"]
        self.factors = (mild["factors"] / np.sqrt(self.units)).astype(np.float32)
        self.hidden = np.ascontiguousarray(mild["hidden"]) if draw.flag(0.8) else None
        has_lengths, is_lstm = draw.flag(0.3), self.cell == "lstm"
        self.memory = np.ascontiguousarray(mild["memory"]) if self.hidden is not None and draw.flag() else None
        if not is_lstm and not has_lengths:
            self.memory = None
        self.lengths = draw.rng.integers(0, self.steps + 1, self.batch).astype(np.int32) if has_lengths else None
        self.clip = draw.of([0.0, 0.0, 0.5, 3.0])
        self.forgets = is_lstm and draw.flag(0.2)
        self.peeps = mild["peeps"] if is_lstm and draw.flag(0.2) else None
        usual, each = USUAL[self.cell] * self.directions, len(USUAL[self.cell])
        # Products of gates without bounds grow until f32 has no digit of them.
        others = [BOUNDED if at % each == 0 and each > 1 else [*FUNCTIONS] for at in range(len(usual))]
        names = [*map(draw.of, others)] if draw.flag(0.3) else [*usual]
        self.functions = [(name, draw.of([0.3, 0.5]), draw.of([0.4, 0.9])) for name in names]
        self.is_near = False  # whether a number lies beside a threshold, so that rounding decides
        self.is_usual = names == [*usual] and not (
            self.clip or self.forgets or self.peeps is not None or self.cell == "relu"
        )

    def weights(self) -> Array:
        """In blocks of units, with the bias and the peepholes behind."""
        rows = self.units + 1 + (self.peeps is not None)
        whole = np.zeros((self.directions, rows, self.gates, -(-self.units // LANES) * LANES), np.float32)
        whole[:, : self.units, :, : self.units] = self.factors.transpose(0, 3, 1, 2)
        whole[:, self.units, :, : self.units] = self.bias
        if self.peeps is not None:
            whole[:, self.units + 1, :3, : self.units] = self.peeps
        return np.ascontiguousarray(
            whole.reshape(self.directions, rows, self.gates, -1, LANES).transpose(0, 3, 1, 2, 4)
        )

    def operands(self) -> list[Array]:
        given = [self.inputs, self.weights(), self.hidden, self.memory, self.lengths]
        return [array for array in given if array is not None]

    def exact(self) -> tuple[Array, Array, Array]:
        """The states of all steps, the last ones and the last cell states, by the definition."""
        states = np.zeros((self.steps, self.directions, self.batch, self.units))
        last, last_cell = np.zeros((2, self.directions, self.batch, self.units))
        for at in range(self.directions):
            last[at], last_cell[at] = self._direction(at, states[:, at])
        return states, last, last_cell

    def _direction(self, at: int, states: Array) -> tuple[Array, Array]:
        each = len(self.functions) // self.directions
        gate, inner, outer = (self.functions[at * each : (at + 1) * each] * 3)[:3]

        def act(function: tuple[str, float, float], x: Array, limit: float = self.clip) -> Array:
            name, *numbers = function
            numbers = [float(np.float32(number)) for number in numbers]
            self.is_near |= name == "thresholdedrelu" and bool((np.abs(x - numbers[0]) < 1e-4).any())
            return FUNCTIONS[name](np.clip(x, -limit, limit) if limit else x, *numbers)

        factors, bias = self.factors[at].astype(np.float64), self.bias[at].astype(np.float64)

        def peep(place: int) -> Array | float:
            return 0.0 if self.peeps is None else self.peeps[at, place].astype(np.float64) * memory

        state = np.zeros((self.batch, self.units)) if self.hidden is None else self.hidden[at].astype(np.float64)
        memory = np.zeros_like(state) if self.memory is None or self.gates != 4 else self.memory[at].astype(np.float64)
        order = range(self.steps)
        for step in order[::-1] if self.direction == "reverse" or at == 1 else order:
            given = self.inputs[step, :, at].astype(np.float64).swapaxes(0, 1)
            seen = [state @ factors[gate_at].T + bias[gate_at] for gate_at in range(self.gates)]
            before, kept = state, memory
            if self.gates == 4:
                entry = act(gate, given[0] + seen[0] + peep(0))
                forget = 1 - entry if self.forgets else act(gate, given[2] + seen[2] + peep(2))
                memory = forget * memory + entry * act(inner, given[3] + seen[3])
                state = act(gate, given[1] + seen[1] + peep(1)) * act(outer, memory, 0)
            elif self.gates == 3:
                update, reset = (act(gate, given[place] + seen[place]) for place in range(2))
                if self.cell == "gru":
                    fresh = act(inner, given[2] + reset * seen[2])
                else:
                    fresh = act(inner, given[2] + (reset * state) @ factors[2].T + bias[2])
                state = fresh + update * (state - fresh)
            else:
                state = act(gate, given[0] + seen[0])
            if self.lengths is not None:
                lives = (step < self.lengths)[:, None]
                state, memory = np.where(lives, state, before), np.where(lives, memory, kept)
                states[step] = np.where(lives, state, 0)
            else:
                states[step] = state
        return state, memory

    def check(self, founds: list[Array], said: str) -> None:
        for name, found, wanted in zip(("states", "last", "cell"), founds, self.exact(), strict=False):
            if self.is_near:
                continue
            error = 1e-5 * np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
            Wanted(wanted, np.full(wanted.shape, error), np.zeros_like(wanted)).check(found, f"{said}, {name}")


def words_of(function: tuple[str, float, float]) -> tuple[int, int, int]:
    """An activation as the kernel gets it: its place, and the bits of its numbers."""
    name, *numbers = function
    return [*FUNCTIONS].index(name), *struct.unpack("ii", struct.pack("ff", *numbers))


@draws("recurrence")
def recurrence(draw: Draw) -> None:
    layer = Layer(draw)
    shape = layer.directions, layer.batch, layer.units
    founds = [np.full((layer.steps, *shape), np.nan, np.float32), np.full(shape, np.nan, np.float32)]
    if layer.cell == "lstm" and draw.flag(0.8):
        founds.append(np.full(shape, np.nan, np.float32))
    codes = [] if layer.is_usual else [*chain.from_iterable(map(words_of, layer.functions))]
    numbers: dict[str, Any] = {
        "gates": layer.gates, "reset_first": layer.cell == "reset_gru", "reversed": DIRECTIONS[layer.direction],
        "hidden": layer.hidden is not None, "cell": layer.memory is not None, "lengths": layer.lengths is not None,
        "clip": layer.clip, "input_forget": layer.forgets, "peepholes": layer.peeps is not None, "activations": codes,
    }  # fmt: skip
    draw.said = f"{layer.steps} steps of {layer.batch} by {layer.units}, {layer.cell}, {layer.functions}, {numbers}"
    draw.path = f"{layer.cell}{'' if layer.is_usual else ' unusual'}"
    draw.run(*layer.operands(), *founds, results=len(founds), **numbers)
    layer.check(founds, str(draw))


@draws("recurrence", graph=True)
def recurrence_in_a_graph(draw: Draw) -> None:
    layer = Layer(draw)
    while layer.hidden is None or (layer.lengths is not None and layer.memory is None):
        layer = Layer(draw)
    attrs: dict[str, Any] = {"cell": layer.cell, "direction": layer.direction, "clip": layer.clip}
    attrs |= {"input_forget": layer.forgets, "peepholes": layer.peeps is not None}
    if not layer.is_usual:
        names, alphas, betas = zip(*layer.functions, strict=True)
        attrs |= {"activations": " ".join(names), "alpha": alphas, "beta": betas}
    operands = [layer.inputs, layer.weights(), layer.hidden, layer.memory, layer.lengths]
    while operands[-1] is None:
        operands.pop()
    results = [np.zeros(1, np.float32)] * (3 if layer.cell == "lstm" else 2)
    g, given = graph_of(HostCase("Recurrence", operands, results, attrs))
    draw.said = f"{layer.steps} steps of {layer.batch} by {layer.units}, {attrs}"
    layer.check(draw.run_graph(g, given), str(draw))


def attended(
    query: Array, key: Array, value: Array, state: Array, decay: Array | None, rate: Array | None
) -> tuple[Array, Array]:
    """Linear attention in float64, a token at a time."""
    query, key, value, state = (array.astype(np.float64) for array in (query, key, value, state))
    found = np.empty((*query.shape[:4], value.shape[3]))
    for token in range(query.shape[1]):
        added = value[:, token]
        if decay is not None:
            state = state * decay[:, token].astype(np.float64)[..., None]
        if rate is not None:
            share = rate[:, token].astype(np.float64)[..., None]
            added = share * (added - np.einsum("bhs,bhsd->bhd", key[:, token], state))
        state = state + key[:, token][..., None] * added[:, :, None]
        found[:, token] = query[:, token] @ state
    return found, state


class Tokens:
    """Operands of a linear attention."""

    def __init__(self, draw: Draw) -> None:
        batch, tokens, heads, queries = draw.between(1, 3), draw.between(1, 7), draw.between(1, 4), draw.between(1, 3)
        size, depth = draw.size(65), draw.size()
        decays, rates = draw.of([(0, 0), (1, 0), (size, 1), (1, heads), (0, 1)])
        special = draw.of([None, None, None, 0, 1, 2, 3])
        shapes = [(batch, tokens, heads, queries, size), (batch, tokens, heads, size), (batch, tokens, heads, depth)]
        shapes.append((batch, heads, size, depth))
        scales = size**-0.5, size**-0.5, depth**-0.5, 1
        self.arrays = [
            np.ascontiguousarray(draw.mild(shape, special=special == at, size=scale))
            for at, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
        ]
        drawn = lambda low, last: draw.rng.uniform(low, 1, (batch, tokens, heads, last)).astype(np.float32)  # noqa: E731
        self.decay = drawn(0.5, decays) if decays else None
        self.rate = np.ascontiguousarray(drawn(0, rates)[:, :, 0]) if rates else None
        self.said = f"{[array.shape for array in self.arrays]}, {decays} decays, {rates} rates"

    def check(self, founds: list[Array], said: str) -> None:
        for found, wanted in zip(founds, attended(*self.arrays, self.decay, self.rate), strict=True):
            error = 1e-5 * np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
            Wanted(wanted, np.full(wanted.shape, error), np.zeros_like(wanted)).check(found, said)


@draws("linear_attention")
def linear_attention(draw: Draw) -> None:
    own = Tokens(draw)
    query, _, value, state = own.arrays
    founds = [np.full((*query.shape[:4], value.shape[3]), np.nan, np.float32), np.full(state.shape, np.nan, np.float32)]
    ends = [*own.arrays, *(array for array in (own.decay, own.rate) if array is not None)]
    draw.said = own.said
    draw.path = f"{'decay' if own.decay is not None else ''} {'rate' if own.rate is not None else ''}".strip()
    draw.run(*ends, *founds, results=2, decay=own.decay is not None, rate=own.rate is not None)
    own.check(founds, str(draw))


@draws("linear_attention", graph=True)
def linear_attention_in_a_graph(draw: Draw) -> None:
    own = Tokens(draw)
    if own.decay is None:
        own.rate = None
    operands = [*own.arrays, own.decay, own.rate]
    while operands[-1] is None:
        operands.pop()
    g, given = graph_of(HostCase("LinearAttention", operands, []))
    draw.said = own.said
    own.check(draw.run_graph(g, given), str(draw))
