"""Graphs changed by replace, remove and rewrite, against numpy and against graphs that are built anew."""

import numpy as np
import pytest

import onegraph as og

X = np.float32([[1, -2, 3], [-1, -2, -3]])
W = np.float32([[1, 0, 2, -1], [0, 1, -1, 1], [1, 1, 0, 2]])


def relu(array):
    return np.maximum(array, 0)


def sigmoid(array):
    return 1 / (1 + np.exp(-array.astype(np.float64)))


def chain():
    """x @ w, then a ReLU, then a Tanh of it and an Add of both."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    product = g.matmul(x, g.constant(W, name="w"), name="product")
    bent = g.relu(product, name="bent")
    g.output("y", g.add(bent, g.tanh(bent, name="last"), name="sum"))
    return g


def named(g, name):
    return next(op for op in g.ops if op.name == name)


def run(g, **more):
    (found,) = og.reference.run(g, {"x": X, **more}).values()
    return found


def records(g):
    return [*map(id, g.ops)], [*map(id, g.outputs.values())], [*g.constants], repr(g)


def test_replaced_result_reaches_consumers_and_outputs():
    g = chain()
    g.output("bent", named(g, "bent").outputs[0])
    g.replace(named(g, "bent"), g.abs(named(g, "product").outputs[0], name="abs"))
    found = og.reference.run(g, {"x": X})
    np.testing.assert_array_equal(found["bent"], np.abs(X @ W))
    np.testing.assert_allclose(found["y"], np.abs(X @ W) + np.tanh(np.abs(X @ W)), rtol=1e-6)
    assert [op.name for op in g.ops] == ["product", "abs", "last", "sum"]


def test_replacement_that_reads_the_result_is_inserted():
    g = chain()
    g.replace("product", named(g, "product").outputs[0] * 2)
    np.testing.assert_allclose(run(g), relu(2 * X @ W) + np.tanh(relu(2 * X @ W)), rtol=1e-6)
    assert [op.kind for op in g.ops] == ["MatMul", "Multiply", "ReLU", "Tanh", "Add"]


def test_only_chosen_consumers_read_the_new_tensor():
    g = chain()
    product = named(g, "product").outputs[0]
    g.replace("bent", product, consumers=["last"])
    np.testing.assert_allclose(run(g), relu(X @ W) + np.tanh(X @ W), rtol=1e-6)


def test_an_output_alone_becomes_the_new_tensor():
    g = chain()
    product = g.output("all", named(g, "product").outputs[0])
    g.output("product", product)  # the name of an op too, which makes it
    g.replace(product, g.square(product, name="squared"), consumers=["product"])
    found = og.reference.run(g, {"x": X})
    np.testing.assert_array_equal(found["product"], (X @ W) ** 2)
    np.testing.assert_array_equal(found["all"], X @ W)
    np.testing.assert_allclose(found["y"], relu(X @ W) + np.tanh(relu(X @ W)), rtol=1e-6)


def test_a_removed_output_leaves_with_what_it_alone_needed():
    g = chain()
    g.output("inner", g.square(g.abs(named(g, "product").outputs[0])))
    g.remove("inner")
    assert ([*g.outputs], [op.name for op in g.ops]) == (["y"], ["product", "bent", "last", "sum"])
    g.output("product", named(g, "product").outputs[0])
    g.remove("product")  # the output, as the op of this name cannot be joined
    g.remove("y")
    assert ([*g.outputs], g.ops, [*g.inputs], [*g.constants]) == ([], (), ["x"], [])
    assert g.output("y", g.inputs["x"]) is g.inputs["x"]  # the name is free again


def test_replaced_constant_leaves_the_graph():
    g = chain()
    g.replace(named(g, "product").inputs[1], W + 1)
    np.testing.assert_allclose(run(g), relu(X @ (W + 1)) + np.tanh(relu(X @ (W + 1))), rtol=1e-6)
    assert [*g.constants] == ["w"]
    np.testing.assert_array_equal(g.constants["w"], W + 1)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("x", lambda g: g.inputs["x"]),
        ("w", lambda g: named(g, "product").inputs[1]),
        ("y", lambda g: named(g, "sum").outputs[0]),
        ("bent.dst", lambda g: named(g, "bent").outputs[0]),
        ("bent", lambda g: named(g, "bent").outputs[0]),
    ],
)
def test_tensor_is_found_by_its_name(name, tensor):
    g = chain()
    assert g.tensor(name) is tensor(g)


def test_each_constant_is_found_by_its_name():
    g = og.Graph()
    for number in range(3):
        g.constant(np.float32(number), name="same")
    assert [g.tensor(name).value for name in g.constants] == [*g.constants.values()] == [0, 1, 2]


def test_tensor_is_replaced_by_its_name():
    g = chain()
    g.replace("w", W + 1)
    g.replace("x", 2 * g.tensor("x"))
    np.testing.assert_allclose(run(g), relu(2 * X @ (W + 1)) + np.tanh(relu(2 * X @ (W + 1))), rtol=1e-6)


def test_shapes_behind_another_head_are_inferred_again():
    g = chain()
    x = g.inputs["x"]
    g.replace("product", g.matmul(x, g.constant(W[:, :2], name="head")))
    assert g.outputs["y"].shape == (2, 2)
    assert {op.outputs[0].shape for op in g.ops} == {(2, 2)}
    assert [*g.constants] == ["head"]
    np.testing.assert_allclose(run(g), relu(X @ W[:, :2]) + np.tanh(relu(X @ W[:, :2])), rtol=1e-6)


def test_weights_and_bias_are_replaced_at_once():
    g = og.Graph()
    weights, bias = g.constant(W, name="w"), g.constant(np.zeros(W.shape[1], np.float32), name="b")
    g.output("y", g.matmul(g.input("x", og.f32, X.shape), weights, bias))
    with pytest.raises(og.SpecError, match="bias"):
        g.replace("w", W[:, :2])
    g.replace(["w", "b"], [W[:, :2], np.ones(2, np.float32)])
    np.testing.assert_allclose(og.reference.run(g, {"x": X})["y"], X @ W[:, :2] + 1, rtol=1e-6)
    with pytest.raises(og.ArgumentError, match="1 tensor; expected 2, one for each of w, b"):
        g.replace(["w", "b"], [W])
    with pytest.raises(og.ArgumentError, match="expected an op of this graph, or its name"):
        g.replace([["w"]], [W])


def test_one_of_several_results_is_replaced():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    found = g.layer_norm(x, g.constant(np.ones(3, np.float32)), g.constant(np.zeros(3, np.float32)), keep_stats=True)
    g.output("y", found.dst)
    g.output("mean", found.mean)
    g.replace(g.ops[0], [None, g.constant(np.zeros((2,), np.float32), name="zero"), None])
    got = og.reference.run(g, {"x": X})
    np.testing.assert_array_equal(got["mean"], [0, 0])
    np.testing.assert_allclose(got["y"].mean(axis=1), 0, atol=1e-6)
    assert len(g.ops) == 1


def test_removed_op_lets_consumers_read_its_input():
    g = chain()
    g.remove("bent")
    np.testing.assert_allclose(run(g), X @ W + np.tanh(X @ W), rtol=1e-6)


def test_removed_op_takes_what_it_alone_read():
    g = chain()
    extra = g.exp(g.matmul(g.inputs["x"], np.ones((3, 2), np.float32)))
    g.remove(g.producer(extra))
    assert [op.name for op in g.ops] == ["product", "bent", "last", "sum"]
    assert [*g.constants] == ["w"]
    assert g.relu(g.inputs["x"], name="product_2").shape == (2, 3)


REFUSED = {
    "an op with several inputs of its type": (lambda g: g.remove("sum"), "several inputs are of its type"),
    "an op with no input of its type": (lambda g: g.remove("product"), "is read by bent, and no input is of its type"),
    "an unknown name": (lambda g: g.remove("other"), "'other' is no op of this graph"),
    "a mistyped name": (lambda g: g.replace("bend", 1.0), "no tensor and no op of this name; did you mean 'bent'\\?"),
    "a name far from all": (lambda g: g.tensor("zzz"), "no op of this name; it has y, product, bent, last, sum, x, w"),
    "a tensor's name that is a number": (lambda g: g.tensor(3), "tensor: 3; expected the name of a tensor or of an op"),
    "a name in the place of a tensor": (lambda g: g.output("z", "bent"), "g.tensor\\('bent'\\) finds it by name"),
    "an input that is read": (lambda g: g.remove("x"), "'x' is read by product; g.replace\\(name, tensor\\)"),
    "no op": (lambda g: g.remove(3), "3; expected an op of this graph, or its name"),
    "an op of another graph": (lambda g: g.remove(chain().ops[0]), "'product' is no op of this graph"),
    "a tensor of another graph": (lambda g: g.replace("bent", chain().outputs["y"]), "is of another graph"),
    "too many tensors": (lambda g: g.replace("bent", [1, 2]), "2 tensors; expected 1, one for each of bent.dst"),
    "a text": (lambda g: g.replace("bent", "product"), "expected a tensor of this graph, a number or an array"),
    "a consumer that does not read it": (
        lambda g: g.replace("product", 1.0, consumers=["last"]),
        "Tanh 'last' does not read",
    ),
    "consumers that are no list": (lambda g: g.replace("product", 1.0, consumers="bent"), "expected a list of ops"),
    "no consumers": (lambda g: g.replace("product", 1.0, consumers=[]), r"consumers: \[\]; expected a list of ops"),
    "an output of another tensor": (
        lambda g: g.replace("product", 1.0, consumers=["y"]),
        "output 'y' does not read",
    ),
    "an output of a name that is taken": (
        lambda g: g.output("y", g.inputs["x"]),
        r"'y' is taken; .*; g.remove\(name\) frees that of an output",
    ),
    "a rewriting by a number": (lambda g: g.rewrite(3), "expected a function of the graph and an op"),
    "a pattern without outputs": (
        lambda g: g.rewrite(og.Graph()),
        "the outputs none; expected .match. and .replacement.",
    ),
    "a replacement of another shape": (
        lambda g: g.rewrite(lambda g, op: g.inputs["x"] if op.kind == "Tanh" else None),
        "is f32 \\[2, 3\\]; expected f32 \\[2, 4\\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_edit_changes_nothing(name):
    g = chain()
    before, (call, message) = records(g), REFUSED[name]
    with pytest.raises(og.ArgumentError, match=message):
        call(g)
    assert records(g) == before
    assert [*g._names.values()] == [op.id for op in g.ops]


@pytest.mark.library
def test_an_input_that_nothing_reads_is_removed():
    g = chain()
    g.replace("bent", g.input("features", og.f32, (2, 4)))
    g.remove("x")
    assert ([*g.inputs], [op.name for op in g.ops]) == (["features"], ["last", "sum"])
    np.testing.assert_allclose(g.compile()(features=X @ W), X @ W + np.tanh(X @ W), rtol=1e-6)
    assert g.input("x", og.s8, (1,)).name == "x"  # the name is free again


def test_inputs_that_outputs_need_stay():
    g = chain()
    g.output("same", g.input("z", og.f32, (2,)))
    v = g.variable("v", np.ones(3, np.float32))
    g.assign(v, g.constant(np.zeros(3, np.float32)))
    g.variable("free", np.ones(3, np.float32))
    for name, message in (("z", "'z' is read by same"), ("v", "'v' is assigned")):
        before = records(g)
        with pytest.raises(og.ArgumentError, match=message):
            g.remove(name)
        assert records(g) == before
    g.remove("free")
    assert [*g.variables] == ["v"]


def test_a_consumer_that_cannot_read_it_refuses():
    g = chain()
    before = records(g)
    with pytest.raises(og.SpecError):
        g.replace("bent", np.ones((7, 5), np.float32), consumers=["sum"])
    assert records(g) == before


@pytest.mark.library
def test_assigned_variable_keeps_its_type():
    g = og.Graph()
    v = g.variable("v", np.ones(3, np.float32))
    g.output("y", g.assign(v, v + 1))
    before = records(g)
    with pytest.raises(og.ArgumentError, match="next value of variable 'v' would be f32 \\[2\\]; expected f32 \\[3\\]"):
        g.replace(g.ops[0], np.ones(2, np.float32))
    assert records(g) == before
    g.replace(g.ops[0], v * 3)
    model = g.compile()
    model()
    assert model().tolist() == [9, 9, 9]


def test_a_record_from_before_an_edit_still_names_its_op():
    g = chain()
    last = named(g, "sum")
    g.remove("bent")
    g.replace(last, g.sigmoid(named(g, "last").outputs[0]))
    np.testing.assert_allclose(run(g), sigmoid(np.tanh(X @ W)), rtol=1e-6)


def test_a_removed_tensor_is_refused_by_name():
    g = chain()
    bent = named(g, "bent").outputs[0]
    g.remove("bent")
    for call in (g.relu, lambda tensor: g.output("z", tensor), lambda tensor: tensor + 1):
        with pytest.raises(og.ArgumentError, match=r"tensor 'bent\.dst' was removed from the graph"):
            call(bent)


def test_an_edited_copy_leaves_the_original():
    g = chain()
    text = repr(g)
    g.copy().remove("bent")
    assert repr(g) == text


def test_an_edited_file_is_written_as_it_is_now(tmp_path):
    g = chain()
    g.save(tmp_path / "a.json")
    read = og.Graph.load(tmp_path / "a.json")
    read.remove("bent")
    read.save(tmp_path / "b.json")
    again = og.Graph.load(tmp_path / "b.json")
    assert [op.name for op in again.ops] == ["product", "last", "sum"]
    np.testing.assert_allclose(run(again), X @ W + np.tanh(X @ W), rtol=1e-6)


def test_an_edited_file_keeps_its_precision():
    text = chain().to_json().replace('"fpmath_mode": "strict"', '"fpmath_mode": "bf16"')
    g = og.Graph.from_json(text)
    g.remove("bent")
    assert '"fpmath_mode": "bf16"' in g.to_json()


@pytest.mark.library
def test_compiled_edit_agrees_with_numpy():
    g = chain()
    g.replace("bent", g.sigmoid(named(g, "product").outputs[0]))
    wanted = sigmoid(X @ W)
    np.testing.assert_allclose(g.compile()(X), wanted + np.tanh(wanted), rtol=1e-5)


def test_producers_and_consumers():
    g = chain()
    bent = named(g, "bent").outputs[0]
    assert g.producer(bent) is named(g, "bent")
    assert g.producer(g.inputs["x"]) is None
    assert [op.name for op in g.consumers(bent)] == ["last", "sum"]
    g.exp(bent, name="third")
    assert [op.name for op in g.consumers(bent)] == ["last", "sum", "third"]


def swish(kind):
    """A pattern: x * sigmoid(x)."""
    p = og.Graph()
    x = p.input("x", og.f32)
    p.output("match", p.multiply(x, p.sigmoid(x)))
    p.output("replacement", p.op(kind, [x]))
    return p


def test_graph_pattern_matches_in_either_order():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    first = g.multiply(g.sigmoid(x), x)
    g.output("y", g.multiply(first, g.sigmoid(first)))
    assert g.rewrite(swish("ReLU")) == 2
    assert [op.kind for op in g.ops] == ["ReLU", "ReLU"]
    np.testing.assert_array_equal(run(g), relu(X))
    assert g.rewrite(swish("ReLU")) == 0


def test_ops_that_others_read_stay_behind_a_match():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    s = g.sigmoid(x)
    g.output("s", s)
    g.output("y", x * s)
    assert g.rewrite(swish("ReLU")) == 1
    found = og.reference.run(g, {"x": X})
    np.testing.assert_allclose(found["s"], sigmoid(X), rtol=1e-6)
    np.testing.assert_array_equal(found["y"], relu(X))


# What the pattern x * sigmoid(x) of f32 does not match.
UNMATCHED = {
    "another tensor": lambda g, x: x * g.sigmoid(g.tanh(x)),
    "another op": lambda g, x: g.add(x, g.sigmoid(x)),
    "another type": lambda g, x: g.type_cast(x, dtype="bf16") * g.sigmoid(g.type_cast(x, dtype="bf16")),
    "another attribute": lambda g, x: g.multiply(x, g.sigmoid(x), auto_broadcast="none"),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_pattern_leaves_other_ops_alone(name):
    g = og.Graph()
    g.output("y", UNMATCHED[name](g, g.input("x", og.f32, (2, 3))))
    text = repr(g)
    assert g.rewrite(swish("ReLU")) == 0
    assert repr(g) == text


def test_constants_match_by_their_contents():
    p = og.Graph()
    x = p.input("x", og.f32)
    p.output("match", x * 0.5 + 0.5)
    p.output("replacement", (x + 1.0) * 0.5)
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", x * np.full((1, 1), 0.5, np.float32) + 0.5)
    g.output("z", x * 0.5 + 0.25)
    assert g.rewrite(p) == 1
    found = og.reference.run(g, {"x": X})
    np.testing.assert_array_equal(found["y"], (X + 1) / 2)
    np.testing.assert_array_equal(found["z"], X / 2 + 0.25)


def test_constant_inputs_match_constants_of_their_shape():
    p = og.Graph()
    x, w = p.input("x", og.f32), p.input("w", og.f32, (3, None), constant=True)
    p.output("match", p.relu(p.matmul(x, w)))
    p.output("replacement", p.abs(p.matmul(x, w)))
    g = og.Graph()
    x, other = g.input("x", og.f32, (2, 3)), g.input("other", og.f32, (3, 2))
    g.output("y", g.relu(g.matmul(x, g.constant(W))))
    g.output("z", g.relu(g.matmul(x, other)))
    assert g.rewrite(p) == 1
    np.testing.assert_array_equal(og.reference.run(g, {"x": X, "other": W[:, :2]})["y"], np.abs(X @ W))


def test_identity_is_replaced_by_its_input():
    p = og.Graph()
    x = p.input("x", og.f32)
    p.output("match", x * 1.0)
    p.output("replacement", x)
    g = chain()
    g.replace("bent", named(g, "bent").outputs[0] * 1.0)
    wanted = run(g)
    assert g.rewrite(p) == 1
    assert [op.kind for op in g.ops] == ["MatMul", "ReLU", "Tanh", "Add"]
    np.testing.assert_array_equal(run(g), wanted)


def test_function_adds_nothing_where_it_declines():
    def pattern(g, op):
        made = g.exp(op.inputs[0])
        return made if op.kind == "Tanh" else None

    g = chain()
    assert g.rewrite(pattern) == 1
    assert [op.kind for op in g.ops] == ["MatMul", "ReLU", "Exp", "Add"]


def test_function_that_raises_changes_nothing():
    def pattern(g, op):
        if op.kind == "Add":
            raise KeyError(op.name)
        return g.exp(op.inputs[0]) if op.kind == "Tanh" else None

    g = chain()
    before = records(g)
    with pytest.raises(KeyError):
        g.rewrite(pattern)
    assert records(g) == before
    assert g.rewrite(lambda g, op: None) == 0


@pytest.mark.parametrize("part", ["match", "replacement"])
def test_pattern_that_cannot_be_used_is_refused(part):
    p = og.Graph()
    x, other = p.input("x", og.f32), p.input("other", og.f32)
    p.output("match", x if part == "match" else p.relu(x))
    p.output("replacement", p.relu(other))
    expected = "not the result of an op" if part == "match" else "reads 'other', which the match does not read"
    with pytest.raises(og.ArgumentError, match=expected):
        chain().rewrite(p)
