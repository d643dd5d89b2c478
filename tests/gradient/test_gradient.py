"""The arguments, results and errors of ``Graph.gradient``; the rules of the ops have tests of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.reference import run

SQUARED = np.float32([1, -2, 3])


def values(graph: og.Graph, tensors: Any, **inputs: Any) -> list[Any]:
    """Tensors of a graph by the numpy reference, in float64."""
    given = {name: np.asarray(inputs[name], np.float32) for name in graph.inputs}
    return run_wide(graph, given, tensors)


def state(graph: og.Graph) -> Any:
    """What an error must leave as it is."""
    return graph.to_json(), [op.name for op in graph.ops], [*graph.inputs], [*graph.outputs], len(graph._by_id)


def product() -> tuple[og.Graph, og.LogicalTensor, og.LogicalTensor, og.LogicalTensor]:
    """x * y, with the shapes (2, 3) and (3,)."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", (2, 3)), graph.input("y", "f32", (3,))
    return graph, x, y, graph.output("z", graph.multiply(x, y, name="times"))


X, Y = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([10, 20, 30])


# Results --------------------------------------------------------------------------------------------------------------


def test_gradient_of_sum_is_summed_over_broadcast():
    graph, x, y, z = product()
    d_x, d_y = values(graph, graph.gradient(z, [x, y]), x=X, y=Y)
    np.testing.assert_array_equal(d_x, [[10, 20, 30], [10, 20, 30]])
    np.testing.assert_array_equal(d_y, [5, 7, 9])


def test_names_stand_for_inputs_and_outputs():
    graph, *_ = product()
    d_y, d_x = values(graph, graph.gradient("z", ["y", "x"]), x=X, y=Y)
    np.testing.assert_array_equal(d_y, [5, 7, 9])
    assert d_x.shape == (2, 3)


@pytest.mark.parametrize("single", ["x", ["x"], ("x",)])
def test_one_source_gives_a_tuple_of_one(single):
    graph, *_ = product()
    found = graph.gradient("z", single)
    assert type(found) is tuple
    assert [one.shape for one in found] == [(2, 3)]


def test_gradients_of_several_outputs_are_added():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    square, cube = graph.square(x), graph.pow(x, beta=3.0)
    (d_x,) = values(graph, graph.gradient([square, cube], x, [np.float32([1, 1, 1]), np.float32([0, 1, 2])]), x=SQUARED)
    np.testing.assert_array_equal(d_x, [2, -4 + 12, 6 + 54])


def test_several_uses_of_a_tensor_are_added():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    total = graph.add(graph.multiply(x, x), graph.multiply(x, graph.exp(x)))
    (d_x,) = values(graph, graph.gradient(total, x), x=SQUARED)
    exact = SQUARED.astype(np.float64)
    np.testing.assert_allclose(d_x, 2 * exact + np.exp(exact) * (1 + exact), rtol=1e-12)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("rows", "joined"), [(2, True), (9, False)])
def test_uses_of_a_matrix_by_few_rows_have_one_product(rows, joined, transpose_b):
    """A sum of three gradients of the matrix would take longer than a copy of the rows."""
    rng, g = np.random.default_rng(0), og.Graph()
    w = g.input("w", og.f32, (24, 16) if transpose_b else (16, 24))
    xs = [g.input(f"x{at}", og.f32, (rows, 16)) for at in range(3)]
    others = [g.matmul(x, w, transpose_b=transpose_b) for x in xs]
    seeds = [rng.integers(-3, 4, (rows, 24)).astype(np.float32) for _ in xs]
    before = len(g.ops)
    (found,) = g.gradient(others, [w], [g.constant(seed) for seed in seeds])
    added = [op.kind for op in g.ops[before:]]
    assert sorted(added) == (["Concat", "Concat", "MatMul"] if joined else ["Add"] * 2 + ["MatMul"] * 3)
    g.output("by_w", found)
    given = {x.name: rng.integers(-3, 4, x.shape).astype(np.float32) for x in xs}
    wanted = sum(given[x.name].T @ seed for x, seed in zip(xs, seeds, strict=True))
    np.testing.assert_array_equal(
        run(g, {**given, "w": np.zeros(w.shape, np.float32)})["by_w"], wanted.T if transpose_b else wanted
    )


def test_the_product_of_all_uses_stands_behind_the_first_use():
    """So the rows of a matrix that many steps read need no memory while the ops before these steps are taken back."""
    g = og.Graph()
    x, first, w = g.input("x", og.f32, (2, 16)), g.input("f", og.f32, (16, 16)), g.input("w", og.f32, (16, 16))
    y = g.sigmoid(g.matmul(x, first))
    for _ in range(3):
        y = g.matmul(y, w)
    before = len(g.ops)
    g.gradient(y, [w, first])
    kinds = [op.kind for op in g.ops[before:]]
    assert kinds.index("Concat") < kinds.index("SigmoidBackward")


def test_gradient_of_an_intermediate_and_of_a_constant():
    graph = og.Graph()
    x, c = graph.input("x", "f32", (3,)), graph.constant(np.float32([2, 3, 4]))
    inner = graph.multiply(x, c)
    outer = graph.square(inner)
    d_inner, d_c, d_x = values(graph, graph.gradient(outer, [inner, c, x]), x=SQUARED)
    np.testing.assert_array_equal(d_inner, [4, -12, 24])
    np.testing.assert_array_equal(d_c, [4, 24, 72])
    np.testing.assert_array_equal(d_x, [8, -36, 96])


def test_intermediate_does_not_hide_its_inputs():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    inner = graph.square(x)
    both = graph.gradient(graph.square(inner), [inner, x])
    d_inner, d_x = values(graph, both, x=SQUARED)
    np.testing.assert_array_equal(d_inner, 2 * SQUARED**2)
    np.testing.assert_array_equal(d_x, 4 * SQUARED**3)


def test_output_as_its_own_source_gives_its_gradient():
    graph, _, _, z = product()
    seed = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(values(graph, graph.gradient(z, z, seed), x=X, y=Y)[0], seed)


def test_source_without_a_path_has_zeros():
    graph, _, _, z = product()
    graph.input("other", "f32", (4, 1))
    (found,) = graph.gradient(z, "other")
    assert found.shape == (4, 1)
    np.testing.assert_array_equal(values(graph, [found], x=X, y=Y, other=np.ones((4, 1)))[0], np.zeros((4, 1)))


def test_flat_op_gives_zeros_and_no_ops():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    rounded = graph.op("Round", [x])
    before = len(graph.ops)
    (found,) = graph.gradient(graph.square(rounded), x)
    assert len(graph.ops) == before + 1
    np.testing.assert_array_equal(values(graph, [found], x=SQUARED)[0], [0, 0, 0])


def test_ops_without_a_reader_are_left_out():
    graph = og.Graph()
    x, w = graph.input("x", "f32", (4, 3)), graph.input("w", "f32", (3, 2))
    y = graph.matmul(x, w)
    graph.gradient(y, w)
    assert [op.kind for op in graph.ops] == ["MatMul", "MatMul"]


@pytest.mark.parametrize("given", [2.5, np.float32(2.5), np.full((2, 3), 2.5, np.float32), [np.full((2, 3), 2.5)]])
def test_given_gradient_may_be_a_number_or_array(given):
    graph, _, _, z = product()
    (d_y,) = values(graph, graph.gradient(z, "y", given), x=X, y=Y)
    np.testing.assert_array_equal(d_y, [12.5, 17.5, 22.5])


def test_given_gradient_may_be_a_tensor():
    graph, _, _, z = product()
    seed = graph.input("seed", "f32", (2, 3))
    (d_y,) = values(graph, graph.gradient(z, "y", seed), x=X, y=Y, seed=X)
    np.testing.assert_array_equal(d_y, [17, 29, 45])


def test_missing_gradient_among_others_is_ones():
    graph, x, _, z = product()
    (d_y,) = values(graph, graph.gradient([z, graph.square(x)], "y", [None, 3.0]), x=X, y=Y)
    np.testing.assert_array_equal(d_y, [5, 7, 9])


def test_second_gradient_gets_names_of_its_own():
    graph, x, _, z = product()
    graph.gradient(z, x)
    graph.gradient(z, "y")
    names = [op.name for op in graph.ops]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.startswith("times/")] == ["times/gradient", "times/gradient_2"]


def test_gradient_of_gradient_is_the_second_derivative():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    (first,) = graph.gradient(graph.pow(x, beta=3.0), x)
    (second,) = graph.gradient(first, x)
    (third,) = graph.gradient(second, x)
    found = values(graph, [first, second, third], x=SQUARED)
    np.testing.assert_array_equal(found, [3 * SQUARED**2, 6 * SQUARED, [6, 6, 6]])


@pytest.mark.library
def test_compiled_gradient_agrees_with_reference():
    graph = og.Graph()
    x, w, b = graph.input("x", "f32", (8, 16)), graph.input("w", "f32", (16, 4)), graph.input("b", "f32", (4,))
    y = graph.gelu(graph.matmul(x, w, b))
    for name, one in zip(("d_x", "d_w", "d_b"), graph.gradient(y, [x, w, b]), strict=True):
        graph.output(name, one)
    rng = np.random.default_rng(0)
    given = {name: rng.normal(size=one.shape).astype(np.float32) for name, one in graph.inputs.items()}
    for ours, theirs in zip(graph.compile()(**given), run(graph, given).values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


# Errors ---------------------------------------------------------------------------------------------------------------


def refuse(
    graph: og.Graph, message: str, *arguments: Any, error: type[Exception] = og.ArgumentError, **more: Any
) -> None:
    """Expect an error with a message, and an unchanged graph."""
    before = state(graph)
    with pytest.raises(error) as caught:
        graph.gradient(*arguments, **more)
    assert str(caught.value) == message
    assert state(graph) == before


def test_gradient_of_integers_is_refused():
    graph, _, _, z = product()
    graph.input("n", "s32", (3,))
    refuse(graph, "gradient: wrt: 'n' is s32; expected a tensor of f32, bf16, f16 or float64", z, "n")
    refuse(graph, "gradient: outputs: 'n' is s32; expected a tensor of f32, bf16, f16 or float64", "n", "x")


def test_tensor_of_another_graph_is_refused():
    graph, x, _, z = product()
    other = og.Graph().input("x", "f32", (2, 3))
    message = "gradient: {}: tensor 'x' belongs to another graph"
    for where, arguments in (
        ("outputs", (other, x)),
        ("wrt", (z, other)),
        ("wrt[1]", (z, [x, other])),
        ("grad_outputs[0]", (z, x, other)),
    ):
        before = state(graph)
        with pytest.raises(og.ArgumentError) as caught:
            graph.gradient(*arguments)
        assert str(caught.value).startswith(message.format(where)[: len("gradient: ") + len(where)])
        assert state(graph) == before


def test_unknown_name_is_refused_with_the_names():
    graph, _, _, z = product()
    refuse(graph, "gradient: wrt: 'w': the graph has no tensor and no op of this name; it has z, times, x, y", z, "w")


@pytest.mark.parametrize("given", [None, 3, object, {"x": 1}])
def test_what_is_no_tensor_is_refused(given):
    graph, _, _, z = product()
    before = state(graph)
    with pytest.raises(og.ArgumentError, match="gradient: wrt: "):
        graph.gradient(z, given)
    assert state(graph) == before


def test_given_gradient_of_another_shape_is_refused():
    graph, x, _, z = product()
    wrong = np.ones((3, 2), np.float32)
    refuse(graph, "gradient: grad_outputs[0]: shape [3, 2]; expected [2, 3], as 'times.dst' has", z, x, wrong)


def test_given_gradient_of_another_dtype_is_refused():
    graph, x, _, z = product()
    wrong = graph.input("seed", "bf16", (2, 3))
    refuse(graph, "gradient: grad_outputs[0]: bf16; expected f32, as 'times.dst' has", z, x, wrong)


def test_wrong_number_of_given_gradients_is_refused():
    graph, x, _, z = product()
    refuse(graph, "gradient: grad_outputs: 2; expected 1, one for each of outputs", z, x, [1.0, 2.0])
    refuse(graph, "gradient: grad_outputs: 1; expected 2, one for each of outputs", [z, x], x, 1.0)


def test_op_without_a_gradient_names_the_path():
    graph = og.Graph(strict=False)
    x = graph.input("x", "f32", (3,))
    wild = graph.op("Wildcard", [graph.exp(x, name="first")], name="wild")
    last = graph.tanh(wild if isinstance(wild, og.LogicalTensor) else wild[0], name="last")
    reason = "the specification does not say what it computes"
    message = f"gradient: Wildcard 'wild': {reason}; the path is last.dst <- last <- wild <- first <- x"
    refuse(graph, message, last, x, error=og.UnsupportedError)


@pytest.mark.parametrize("between", [(), ("StaticReshape",)])
def test_quantize_between_is_named(between):
    graph = og.Graph(strict=False)
    x = graph.input("x", "f32", (1, 4))
    rounded = graph.quantize(x, scales=[0.5], zps=[0], dtype="u8", name="rounds")
    for _ in between:
        rounded = graph.op("Reshape", [rounded, graph.constant(np.int64([2, 2]), dtype="s64")], edition="host")
    y = graph.dequantize(rounded, scales=[0.5], zps=[0], name="back")
    reason = "it rounds, so its gradient is zero; leave it out of a training graph"
    middle = "host_reshape_1 <- " if between else ""
    message = f"gradient: Quantize 'rounds': {reason}; the path is back.dst <- back <- {middle}rounds <- x"
    refuse(graph, message, y, x, error=og.UnsupportedError)


def test_op_without_a_gradient_beside_the_path_is_no_error():
    graph = og.Graph()
    x, w = graph.input("x", "f32", (1, 4)), graph.input("w", "f32", (4, 2))
    rounded = graph.dequantize(graph.quantize(x, scales=[0.5], zps=[0], dtype="u8"), scales=[0.5], zps=[0])
    (d_w,) = values(graph, graph.gradient(graph.matmul(rounded, w), w), x=[[1, 2, 3, 4]], w=np.ones((4, 2)))
    np.testing.assert_array_equal(d_w, np.repeat([[1], [2], [3], [4]], 2, 1))


def test_indices_have_no_gradient_and_no_error():
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    place = graph.op("ArgMax", [x], {"axis": 0}, edition="host")
    best = graph.op("Gather", [x, place], edition="host")
    (d_x,) = values(graph, graph.gradient(best, x), x=SQUARED)
    np.testing.assert_array_equal(d_x, [0, 0, 1])


# Large graphs ---------------------------------------------------------------------------------------------------------


def test_deep_chain_has_a_gradient():
    graph = og.Graph()
    x = last = graph.input("x", "f32", (2,))
    for number in range(5000):
        last = graph.abs(last) if number % 2 else graph.tanh(last)
    (d_x,) = graph.gradient(last, x)
    assert len(graph.ops) >= 9_000
    assert values(graph, [d_x], x=[1, 2])[0].shape == (2,)


def test_tensor_with_many_readers_has_a_gradient():
    graph = og.Graph()
    x = graph.input("x", "f32", (2,))
    parts = [graph.square(x) for _ in range(500)]
    (d_x,) = values(graph, graph.gradient(parts, x), x=[1, 3])
    np.testing.assert_array_equal(d_x, [1000, 3000])


def test_gradient_adds_ops_in_proportion_to_the_graph():
    sizes = []
    for depth in (100, 200, 400):
        graph = og.Graph()
        x = last = graph.input("x", "f32", (2,))
        for _ in range(depth):
            last = graph.add(graph.tanh(last), last)
        graph.gradient(last, x)
        sizes.append(len(graph.ops))
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


# Sizes that are known later -------------------------------------------------------------------------------------------

DYNAMIC = {
    "matmul": ((None, 3), lambda g, x: g.matmul(x, g.constant(W34), g.constant(W34[0]))),
    "matmul of batches": ((None, 2, 3), lambda g, x: g.matmul(x, x, transpose_b=True)),
    "convolution": ((None, 2, 6), lambda g, x: g.convolution(x, g.constant(W234), **CONV, weights_format="OIX")),
    "wide convolution": ((1, 2, None), lambda g, x: g.convolution(x, g.constant(W234), **CONV, weights_format="OIX")),
    "transposed": ((None, 2, 6), lambda g, x: g.conv_transpose(x, g.constant(W234), **CONV, weights_format="IOX")),
    "layer norm": ((None, 3), lambda g, x: g.layer_norm(x, g.constant(ROW), g.constant(ROW), keep_stats=False)),
    "softmax": ((None, 3), lambda g, x: g.softmax(x, axis=-1)),
    "log softmax": ((None, 3), lambda g, x: g.log_softmax(x, axis=0)),
    "max pool": ((None, 2, 6), lambda g, x: g.max_pool(x, **POOL)),
    "avg pool": ((None, 2, 6), lambda g, x: g.avg_pool(x, **POOL, exclude_pad=True)),
    "mean": ((None, 3), lambda g, x: g.multiply(x, g.reduce_mean(x, axes=[0], keep_dims=True))),
    "mean of all": ((None, 3), lambda g, x: g.reduce_mean(g.square(x), axes=[0, 1], keep_dims=False)),
    "sum": ((None, 3), lambda g, x: g.multiply(x, g.reduce_sum(x, axes=[1], keep_dims=True))),
    "largest": ((None, 3), lambda g, x: g.reduce_max(g.square(x), axes=[0], keep_dims=False)),
    "product": ((None, 3), lambda g, x: g.reduce_prod(x, axes=[1], keep_dims=False)),
    "norm": ((None, 3), lambda g, x: g.reduce_l2(x, axes=[0], keep_dims=False)),
    "reshape": ((None, 4), lambda g, x: g.square(g.static_reshape(x, shape=[-1, 2, 2], special_zero=False))),
    "transpose": ((None, 3), lambda g, x: g.square(g.static_transpose(x, order=[1, 0]))),
    "concat": ((None, 3), lambda g, x: g.square(g.concat(x, g.exp(x), axis=1))),
    "broadcast": ((None, 3), lambda g, x: g.multiply(x, g.constant(ROW))),
    "broadcast of both": ((None, 1), lambda g, x: g.multiply(x, g.constant(W34[:1]))),
    "relu": ((None, 3), lambda g, x: g.relu(g.multiply(x, x))),
    "gelu": ((None, 3), lambda g, x: g.gelu(x)),
    "interpolation": (
        (None, 2, 3),
        lambda g, x: g.interpolate(x, sizes=[6], mode="linear", data_format="NCX"),
    ),
    "select": ((None, 3), lambda g, x: g.select(g.greater_equal(x, g.constant(ROW)), x, g.square(x))),
    "group norm": (
        (None, 4, 3),
        lambda g, x: g.group_norm(x, groups=2, use_affine=False, keep_stats=False, data_format="NCX"),
    ),
    "rms norm": ((None, 3), lambda g, x: g.rms_norm(x, g.constant(ROW))),
    "gather": ((None, 3), lambda g, x: g.op("Gather", [x, s64(g, 0, 1, 1)], {"axis": 0}, edition="host")),
    "slice": ((None, 4), lambda g, x: g.op("Slice", [x, s64(g, 1), s64(g, 3), s64(g, 1)], edition="host")),
    "slice of the batch": (
        (None, 4),
        lambda g, x: g.op("Slice", [x, s64(g, 1), s64(g, -1), s64(g, 0)], edition="host"),
    ),
    "pad": ((None, 4), lambda g, x: g.op("Pad", [x, s64(g, 1, 0, 0, 2)], edition="host")),
    "pad with copies": (
        (None, 4),
        lambda g, x: g.op("Pad", [x, s64(g, 0, 1, 0, 2)], {"mode": "reflect"}, edition="host"),
    ),
    "tile": ((None, 4), lambda g, x: g.op("Tile", [x, s64(g, 2, 3)], edition="host")),
    "expand": ((None, 1), lambda g, x: g.op("Expand", [x, s64(g, 2, 1, 3)], edition="host")),
    "steps": ((None, 7), lambda g, x: g.op("Slice", [x, s64(g, 6), s64(g, 0), s64(g, 1), s64(g, -2)], edition="host")),
    "sums so far": ((None, 3), lambda g, x: g.op("CumSum", [x], {"axis": 0}, edition="host")),
    "largest elements": ((None, 3), lambda g, x: g.op("TopK", [x, s64(g, 2)], {"axis": 1}, edition="host")[0]),
    "gathered elements": (
        (None, 3),
        lambda g, x: g.op("GatherElements", [x, g.constant(np.int64([[1, 1, 0]]), dtype="s64")], edition="host"),
    ),
    "prelu of channels": ((None, 3), lambda g, x: g.prelu(x, g.constant(ROW), data_format="NXC")),
    "prelu": (
        (None, 3),
        lambda g, x: g.prelu(x, g.constant(ROW[:1]), data_format="NXC", per_channel_broadcast=False),
    ),
    "bias": ((None, 3), lambda g, x: g.square(g.bias_add(x, g.constant(ROW), data_format="NXC"))),
    "channels last": (
        (None, 6, 2),
        lambda g, x: g.convolution(
            x, g.constant(W234.transpose(2, 1, 0)), **{**CONV, "data_format": "NXC"}, weights_format="XIO"
        ),
    ),
    "moments of layers": (
        (None, 3),
        lambda g, x: g.concat(
            *[g.static_reshape(one, shape=[-1, 1]) for one in g.layer_norm(x, use_affine=False, keep_stats=True)[1:]],
            axis=1,
        ),
    ),
    "moments of a batch": (
        (None, 3),
        lambda g, x: g.multiply(
            *g.batch_norm_forward_training(
                x, *[g.constant(ROW * ROW)] * 4, epsilon=0.1, momentum=0.5, data_format="NXC"
            )[1:3]
        ),
    ),
    "batch norm": (
        (None, 3),
        lambda g, x: g.batch_norm_forward_training(x, *[g.constant(ROW * ROW)] * 4, epsilon=0.1, data_format="NXC")[0],
    ),
}
W34 = np.float32([[1, -1, 2, 0], [0.5, 1, -2, 1], [3, 0, 1, -1]])
W234 = np.float32(np.arange(24).reshape(2, 2, 6)[..., :3] % 5 - 2)
ROW = np.float32([0.5, -1, 2])
CONV: dict[str, Any] = {
    "strides": [2],
    "pads_begin": [1],
    "pads_end": [1],
    "dilations": [1],
    "data_format": "NCX",
}
POOL: dict[str, Any] = {"kernel": [2], "strides": [2], "pads_begin": [0], "pads_end": [0], "data_format": "NCX"}


def s64(graph: og.Graph, *numbers: int) -> og.LogicalTensor:
    return graph.constant(np.int64(numbers), dtype="s64")


def with_gradient(shape: Any, build: Any) -> og.Graph:
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    y = build(graph, x)
    seed = graph.input("seed", "f32", y.shape)
    graph.output("d_x", *graph.gradient(y, x, seed))
    return graph


@pytest.mark.library
@pytest.mark.parametrize("name", DYNAMIC)
def test_unknown_sizes_are_differentiated(name):
    shape, build = DYNAMIC[name]
    model = with_gradient(shape, build).compile()
    rng = np.random.default_rng(1)
    for size in (2, 5) if shape[0] is None else (6, 9):
        dims = [size if dim is None else dim for dim in shape]
        fixed = with_gradient(dims, build)
        given = {key: rng.normal(size=one.shape).astype(np.float32) for key, one in fixed.inputs.items()}
        (wanted,) = values(fixed, fixed.outputs.values(), **given)
        np.testing.assert_allclose(model(**given), wanted, rtol=1e-4, atol=1e-4)


# Checkpoints ----------------------------------------------------------------------------------------------------------


def chain(depth: int, every: int) -> tuple[og.Graph, og.LogicalTensor, og.LogicalTensor, list[og.LogicalTensor]]:
    """Products and activations, of which every so many results are checkpoints."""
    graph = og.Graph()
    x = last = graph.input("x", "f32", (64, 64))
    kept = []
    for number in range(depth):
        weights = graph.constant(np.random.default_rng(number).normal(size=(64, 64)).astype(np.float32) / 8)
        last = graph.gelu(graph.matmul(last, weights, name=f"product_{number}"), name=f"gelu_{number}")
        if number % every == every - 1:
            kept.append(last)
    return graph, x, last, kept


def peak(report: Any) -> int:
    """The bytes of results that are alive at once in a compiled plan."""
    steps = report.partitions
    last = {one.name: place for place, step in enumerate(steps) for one in step.sources}
    size = {one.name: int(np.prod(one.shape)) * one.dtype.numpy.itemsize for step in steps for one in step.results}
    alive: set[str] = set()
    most = 0
    for place, step in enumerate(steps):
        alive |= {one.name for one in step.results}
        most = max(most, sum(size[name] for name in alive))
        alive = {name for name in alive if last.get(name, place) > place}
    return most


@pytest.mark.library
def test_checkpoints_give_the_same_gradient_in_less_memory():
    found, sizes = [], []
    given = np.random.default_rng(5).normal(size=(64, 64)).astype(np.float32)
    for checkpointed in (False, True):
        graph, x, last, kept = chain(16, 4)
        graph.output("d_x", *graph.gradient(last, x, checkpoint=kept if checkpointed else None))
        model = graph.compile()
        sizes.append(peak(model.report()))
        found.append(model(given))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert sizes[1] < 0.75 * sizes[0]


@pytest.mark.library
def test_compiler_runs_repeated_ops_again():
    graph, x, last, kept = chain(8, 4)
    graph.output("d_x", *graph.gradient(last, x, checkpoint=kept))
    again = [op.name for op in graph.ops if op.name.endswith("/again")]
    text = str(graph.compile().report())
    assert again
    assert [name for name in again if f"'{name}'" not in text] == []


def test_repeated_ops_stand_before_their_first_use():
    graph, x, last, kept = chain(4, 2)
    graph.gradient(last, x, checkpoint=kept)
    names = [op.name for op in graph.ops][8:]
    first, second = names.index("product_2/again"), names.index("product_0/again")
    assert first < names.index("gelu_2/gradient") < second < names.index("gelu_0/gradient")
    assert "gelu_1/again" not in names
    assert "gelu_3/again" not in names


@pytest.mark.parametrize("kept", [[], ["y"]])
def test_without_checkpoints_everything_is_computed_again(kept):
    graph = og.Graph()
    x = graph.input("x", "f32", (3,))
    graph.output("y", graph.exp(graph.sigmoid(x)))
    (d_x,) = graph.gradient("y", x, checkpoint=kept)
    share = 1 / (1 + np.exp(-SQUARED.astype(np.float64)))
    np.testing.assert_allclose(values(graph, [d_x], x=SQUARED)[0], np.exp(share) * share * (1 - share), rtol=1e-12)
    assert next(op.name for op in graph.ops if op.name.endswith("/again")) == "sigmoid_0/again"


def test_repeated_dropout_has_the_same_mask():
    found = []
    for kept in (None, []):
        graph = og.Graph()
        x = graph.input("x", "f32", (1, 64))
        seeds = [
            graph.constant(np.array([3], np.int64), dtype="s64"),
            graph.constant(np.array([0], np.int64), dtype="s64"),
        ]
        dropped = graph.op("Dropout", [x, *seeds, graph.constant(np.float32([0.5]))], outputs=["dst"])
        (d_x,) = graph.gradient(graph.square(dropped), x, checkpoint=kept)
        found += values(graph, [d_x], x=np.ones((1, 64)))
    np.testing.assert_array_equal(found[0], found[1])
    assert set(np.unique(found[0])) == {0, 8}


def test_repeated_batch_norm_has_the_same_gradient():
    found = []
    rng = np.random.default_rng(0)
    given = rng.normal(size=(8, 3))
    for kept in (None, []):
        graph = og.Graph()
        x, row = graph.input("x", "f32", (8, 3)), graph.constant(np.float32([1, 2, 3]))
        made = graph.batch_norm_forward_training(graph.exp(x), row, row, row, row, epsilon=0.1, data_format="NXC")
        (d_x,) = graph.gradient(graph.square(made[0]), x, checkpoint=kept)
        found += values(graph, [d_x], x=given)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_wrong_checkpoint_is_refused():
    graph, x, _, z = product()
    refuse(
        graph,
        "gradient: checkpoint: 'w': the graph has no tensor and no op of this name; it has z, times, x, y",
        z,
        x,
        checkpoint="w",
    )
    before = state(graph)
    with pytest.raises(og.ArgumentError, match="gradient: checkpoint: 3"):
        graph.gradient(z, x, checkpoint=3)
    assert state(graph) == before


# Other graphs ---------------------------------------------------------------------------------------------------------


def test_gradient_survives_a_file(tmp_path):
    graph, x, y, z = product()
    for name, one in zip(("d_x", "d_y"), graph.gradient(z, [x, y]), strict=True):
        graph.output(name, one)
    graph.save(tmp_path / "graph.json")
    loaded = og.Graph.load(tmp_path / "graph.json")
    given = {"x": X, "y": Y}
    for name, wanted in run(graph, given).items():
        np.testing.assert_array_equal(run(loaded, given)[name], wanted)


def test_loaded_graph_has_a_gradient(tmp_path):
    graph, *_ = product()
    graph.save(tmp_path / "graph.json")
    for loaded in (og.Graph.load(tmp_path / "graph.json"), og.Graph.from_json(graph.to_json())):
        (d_y,) = values(loaded, loaded.gradient("z", "y"), x=X, y=Y)
        np.testing.assert_array_equal(d_y, [5, 7, 9])


def test_gradient_is_drawn():
    graph, x, _, z = product()
    graph.output("d_x", *graph.gradient(z, x, 2.0))
    assert "times/gradient" in graph.to_dot()


def test_graph_without_checks_has_a_gradient():
    graph = og.Graph(strict=False)
    x = graph.input("x", "f32", (3,))
    (d_x,) = values(graph, graph.gradient(graph.op("Square", [x]), x), x=SQUARED)
    np.testing.assert_array_equal(d_x, 2 * SQUARED)


def test_slices_of_one_tensor_are_joined():
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 6))
    parts = [
        graph.op("Slice", [x, s64(graph, at), s64(graph, at + 2), s64(graph, 1)], edition="host") for at in (4, 0, 2)
    ]
    seeds = [np.full((2, 2), number, np.float32) for number in (3, 1, 2)]
    (d_x,) = graph.gradient([graph.square(one) for one in parts], x, seeds)
    assert "Pad" not in [op.kind for op in graph.ops]
    np.testing.assert_array_equal(values(graph, [d_x], x=np.ones((2, 6)))[0], [[2, 2, 4, 4, 6, 6]] * 2)


@pytest.mark.library
def test_gradient_of_maximum_runs_without_numpy():
    graph = og.Graph()
    x, y = graph.input("x", "f32", (4, 5)), graph.input("y", "f32", (4, 5))
    for name, one in zip(("d_x", "d_y"), graph.gradient(graph.maximum(x, y), [x, y]), strict=True):
        graph.output(name, one)
    model = graph.compile(fallback=False)
    first, second = np.float32([[0, 1, 2, 3, 4]] * 4), np.float32([[2] * 5] * 4)
    d_x, d_y = model(first, second)
    np.testing.assert_array_equal(d_x, [[0, 0, 0.5, 1, 1]] * 4)
    np.testing.assert_array_equal(d_y, [[1, 1, 0.5, 0, 0]] * 4)


def tied() -> tuple[og.Graph, og.LogicalTensor, og.LogicalTensor]:
    """A loss of an embedding whose table is the weight of the last layer too."""
    graph = og.Graph()
    table, places = graph.input("table", "f32", (7, 32)), graph.input("places", "s64", (5,))
    rows = graph.op("Gather", [table, places], {"axis": 0}, edition="host")
    return graph, table, graph.reduce_sum(graph.square(graph.matmul(rows, table, transpose_b=True)), axes=[0, 1])


def test_rows_are_added_to_the_rest_of_a_gradient():
    graph, table, loss = tied()
    (found,) = graph.gradient(loss, [table])
    scatters = [op for op in graph.ops if op.kind == "ScatterND"]
    assert [op.outputs[0] for op in scatters] == [found]
    assert scatters[0].inputs[0].value is None  # not zeros
    contents, places = np.random.default_rng(0).standard_normal((7, 32)), np.array([6, 0, 3, 3, 6])
    slope = 2 * contents[places] @ contents.T
    expected = slope.T @ contents[places]
    np.add.at(expected, places, slope @ contents)
    given = {"table": contents.astype(np.float32), "places": places}
    np.testing.assert_allclose(run_wide(graph, given, [found])[0], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.library
@pytest.mark.parametrize("also", [False, True], ids=["one reader", "two readers"])
def test_rows_are_added_in_the_memory_of_the_rest(also):
    graph, table, loss = tied()
    (found,) = graph.gradient(loss, [table])
    scatter = next(op for op in graph.ops if op.kind == "ScatterND")
    graph.output("found", graph.relu(found))
    if also:
        graph.output("rest", graph.relu(scatter.inputs[0]))
    contents, places = np.random.default_rng(0).standard_normal((7, 32)).astype(np.float32), np.array([6, 0, 3, 3, 6])
    compiled = graph.compile()
    wanted = run(graph, {"table": contents, "places": places})
    for _ in range(2):  # the second run finds the memory of the first one
        results = compiled(contents, places)
        for one, name in zip(results if also else [results], wanted, strict=True):
            np.testing.assert_allclose(one, wanted[name], rtol=1e-4, atol=1e-3)
