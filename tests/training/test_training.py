"""Optimizers against loops of numpy in float64 and against PyTorch; layers that remember; runs that repeat exactly."""

import math

import numpy as np
import pytest

import onegraph as og
from onegraph import reference

SHAPES = {"w": (16, 8), "b": (8,)}
STEPS = 20
# Each optimizer, with its name and options in PyTorch.
OPTIMIZERS = {
    "sgd": (og.training.SGD, {"lr": 0.1}),
    "momentum": (og.training.SGD, {"lr": 0.1, "momentum": 0.9}),
    "decayed": (og.training.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": (og.training.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    "adam": (og.training.Adam, {"lr": 1e-3}),
    "adam decayed": (og.training.Adam, {"lr": 1e-2, "betas": (0.8, 0.99), "weight_decay": 0.1, "epsilon": 1e-6}),
    "adam without memory": (og.training.Adam, {"lr": 1e-2, "betas": (0.0, 0.0)}),
    "adamw": (og.training.AdamW, {"lr": 1e-2, "weight_decay": 0.1}),
}


def starts():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def slopes():
    """Gradients of every step, some of them small."""
    rng = np.random.default_rng(1)
    return [
        {name: (rng.normal(size=shape) * 10.0 ** -(step % 4)).astype(np.float32) for name, shape in SHAPES.items()}
        for step in range(STEPS)
    ]


def compiled(optimizer):
    """A model whose inputs are gradients, and whose calls are steps."""
    g = og.Graph()
    variables = [g.variable(name, array) for name, array in starts().items()]
    gradients = [g.input(f"d_{name}", og.f32, shape) for name, shape in SHAPES.items()]
    optimizer.update(g, variables, gradients)
    return g.compile()


def sgd(p, d, state, _step, lr, momentum=0.0, weight_decay=0.0, nesterov=False):
    d = d + weight_decay * p
    state["v"] = momentum * state.get("v", 0) + d
    return p - lr * (d + momentum * state["v"] if nesterov else state["v"])


def adam(p, d, state, step, lr, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.0):
    d = d + weight_decay * p
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * d
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * d * d
    root = np.sqrt(state["v"] / (1 - betas[1] ** step)) + epsilon
    return p - lr * state["m"] / (1 - betas[0] ** step) / root


def adamw(p, d, state, step, lr, weight_decay):
    return adam(p * (1 - lr * weight_decay), d, state, step, lr)


LOOPS = {og.training.SGD: sgd, og.training.Adam: adam, og.training.AdamW: adamw}


def assert_close(found, expected):
    for name in SHAPES:
        assert np.abs(found[name] - expected[name]).max() <= 1e-6 * np.abs(expected[name]).max(), name


@pytest.mark.library
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_equals_its_formula(name):
    kind, options = OPTIMIZERS[name]
    model = compiled(kind(**options))
    expected = {name: array.astype(np.float64) for name, array in starts().items()}
    state = {name: {} for name in SHAPES}
    for step, gradients in enumerate(slopes(), 1):
        model(**{f"d_{name}": array for name, array in gradients.items()})
        for name, array in gradients.items():
            d = array.astype(np.float64)
            expected[name] = LOOPS[kind](expected[name], d, state[name], step, **options)
        assert_close(model.variables, expected)


@pytest.mark.library
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_equals_torch(name):
    torch = pytest.importorskip("torch")
    kind, options = OPTIMIZERS[name]
    model = compiled(kind(**options))
    expected = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in starts().items()}
    options = {"eps" if name == "epsilon" else name: value for name, value in options.items()}
    other = getattr(torch.optim, kind.__name__)(expected.values(), **options)
    for gradients in slopes():
        model(**{f"d_{name}": array for name, array in gradients.items()})
        for name, array in gradients.items():
            expected[name].grad = torch.tensor(array)
        other.step()
    assert_close(model.variables, {name: one.detach().numpy() for name, one in expected.items()})


@pytest.mark.library
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.999, 0.999999])
def test_bias_correction_is_exact_for_all_steps(beta):
    from onegraph.training.optimizers import _one_minus_power

    g = og.Graph()
    g.output("y", _one_minus_power(g, beta, g.input("count", og.f32, (1,))))
    model = g.compile()
    for count in (1, 2, 3, 10, 100, 1000, 10**5, 10**7):
        expected = -math.expm1(count * math.log(beta)) if beta else 1.0
        assert model(np.float32([count]))[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.library
@pytest.mark.parametrize("shape", [(), (1,)])
def test_learning_rate_may_be_an_input(shape):
    g = og.Graph()
    w = g.variable("w", np.zeros(3, np.float32))
    rate = g.input("rate", og.f32, shape)
    og.training.SGD(rate).update(g, [w], [g.input("d", og.f32, (3,))])
    model, total = g.compile(), 0.0
    for step in range(4):
        value = 0.5**step
        model(rate=np.full(shape, value, np.float32), d=np.ones(3, np.float32))
        total -= value
        assert model.variables["w"].tolist() == [total] * 3


@pytest.mark.library
def test_minimize_follows_the_slope():
    g = og.Graph()
    x, y = g.input("x", og.f32, (32, 4)), g.input("y", og.f32, (32, 1))
    w, b = g.variable("w", np.zeros((4, 1), np.float32)), g.variable("b", np.zeros(1, np.float32))
    loss = g.output("loss", og.training.mean_squared_error(g, g.matmul(x, w, b), y))
    gradients = og.training.Adam(0.1).minimize(g, loss, [w, b])
    assert [one.shape for one in gradients] == [(4, 1), (1,)]
    model, rng = g.compile(), np.random.default_rng(0)
    true = np.float32([[1], [-2], [3], [0.5]])
    for _ in range(300):
        inputs = rng.normal(size=(32, 4)).astype(np.float32)
        model(x=inputs, y=inputs @ true + 0.25)
    np.testing.assert_allclose(model.variables["w"], true, atol=1e-3)
    np.testing.assert_allclose(model.variables["b"], [0.25], atol=1e-3)


def test_minimize_takes_what_the_loss_depends_on():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 2))
    made = {name: g.variable(name, np.ones(2, np.float32)) for name in ("w", "beta", "mean", "variance", "other")}
    normal = og.training.batch_norm(g, x * made["w"], made["w"], made["beta"], made["mean"], made["variance"])
    loss = g.output("loss", g.reduce_mean(normal, axes=[0, 1], keep_dims=False))
    gradients = og.training.SGD(0.1).minimize(g, loss)
    assert len(gradients) == 2
    assert {*g.assignments} == {"w", "beta", "mean", "variance"}
    with pytest.raises(og.ArgumentError, match="minimize: the loss depends on no f32 variable that is not assigned"):
        og.training.SGD(0.1, name="again").minimize(g, loss)


@pytest.mark.library
def test_two_optimizers_share_a_graph():
    g = og.Graph()
    w, b = (g.variable(name, np.ones(2, np.float32)) for name in "wb")
    d = g.input("d", og.f32, (2,))
    og.training.AdamW(0.1).update(g, [w], [d])
    og.training.AdamW(0.1, weight_decay=0.0, name="plain").update(g, [b], [d])
    model = g.compile()
    model(np.ones(2, np.float32))
    np.testing.assert_allclose(model.variables["w"], [0.899, 0.899], rtol=1e-6)
    np.testing.assert_allclose(model.variables["b"], [0.9, 0.9], rtol=1e-6)
    assert {"adamw/step", "plain/step", "w/adamw/mean", "b/plain/square"} <= set(model.variables)


@pytest.mark.library
@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_clipping_bounds_the_norm_of_all_gradients(scale):
    arrays = [scale * array for array in starts().values()]
    g = og.Graph()
    given = [g.input(name, og.f32, shape) for name, shape in SHAPES.items()]
    g.output("norm", og.training.global_norm(g, given))
    for number, one in enumerate(og.training.clip_by_norm(g, given, 1.5)):
        g.output(f"clipped{number}", one)
    norm, *clipped = g.compile()(*arrays)
    exact = math.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays))
    assert norm == pytest.approx(exact, rel=1e-6)
    for one, array in zip(clipped, arrays, strict=True):
        np.testing.assert_allclose(one, array * min(1, 1.5 / (exact + 1e-6)), rtol=2e-6)


@pytest.mark.library
def test_clipping_equals_torch():
    torch = pytest.importorskip("torch")
    g = og.Graph()
    given = [g.input(name, og.f32, shape) for name, shape in SHAPES.items()]
    for number, one in enumerate(og.training.clip_by_norm(g, given, 1.5)):
        g.output(f"clipped{number}", one)
    expected = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES.values()]
    for one, array in zip(expected, starts().values(), strict=True):
        one.grad = torch.tensor(array)
    torch.nn.utils.clip_grad_norm_(expected, 1.5)
    for found, one in zip(g.compile()(*starts().values()), expected, strict=True):
        np.testing.assert_allclose(found, one.grad.numpy(), rtol=2e-6)


@pytest.mark.library
@pytest.mark.parametrize("dtype", [og.bf16, og.f16])
def test_master_weights_keep_small_updates(dtype):
    g = og.Graph()
    x = g.input("x", og.f32, (8, 4))
    w = g.variable("w", np.ones((4, 2), np.float32))
    low_x, low_w = og.training.low_precision(g, [x, w], dtype)
    product = g.matmul(low_x, low_w)
    (gradient,) = og.training.SGD(1e-5).minimize(g, g.reduce_sum(g.type_cast(product, dtype=og.f32), axes=[0, 1]), [w])
    assert (product.dtype, gradient.dtype) == (dtype, og.f32)
    model = g.compile()
    for _ in range(10):  # one update is less than the distance of 1 from the next number of the data type
        model(np.ones((8, 4), np.float32))
    np.testing.assert_allclose(model.variables["w"], np.full((4, 2), 1 - 10 * 8e-5), rtol=1e-6)


@pytest.mark.library
def test_bf16_learns_like_f32():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(64, 16)).astype(np.float32)
    labels = data[:, :4].argmax(axis=1).astype(np.int32)
    last = {}
    for low in (False, True):
        g, start = og.Graph(), np.random.default_rng(1)
        x, y = g.input("x", og.f32, data.shape), g.input("labels", og.s32, labels.shape)
        w1 = g.variable("w1", start.normal(0, 0.3, (16, 32)).astype(np.float32))
        w2 = g.variable("w2", start.normal(0, 0.3, (32, 4)).astype(np.float32))
        inner = og.training.low_precision(g, [x, w1, w2]) if low else (x, w1, w2)
        logits = g.matmul(g.relu(g.matmul(*inner[:2])), inner[2])
        loss = g.output("loss", og.training.cross_entropy(g, logits, y))
        og.training.AdamW(1e-2).minimize(g, loss, [w1, w2])
        model = g.compile()
        losses = [float(model(data, labels)) for _ in range(40)]
        assert losses[-1] < losses[0] / 8
        last[low] = losses[-1]
    assert last[True] == pytest.approx(last[False], rel=0.1)


@pytest.mark.library
def test_batch_norm_assigns_running_statistics():
    rng, count = np.random.default_rng(0), 4
    g = og.Graph()
    x = g.input("x", og.f32, (5, 3, 3, count))
    made = {
        name: g.variable(name, np.full(count, start, np.float32))
        for name, start in {"gamma": 2, "beta": 1, "mean": 0, "variance": 1}.items()
    }
    g.output("y", og.training.batch_norm(g, x, *made.values(), momentum=0.75, epsilon=1e-3))
    model, mean, variance = g.compile(), np.zeros(count), np.ones(count)
    for _ in range(3):
        array = rng.normal(3, 2, (5, 3, 3, count)).astype(np.float32)
        y = model(array)
        of_batch = array.astype(np.float64).reshape(-1, count)
        mean = 0.75 * mean + 0.25 * of_batch.mean(0)
        variance = 0.75 * variance + 0.25 * of_batch.var(0)
        normalized = (array - of_batch.mean(0)) / np.sqrt(of_batch.var(0) + 1e-3)
        np.testing.assert_allclose(y, 2 * normalized + 1, atol=1e-4)
    np.testing.assert_allclose(model.variables["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(model.variables["variance"], variance, rtol=1e-5)


def dropping():
    g = og.Graph()
    x = g.input("x", og.f32, (64, 64))
    y = g.output("y", og.training.dropout(g, x, 0.25, seed=7))
    g.output("gradient", g.gradient(y, x)[0])
    return g.compile()


@pytest.mark.library
def test_each_dropout_has_a_name_and_numbers_of_its_own():
    g = og.Graph()
    x = g.input("x", og.f32, (1000,))
    for index in range(3):
        g.output(f"y{index}", og.training.dropout(g, x, 0.5))
    assert [*g.variables] == ["dropout/offset", "dropout_1/offset", "dropout_2/offset"]
    first, second, third = (array == 0 for array in g.compile()(np.ones(1000, np.float32)))
    assert 300 < (first != second).sum() < 700
    assert 300 < (second != third).sum() < 700


@pytest.mark.library
def test_dropout_drops_others_in_every_call():
    model, ones = dropping(), np.ones((64, 64), np.float32)
    first, second = model(ones), model(ones)
    for found in (first, second):
        assert set(np.unique(found.y)) == {0, np.float32(1 / 0.75)}
        assert 0.2 < (found.y == 0).mean() < 0.3
        assert np.array_equal(found.y, found.gradient)
    assert 0.3 < (first.y != second.y).mean() < 0.45  # 2 * 0.25 * 0.75
    again = dropping()
    assert np.array_equal(again(ones).y, first.y)
    assert np.array_equal(again(ones).y, second.y)


def trained(threads):
    """The variables after ten steps of a network with convolutions, a BatchNorm, a Dropout and clipped gradients."""
    g, rng = og.Graph(), np.random.default_rng(0)
    x, labels = g.input("x", og.f32, (8, 6, 6, 2)), g.input("labels", og.s32, (8,))
    w = g.variable("w", rng.normal(size=(3, 3, 2, 16)).astype(np.float32))
    norm = [
        g.variable(name, np.full(16, name in ("gamma", "variance"), np.float32))
        for name in ("gamma", "beta", "mean", "variance")
    ]
    last = g.variable("last", rng.normal(size=(16, 5)).astype(np.float32))
    y = g.convolution(x, w, strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1])
    y = g.reduce_mean(g.relu(og.training.batch_norm(g, y, *norm)), axes=[1, 2])
    loss = og.training.cross_entropy(g, g.matmul(og.training.dropout(g, y, 0.1), last), labels)
    learned = [w, *norm[:2], last]
    gradients = og.training.clip_by_norm(g, g.gradient(g.output("loss", loss), learned), 1.0)
    og.training.AdamW(1e-2).update(g, learned, gradients)
    model, losses = g.compile(threads=threads), []
    for _ in range(10):
        inputs = rng.normal(size=(8, 6, 6, 2)).astype(np.float32)
        losses.append(float(model(inputs, np.arange(8, dtype=np.int32) % 5)))
    return losses, {name: array.tobytes() for name, array in model.variables.items()}


@pytest.mark.library
@pytest.mark.parametrize("threads", [1, 2])
def test_training_repeats_bit_by_bit(threads):
    first, second = trained(threads), trained(threads)
    assert first == second
    assert len(set(first[0])) == 10
    assert len(first[1]) == 16


@pytest.mark.library
@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "adamw"])
def test_update_of_a_variable_is_one_kernel(name):
    kind, options = OPTIMIZERS[name]
    report = compiled(kind(**options)).report()
    assert {part.executor for part in report.partitions} <= {"oneDNN", "kernel", "view", "constant"}
    for shape in SHAPES.values():
        made = [part for part in report.partitions if any(tensor.shape == shape for tensor in part.results)]
        assert len(made) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: og.training.SGD(-1), "SGD: lr: -1; expected a number, 0 to"),
        (lambda: og.training.SGD("fast"), "SGD: lr: 'fast'; expected a number, or a tensor of the graph"),
        (lambda: og.training.SGD(True), "SGD: lr: True; expected"),
        (lambda: og.training.SGD(1, momentum=2), "SGD: momentum: 2; expected a number, 0 to 1"),
        (lambda: og.training.SGD(1, nesterov=True), "SGD: momentum: 0; expected a number above 0, because nesterov"),
        (lambda: og.training.SGD(1, nesterov=1), "SGD: nesterov: 1; expected True or False"),
        (lambda: og.training.Adam(betas=0.9), "Adam: betas: 0.9; expected two numbers"),
        (lambda: og.training.Adam(betas=(0.9, 1)), "Adam: betas[1]: 1; expected a number, 0 to"),
        (lambda: og.training.AdamW(epsilon=-1), "AdamW: epsilon: -1; expected a number"),
        (lambda: og.training.AdamW(weight_decay=None), "AdamW: weight_decay: None; expected a number"),
        (lambda: og.training.Adam(name=3), "Adam: name: 3; expected a string"),
    ],
)
def test_optimizers_name_the_wrong_argument(make, message):
    with pytest.raises(og.ArgumentError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_updates_name_the_wrong_tensor():
    g = og.Graph()
    w, low = g.variable("w", np.zeros(3, np.float32)), g.variable("low", np.zeros(3, og.bf16.numpy))
    shapes = {"d": (3,), "wide": (4,), "rate": (2,), "any": None}
    d, wide, rate, any_rank = (g.input(name, og.f32, shape) for name, shape in shapes.items())
    adam = og.training.Adam()
    for call, message in {
        (lambda: adam.update(g, w, d)): "update: variables: LogicalTensor",
        (lambda: adam.update(g, [], [])): "update: variables: []; expected a list of tensors",
        (lambda: adam.update(g, [w], [d, d])): "update: gradients: 2; expected 1, one for each variable",
        (lambda: adam.update(g, [w], [wide])): "update: gradients[0]: shape [4]; expected [3], as 'w' has",
        (lambda: adam.update(g, [d], [d])): "update: variables: 'd' is not a variable; the variables are w, low",
        (lambda: adam.update(g, [w, w], [d, d])): "update: variables[1]: 'w' is assigned already",
        (lambda: adam.update(g, [low], [d])): "update: variables[0]: 'low' is bf16; expected f32",
        (lambda: og.training.SGD(rate).update(g, [w], [d])): "SGD: lr: shape [2]; expected [], one number",
        (lambda: og.training.clip_by_norm(g, [d], 0)): "clip_by_norm: max_norm: 0; expected a number",
        (lambda: og.training.clip_by_norm(g, [d, any_rank], 1)): "global_norm: tensors[1]: 'any' has an unknown rank",
        (lambda: og.training.low_precision(g, [d], og.s8)): "low_precision: dtype: 's8'; expected one of 'bf16', 'f16'",
        (lambda: og.training.dropout(g, d, 2)): "dropout: probability: 2; expected a number, 0 to 1",
        (lambda: og.training.dropout(g, d, 1, seed=-1)): f"dropout: seed: -1; expected an integer, 0 to {2**63 - 1}",
        (
            lambda: og.training.dropout(g, d, 1, seed=2**63)
        ): f"dropout: seed: {2**63}; expected an integer, 0 to {2**63 - 1}",
    }.items():
        before = g.ops
        with pytest.raises(og.ArgumentError) as caught:
            call()
        assert str(caught.value).startswith(message)
        assert g.ops == before


def test_second_update_needs_another_name():
    g = og.Graph()
    w, b = (g.variable(name, np.zeros(3, np.float32)) for name in "wb")
    d = g.input("d", og.f32, (3,))
    og.training.Adam().update(g, [w], [d])
    before = g.ops, [*g.variables]
    for variable, message in ((w, "'w' is assigned already"), (b, "'adam/step' is taken by another optimizer")):
        with pytest.raises(og.ArgumentError, match=message):
            og.training.Adam().update(g, [variable], [d])
    assert (g.ops, [*g.variables]) == before


@pytest.mark.parametrize("wrong", ["mean", "variance"])
def test_statistics_are_two_variables(wrong):
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    given = {name: g.variable(name, np.ones(3, np.float32)) for name in ("gamma", "beta", "mean", "variance")}
    other = g.input("other", og.f32, (3,))
    for value, message in ((other, "'other' is not a variable"), (np.ones(3), f"batch_norm: {wrong}: ")):
        with pytest.raises(og.ArgumentError, match=message):
            og.training.batch_norm(g, x, **{**given, wrong: value})
    with pytest.raises(og.ArgumentError, match="'mean' is assigned already"):
        og.training.batch_norm(g, x, given["gamma"], given["beta"], given["mean"], given["mean"])
    assert g.ops == ()


WINDOW = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
OF_REFERENCE = {"SGD": og.training.SGD(0.1, momentum=0.9), "AdamW": og.training.AdamW(0.01)}


@pytest.mark.library
@pytest.mark.parametrize("edition", ["legacy-1", "onednn-3.13"])
@pytest.mark.parametrize("optimizer", OF_REFERENCE)
def test_a_step_gives_every_variable_the_value_of_the_reference(optimizer, edition):
    g, rng = og.Graph(), np.random.default_rng(0)
    x = g.input("x", og.f32, (2, 8, 8, 3))
    shapes = {"conv": (4, 4, 3, 5), "deconv": (4, 4, 5, 3) if edition == "legacy-1" else (4, 4, 3, 5)}
    w = {name: g.variable(name, rng.normal(0, 0.3, shape).astype(np.float32)) for name, shape in shapes.items()}
    ones = [g.constant(np.ones(5, np.float32)) for _ in range(4)]
    normal = g.batch_norm_forward_training(g.convolution(x, w["conv"], **WINDOW), *ones, epsilon=1e-3).dst
    restored = g.op("ConvTranspose", [g.relu(normal), w["deconv"]], WINDOW, edition=edition)
    loss = g.output("loss", og.training.mean_squared_error(g, restored, x))
    OF_REFERENCE[optimizer].minimize(g, loss, [*w.values()])
    model, step = g.compile(), g._as_step()
    for _ in range(3):
        before, given = dict(model.variables), rng.normal(size=(2, 8, 8, 3)).astype(np.float32)
        model(given)
        wanted = reference.run(step, {"x": given, **before})
        for name, value in model.variables.items():
            np.testing.assert_allclose(value, wanted[g._next[name]], rtol=2e-3, atol=2e-5, err_msg=name)


def test_optimizers_take_names():
    def trained(of):
        g = og.Graph()
        w, other = (g.variable(name, np.ones((2, 2), np.float32)) for name in ("w", "other"))
        tensor = g.matmul(g.matmul(g.input("x", og.f32, (2, 2)), w), other)
        loss = g.output("loss", og.training.mean_squared_error(g, tensor, "x"))
        og.training.SGD(0.5).minimize(g, of(loss, "loss"), [of(w, "w")])
        return g.to_json()

    assert trained(lambda tensor, name: name) == trained(lambda tensor, name: tensor)
    g = og.Graph()
    loss = g.output("loss", g.reduce_sum(g.variable("w", np.ones(2, np.float32)), axes=[0]))
    with pytest.raises(og.ArgumentError, match=r"minimize: variables\[0\]: 'v'"):
        og.training.SGD(0.5).minimize(g, loss, ["v"])
