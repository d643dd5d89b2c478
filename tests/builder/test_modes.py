"""Graphs for training of graphs for inference, and the reverse."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 5, 5, 3)).astype(np.float32)
LABELS = np.repeat([0, 1], 8).astype(np.int32)
X[:8] += 0.5
STARTS = {"gamma": 1, "beta": 0, "mean": 0, "variance": 1}


def classifier():
    """Convolution, BatchNorm, ReLU, mean and product, whose weights are constants."""
    rng, g = np.random.default_rng(1), og.Graph()
    x = g.input("x", og.f32, (None, 5, 5, 3))
    weights = g.constant(rng.normal(0, 0.3, (3, 3, 3, 8)).astype(np.float32), name="kernel")
    y = g.convolution(x, weights, pads_begin=1, pads_end=1)
    norm = [g.constant(np.full(8, start, np.float32), name=f"norm.{name}") for name, start in STARTS.items()]
    y = g.relu(g.batch_norm_inference(y, *norm, epsilon=1e-5, name="norm"))
    scale = g.constant(rng.normal(0, 0.3, (8, 2)).astype(np.float32), name="head")
    g.output("y", g.matmul(g.reduce_mean(y, axes=[1, 2]), scale) * 2.0)
    return g


def trained(graph, wrt, steps=30):
    labels = graph.input("labels", og.s32, (None,))
    loss = graph.output("loss", og.training.cross_entropy(graph, graph.outputs["y"], labels))
    og.training.Adam(0.02).minimize(graph, loss, wrt)
    step = graph.compile()
    return step, [float(step(x=X, labels=LABELS).loss) for _ in range(steps)]


@pytest.mark.library
def test_constants_become_variables_of_their_names():
    graph = classifier()
    new = graph.with_variables()
    assert [*new.variables] == ["kernel", "norm.gamma", "norm.beta", "head"]
    assert {*new.constants} == {"norm.mean", "norm.variance", *(n for n, a in graph.constants.items() if not a.shape)}
    assert not graph.variables
    np.testing.assert_allclose(new.compile()(x=X), graph.compile()(x=X), rtol=1e-5, atol=1e-6)


def test_numbers_without_a_name_stay_constants():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 1))
    scale, slope = g.constant(np.float32([8])), g.constant(np.float32([2]), name="slope")
    shift = g.constant(np.float32(1), name="shift")  # without axes
    g.output("y", g.add(g.multiply(g.divide(g.add(x, shift), scale), slope), np.zeros((4, 1), np.float32)))
    assert [*g.with_variables().variables] == ["slope", next(n for n, a in g.constants.items() if a.size == 4)]
    assert [*g.with_variables([scale.name]).variables] == [scale.name]


@pytest.mark.parametrize(
    ("names", "expected"), [(["head"], ["head"]), (["norm.*"], [f"norm.{n}" for n in STARTS]), (["kerne?"], ["kernel"])]
)
def test_names_and_patterns_choose_constants(names, expected):
    assert [*classifier().with_variables(names).variables] == expected


@pytest.mark.library
def test_a_model_is_trained_further_and_fixed_again():
    graph = classifier()
    new = graph.with_variables()
    step, losses = trained(new, [*new.variables.values()])
    assert losses[-1] < 0.3 * losses[0]
    fixed = new.for_inference(step.variables, outputs=["y"])
    assert [*fixed.inputs] == ["x"]
    assert not fixed.variables
    assert len(fixed.ops) == len(graph.ops)
    scores = fixed.compile()(x=X)
    assert (scores.argmax(axis=1) == LABELS).all()
    np.testing.assert_array_equal(fixed.constants["head"], step.variables["head"])
    first = new.for_inference(outputs=["y"])
    np.testing.assert_array_equal(first.compile()(x=X), graph.compile()(x=X))


@pytest.mark.library
def test_batch_norm_takes_statistics_of_the_batch_in_training():
    new = classifier().with_variables(["head"], batch_norm=0.75)
    assert {*new.variables} == {"head", "norm.mean", "norm.variance"}
    model = new.compile()
    model(x=X)
    convolved = reference.run(_convolution(), {"x": X})["y"].astype(np.float64)
    np.testing.assert_allclose(model.variables["norm.mean"], 0.25 * convolved.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(model.variables["norm.variance"], 0.75 + 0.25 * convolved.var((0, 1, 2)), atol=1e-6)
    fixed = new.for_inference(model.variables)
    (norm,) = [op for op in fixed.ops if op.kind.startswith("BatchNorm")]
    assert (norm.kind, norm.name) == ("BatchNormInference", "norm")
    np.testing.assert_array_equal(fixed.constants["norm.mean"], model.variables["norm.mean"])


def _convolution():
    """The first op of the classifier alone."""
    g = og.Graph()
    x = g.input("x", og.f32, (None, 5, 5, 3))
    g.output("y", g.convolution(x, classifier().constants["kernel"], pads_begin=1, pads_end=1))
    return g


@pytest.mark.library
def test_dropout_passes_its_source_on_in_inference():
    g = og.Graph()
    g.output("y", og.training.dropout(g, g.input("x", og.f32, (4, 4)), 0.5))
    fixed = g.for_inference()
    assert not fixed.ops
    x = np.ones((4, 4), np.float32)
    np.testing.assert_array_equal(fixed.compile()(x=x), x)


@pytest.mark.parametrize("kinds", ["db", "bd", "bb", "dd", "dbdb"])
def test_layers_of_training_that_follow_each_other_are_fixed(kinds):
    g = og.Graph()
    y = g.input("x", og.f32, (16, 3))
    for index, kind in enumerate(kinds):
        made = [g.variable(f"{name}{index}", np.full(3, start, np.float32)) for name, start in STARTS.items()]
        y = og.training.dropout(g, y, 0.5) if kind == "d" else og.training.batch_norm(g, y, *made)
    g.output("y", y)
    assert [op.kind for op in g.for_inference().ops] == ["BatchNormInference"] * kinds.count("b")


def test_what_an_output_needs_of_training_is_refused():
    g = og.Graph()
    made = [g.variable(name, np.full(3, start, np.float32)) for name, start in STARTS.items()]
    gamma, beta, mean, variance = made
    found = g.batch_norm_forward_training(g.input("x", og.f32, (2, 3)), mean, variance, gamma, beta, epsilon=1e-5)
    g.output("y", found.dst)
    g.output("spread", found.batch_variance)
    with pytest.raises(og.ArgumentError, match=r"exists in training alone.*outputs="):
        g.for_inference()
    assert [*g.for_inference(outputs=["y"]).outputs] == ["y"]


def test_batch_norm_of_a_graph_without_one_is_refused():
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 3)), np.ones((3, 3), np.float32)))
    with pytest.raises(og.ArgumentError, match=r"the graph has no BatchNormInference; .* unless optimize=False"):
        g.with_variables(batch_norm=0.9)


def shared_norms():
    """Two layers in the form that an exporter gives them which writes equal constants once."""
    g = og.Graph()
    y = g.input("x", og.f32, (16, 5, 5, 3))
    ones, zeros = (g.constant(np.full(3, start, np.float32), name=f"{start}s") for start in (1, 0))
    for name in ("first", "second"):
        y = g.batch_norm_inference(y, ones, zeros, zeros, ones, epsilon=1e-5, name=name)
    g.output("y", y)
    return g


@pytest.mark.library
def test_a_weight_that_is_a_statistic_too_is_trained():
    graph = shared_norms()
    new = graph.with_variables()
    assert [*new.variables] == ["1s", "0s"]
    assert [*new.constants] == ["first.mean", "first.variance", "second.mean", "second.variance"]
    assert [*graph.constants] == ["1s", "0s"]
    (slope,) = new.gradient(new.output("sum", new.reduce_sum(new.outputs["y"], axes=[0, 1, 2, 3])), "1s")
    new.output("slope", slope)
    normed = X / np.sqrt(1 + 1e-5)
    expected = 2 * normed.sum((0, 1, 2)) / np.sqrt(1 + 1e-5)
    np.testing.assert_allclose(new.compile()(x=X).slope, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.library
def test_each_layer_keeps_running_statistics_of_its_own():
    new = shared_norms().with_variables(batch_norm=0.5)
    statistics = ["first.mean", "first.variance", "second.mean", "second.variance"]
    assert [*new.variables] == ["1s", "0s", *statistics]
    model = new.compile()
    model(x=X)
    np.testing.assert_array_equal(model.variables["1s"], 1)
    np.testing.assert_array_equal(model.variables["0s"], 0)
    mean, variance = (model.variables[name] for name in statistics[:2])
    np.testing.assert_allclose(mean, X.mean((0, 1, 2)) / 2, atol=1e-6)
    np.testing.assert_allclose(variance, (1 + X.var((0, 1, 2))) / 2, atol=1e-5)
    np.testing.assert_allclose(model.variables["second.mean"], 0, atol=1e-6)


def test_variables_that_layers_share_as_statistics_are_refused():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    norm = [g.variable(name, np.full(3, start, np.float32)) for name, start in STARTS.items()]
    for _ in range(2):
        x = g.batch_norm_inference(x, *norm, epsilon=1e-5)
    g.output("y", x)
    with pytest.raises(og.ArgumentError, match="variables of another op too"):
        g.with_variables([], batch_norm=0.9)
    assert [*g.variables] == [*STARTS]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.with_variables(["hed"]), r"names\[0\]: 'hed'; the constants are kernel"),
        (lambda g: g.with_variables("head"), "expected a list of names"),
        (lambda g: g.with_variables([3]), r"names\[0\]: 3; the constants are"),
        (lambda g: g.with_variables(batch_norm=2.0), "with_variables: batch_norm: 2.0"),
        (lambda g: g.for_inference({"head": np.zeros(1)}), "'head' is no variable; the variables are none"),
        (lambda g: g.for_inference(3), "expected a dictionary of arrays"),
        (lambda g: g.with_variables().for_inference({"head": np.zeros((8, 2))}), "float64.*expected f32"),
        (lambda g: g.with_variables().for_inference({"head": np.zeros(8, np.float32)}), r"float32 \[8\]"),
        (lambda g: g.for_inference(outputs=["z"]), "no tensor and no op of this name"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(og.ArgumentError, match=message):
        call(classifier())


def test_a_graph_of_variables_alone_has_nothing_to_infer():
    g = og.Graph()
    v = g.variable("v", np.ones(2, np.float32))
    g.assign(v, v * 2.0)
    with pytest.raises(og.ArgumentError, match="expected an output to compute"):
        g.for_inference()
