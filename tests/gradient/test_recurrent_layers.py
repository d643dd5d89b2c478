"""Recurrent layers of the builder, beside loops in float64 that follow PyTorch's definition."""

import numpy as np
import pytest

import onegraph as og

pytestmark = pytest.mark.library
STEPS, BATCH, INPUTS, UNITS = 5, 3, 6, 17
GATES = {"lstm": 4, "gru": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected(cell, x, weights, recurrence, biases, state, memory):
    """The states of all steps and the last cell state, as the documentation of torch.nn.LSTM and GRU has them."""
    states = []
    for step in x.astype(np.float64):
        of_input = np.split(step @ weights.T.astype(np.float64) + biases[0], GATES[cell], axis=1)
        of_state = np.split(state @ recurrence.T.astype(np.float64) + biases[1], GATES[cell], axis=1)
        if cell == "lstm":
            entry, forget, fresh, out = (a + b for a, b in zip(of_input, of_state, strict=True))
            memory = sigmoid(forget) * memory + sigmoid(entry) * np.tanh(fresh)
            state = sigmoid(out) * np.tanh(memory)
        else:
            reset, update = (sigmoid(a + b) for a, b in zip(of_input[:2], of_state[:2], strict=True))
            state = (1 - update) * np.tanh(of_input[2] + reset * of_state[2]) + update * state
        states.append(state)
    return np.array(states), memory


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("dims", [(STEPS, BATCH), (None, None)])
@pytest.mark.parametrize("cell", GATES)
def test_a_recurrent_layer_computes_what_pytorch_defines(cell, dims, begins):
    draw = np.random.default_rng(3).standard_normal
    x, rows = draw((STEPS, BATCH, INPUTS), np.float32), GATES[cell] * UNITS
    weights, recurrence = draw((rows, INPUTS), np.float32) / 3, draw((rows, UNITS), np.float32) / 4
    biases, first = draw((2, rows), np.float32), draw((2, BATCH, UNITS), np.float32) * begins
    g = og.Graph()
    arguments = [g.input("x", og.f32, (*dims, INPUTS)), *map(g.constant, (weights, recurrence))]
    inputs, options = {"x": x}, {}
    if begins:
        names = ("state", "cell") if cell == "lstm" else ("state",)
        options = {name: g.input(name, og.f32, (dims[1], UNITS)) for name in names}
        inputs |= dict(zip(names, first, strict=False))
    made = getattr(g, cell)  # arrays become constants
    layer = made(*arguments, *([biases.sum(0)] if cell == "lstm" else biases), **options)
    for name, tensor in layer._asdict().items():
        if tensor is not None:
            g.output(name, tensor)
    results = g.compile()(**inputs)
    states, memory = expected(cell, x, weights, recurrence, biases.astype(np.float64), *first.astype(np.float64))
    wanted = [states, states[-1], memory][: 2 + (cell == "lstm")]
    assert len(results) == len(wanted)
    for result, right in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-5)


def test_a_recurrent_layer_without_biases_has_gradients():
    g = og.Graph()
    x = g.input("x", og.f32, (STEPS, BATCH, INPUTS))
    draw = np.random.default_rng(4).standard_normal
    weights = g.variable("w", draw((4 * UNITS, INPUTS), np.float32) / 3)
    recurrence = g.variable("r", draw((4 * UNITS, UNITS), np.float32) / 4)
    last = og.training.lstm(g, x, weights, recurrence).last
    target = g.input("target", og.f32, (BATCH, UNITS))
    loss = g.output("loss", og.training.mean_squared_error(g, last, target))
    og.training.Adam(1e-2).minimize(g, loss, [weights, recurrence])
    step, values = g.compile(), draw((STEPS, BATCH, INPUTS), np.float32)
    losses = [float(step(x=values, target=np.full((BATCH, UNITS), 0.3, np.float32))) for _ in range(30)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("weights", "recurrence", "message"),
    [
        ((20, 6), (20, 4), r"lstm: weights: shape \[20, 6\]; expected \[16, 6\]"),
        ((20, 6), (15, 5), r"lstm: recurrence: shape \[15, 5\]; expected \[20, 5\]"),
        ((20, 7), (20, 5), r"lstm: weights: shape \[20, 7\]; expected \[20, 6\]"),
        (None, (20, 5), "lstm: weights: shape of unknown rank; expected known dims"),
        ((20, 6), (20, None), r"lstm: recurrence: shape \[20, \?\]; expected known dims"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, recurrence, message):
    g = og.Graph()
    x = g.input("x", og.f32, (STEPS, BATCH, INPUTS))
    given = [g.input(name, og.f32, shape) for name, shape in (("w", weights), ("r", recurrence))]
    with pytest.raises(og.ArgumentError, match=message):
        og.training.lstm(g, x, *given)
    assert not g.ops


def test_unknown_inputs_are_refused():
    g = og.Graph()
    given = [g.constant(np.ones((20, columns), np.float32)) for columns in (6, 5)]
    with pytest.raises(og.ArgumentError, match="x: shape of unknown rank; expected a known number of inputs"):
        og.training.lstm(g, g.input("x", og.f32), *given)
