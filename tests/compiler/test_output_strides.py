"""Graph outputs with declared strides, whatever layout the producing op writes."""

import json
import pickle
from itertools import product
from random import Random

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.capi.settings import is_aligned
from onegraph.native import library
from onegraph.opset.editions.registry import BASE
from onegraph.runtime import executable
from onegraph.runtime.arguments import OutputSpec
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.python_code import load_python, save_python
from onegraph.tools.verify import verify
from onegraph.transform.rebuild import Change, rebuild
from onegraph.transform.translate_graph import translate_graph

# The fusions and kernels of the library are compared.
pytestmark = pytest.mark.usefixtures("finite_math")

DIMS, LAST = (2, 8, 5, 6), (240, 1, 48, 8)  # an image with its channels last
KINDS = [kind for kind in BASE if kind not in ("End", "Wildcard")]


def elements(array):
    return tuple(step // array.itemsize for step in array.strides)


def image():
    """A convolution with channels last in its declared result, and its inputs."""
    g = og.Graph()
    x, w = g.input("x", og.f32, (2, 3, 5, 6)), g.input("w", og.f32, (8, 3, 3, 3))
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    conv = g.convolution(x, w, data_format="NCX", weights_format="OIX", **window)
    g.output("y", g.relu(conv), strides=LAST)
    return g, random_inputs(g)


def test_result_has_declared_strides():
    g, given = image()
    model, expected = g.compile(), og.reference.run(g, given)["y"]
    (partition,) = model.report().partitions
    assert partition.fused
    result = model(**given)
    assert elements(result) == LAST
    assert result.ctypes.data % 64 == 0
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    run = model.bind(**given)
    assert np.array_equal(run(), result)
    assert elements(run.outputs["y"]) == LAST
    assert elements(pickle.loads(pickle.dumps(model))(**given)) == LAST


@pytest.mark.parametrize("steps", [3, 7, 18])
def test_softmax_strides_beside_a_size_one_axis(steps):
    g = og.Graph()
    x = g.input("x", og.f32, (3, 2, 1, 3), strides=(3, 9, steps, 1))
    g.output("y", g.softmax(x, axis=3, dtype="f32"), strides=(3, 9, 18, 1))
    given, memory = random_inputs(g), np.full(60, 7, np.float32)
    out = memory[:18].reshape(2, 3, 1, 3).transpose(1, 0, 2, 3)
    g.compile()(**given, out=out)
    np.testing.assert_allclose(out, og.reference.run(g, given)["y"], rtol=1e-5)
    assert set(memory[18:]) == {7}


def test_writes_into_given_arrays():
    g, given = image()
    model = g.compile()
    expected = model(**given)
    plain = np.empty(DIMS, np.float32)
    laid = np.empty((2, 5, 6, 8), np.float32).transpose(0, 3, 1, 2)
    for out in (plain, laid):
        out.fill(np.nan)
        assert model(**given, out=out) is out
        assert np.array_equal(out, expected)
    assert model.bind(**given, y=laid)() is laid
    with pytest.raises(og.ArgumentError, match=r"output 'y': C-contiguous; expected strides of \(240, 1, 48, 8\)"):
        model.bind(**given, y=plain)
    wide = np.full((2, 8, 5, 12), 7, np.float32)
    with pytest.raises(
        og.ArgumentError, match=r"output 'y': not C-contiguous, and not of the strides \(240, 1, 48, 8\)"
    ):
        model(**given, out=wide[..., ::2])
    assert (wide == 7).all()


def test_strided_outputs_keep_the_quick_call(monkeypatch):
    g, given = image()
    h = og.Graph()
    x = h.input("x", og.f32, DIMS, strides=LAST)
    h.output("y", h.relu(x), strides=LAST)
    array = np.ones((2, 5, 6, 8), np.float32).transpose(0, 3, 1, 2)
    for graph, arrays in ((g, tuple(given.values())), (h, (array,))):
        model = graph.compile()
        model(*arrays)  # the first call creates a frame
        monkeypatch.setattr(executable, "slow_call", None)
        assert elements(model(*arrays)) == LAST
        out = np.empty((2, 5, 6, 8), np.float32).transpose(0, 3, 1, 2)
        assert model(*arrays, out=out) is out
        monkeypatch.undo()


@pytest.mark.parametrize("kind", KINDS)
def test_every_op_into_any_strides(kind):
    for seed, policy in draws([(0, "fusion"), (1, "debug"), (2, "fusion")], [*product(range(3), ("fusion", "debug"))]):
        rng, plain = Random(seed), random_graph(seed, 1, kinds=[kind])
        graph = plain.copy()
        graph._outputs = {}
        for name, tensor in plain.outputs.items():
            assert tensor.shape is not None
            axes, step, strides = [*range(len(tensor.shape))], 1, {}
            rng.shuffle(axes)
            for axis in axes:
                strides[axis] = step
                step = step * (tensor.shape[axis] or 1) + rng.choice([0, 0, 3])
            graph.output(name, plain._tensors[tensor.id], strides=[strides[axis] for axis in sorted(axes)])
        found = verify(graph, random_inputs(graph, seed), policy=policy)
        assert found.agrees, (seed, graph, found.report)
        for name, tensor in graph.outputs.items():
            if tensor.strides is not None and found.results[name].size > 1:
                pairs = zip(tensor.shape, elements(found.results[name]), tensor.strides, strict=True)
                assert all(dim == 1 or ours == theirs for dim, ours, theirs in pairs)


def test_outputs_that_no_step_writes():
    """An input, a constant, a view, two names for one result, and a result that a later op reads."""
    g = og.Graph()
    x = g.input("x", og.f32, (3, 4))
    c = g.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    g.output("same", x, strides=(1, 3))
    g.output("constant", c, strides=(1, 5))
    view = g.static_transpose(x, order=[1, 0])
    g.output("view", view, strides=(1, 4))
    total = g.add(x, c)
    g.output("one", total, strides=(1, 3))
    g.output("two", total)
    g.output("again", g.static_reshape(g.exp(g.multiply(total, x)), shape=[2, 6], special_zero=False), strides=(1, 2))
    given = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
    expected = og.reference.run(g, given)
    for policy in ("fusion", "debug"):
        model = g.compile(policy=policy)
        for results in (model(**given)._asdict(), model.bind(**given)()._asdict()):
            for name, array in results.items():
                np.testing.assert_allclose(array, expected[name], rtol=1e-6, err_msg=name)
                declared = g.outputs[name].strides
                assert elements(array) == declared if declared else array.flags.c_contiguous


def test_copies_after_ops_that_write_dense_tensors():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 8))
    g.output("y", g.layer_norm(x, use_affine=False, keep_stats=False), strides=(1, 4))
    norm, copy = g.compile().report().partitions
    assert (norm.executor, copy.executor) == ("oneDNN", "oneDNN")
    assert "LayerNorm writes dense tensors only" in copy.reason


@pytest.mark.parametrize("kind", ["Reorder", "ReLU", "LayerNorm", "StaticTranspose"])
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((90, 70, 1), (280, 4, 1)),  # the last channel of four
        ((100, 63), (252, 4)),
        ((1, 30, 210), (7, 8, 240)),
    ],
)
def test_every_fourth_element_of_a_long_result(kind, shape, strides):
    attrs = {"order": [0, 1, 2][: len(shape)]} if kind == "StaticTranspose" else {}
    if kind == "LayerNorm":
        attrs = {"use_affine": False, "keep_stats": False}
    g = og.Graph()
    x = g.input("x", og.f32, shape)
    g.output("y", g.op(kind, [x], attrs), strides=strides)
    given = np.arange(1, 6301, dtype=np.float32).reshape(shape)
    whole = np.full(sum((dim - 1) * step for dim, step in zip(shape, strides, strict=True)) + 1, -7, np.float32)
    out = np.lib.stride_tricks.as_strided(whole, shape, [4 * step for step in strides])
    g.compile()(given, out=out)
    right = given
    if kind == "LayerNorm":
        right = (given - given.mean(-1, keepdims=True)) / np.sqrt(given.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, right, atol=1e-3)
    assert (whole == -7).sum() == whole.size - 6300


def test_numpy_beside_a_computed_shape():
    g = og.Graph()
    shape = g.add(g.input("counts", og.s32, (3,)), g.constant(np.array([0, 1, 0], np.int32)))
    dy, w = g.input("dy", og.f32, (1, 3, 2)), g.constant(np.ones((2, 2, 2), np.float32))
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.output("dx", g.convolution_backward_data(dy, w, shape, **window))
    g.output("y", g.op("Rsqrt", [dy], edition="legacy-1"), strides=(6, 1, 3))
    model = g.compile()
    counts, gradient = np.array([1, 5, 2], np.int32), np.arange(1, 7, dtype=np.float32).reshape(1, 3, 2)
    results = model(counts, gradient)
    assert {part.kinds: part.executor for part in model.report().partitions}[("Rsqrt",)] == "reference"
    assert elements(results.y) == (6, 1, 3)
    assert np.allclose(results.y, gradient**-0.5)
    laid, plain = np.empty((1, 2, 3), np.float32).transpose(0, 2, 1), np.empty((1, 3, 2), np.float32)
    for out in (laid, plain):
        assert model(counts, gradient, out={"y": out}).y is out
        assert np.allclose(out, gradient**-0.5)


def test_rejects_invalid_strides():
    g = og.Graph()
    x, n = g.input("x", og.f32, (2, 3)), g.input("n", og.f32, (None, 3))
    for strides, text in (
        ((1,), "one integer for each dim"),
        ("21", "one integer for each dim"),
        ((1, 1), "memory of its own"),
        ((3, -1), "a number of elements, 0 to"),
        ((3.0, 1.0), "a number of elements, 0 to"),
        ((2**50, 1), "a number of elements, 0 to"),
    ):
        with pytest.raises(og.ArgumentError, match=f"output 'y': strides: .*{text}"):
            g.output("y", x, strides=strides)
    with pytest.raises(og.ArgumentError, match="of a shape that is known"):
        g.output("y", n, strides=(3, 1))
    assert not g.outputs
    assert g.output("y", x, strides=(3, 1)) is x
    assert g.outputs["y"].strides is None  # these strides are dense


def test_later_ops_may_read_the_output():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.exp(x), strides=(1, 2))
    g.output("z", g.relu(g.outputs["y"]))
    with pytest.raises(og.ArgumentError, match="another graph"):
        og.Graph().relu(g.outputs["y"])
    results = g.compile()(np.zeros((2, 3), np.float32))
    assert (results.z == 1).all()


def test_copies_and_files_keep_strides(tmp_path):
    g, given = image()
    source = tmp_path / "graph.py"
    save_python(g, source)
    for other in (
        g.copy(),
        pickle.loads(pickle.dumps(g)),
        og.Graph.from_json(g.to_json()),
        load_python(source),
        g.specialise({}),
        translate_graph(g, "oneapi-1.2"),
        rebuild(g, Change()),
        g.with_constants({"w": given["w"]}),
    ):
        assert other.outputs["y"].strides == LAST


def test_ignores_strides_with_gaps_in_files():
    g = og.Graph()
    g.output("y", g.exp(g.input("x", og.f32, (2, 3))))
    for stride, found in (([1, 2], (1, 2)), ([1, 2**40], None), ([4, 1], None), ([3, 1], None), ([0, 0], None)):
        form = json.loads(g.to_json())
        form["graph"][0]["outputs"][0]["stride"] = stride
        assert og.Graph.from_json(json.dumps(form)).outputs["y"].strides == found


@pytest.mark.skipif(library.VERSION[:2] != (3, 2), reason="what this version infers")
def test_avoids_strides_that_overflow_in_the_library():
    """The products of these dims overflow there; the result would be written over itself."""
    g = og.Graph()
    a, b = g.input("a", og.f32, (2**16, 1, 1)), g.input("b", og.f32, (1, 2**16, 1))
    c = g.input("c", og.f32, (1, 1, 2**16))
    g.output("y", g.add(g.add(a, b), c))
    with pytest.raises(og.OutOfMemoryError):
        g.compile()(*(np.ones(side, np.float32) for side in ((2**16, 1, 1), (1, 2**16, 1), (1, 1, 2**16))))


@pytest.mark.library
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("is_read", [True, False])
def test_turned_output_whose_source_a_convolution_sees_as_images(groups, is_read):
    """A convolution of rows with a channel in each group reads an image in the memory of its source."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, 16, 4))
    middle = g.tanh(x)
    weights = np.linspace(-1, 1, 48 // groups, dtype=np.float32).reshape(4, 4 // groups, 3)
    windows = g.convolution(middle, weights, groups=groups, weights_format="OIX")
    g.output("turned", g.static_transpose(middle, order=[0, 2, 1]))
    if is_read:
        g.output("windows", windows)
    rows = np.random.default_rng(0).standard_normal((2, 16, 4)).astype(np.float32)
    results = g.compile(threads=1)(rows)
    turned, *others = results if is_read else [results]
    np.testing.assert_allclose(turned, np.tanh(rows).transpose(0, 2, 1), atol=1e-6)
    shifted = np.lib.stride_tricks.sliding_window_view(np.tanh(rows), 3, axis=1)  # image, place, channel, tap
    full = np.zeros((4, 4, 3), np.float32)
    for channel in range(4):
        first = channel if groups == 4 else 0
        full[channel, first : first + 4 // groups] = weights[channel]
    for found in others:
        np.testing.assert_allclose(found, np.einsum("npik,oik->npo", shifted, full), atol=1e-5)


def test_an_output_lies_where_the_library_may_write():
    spec, memory = OutputSpec("y", og.f32, (2, 3), None), aligned_empty((64,), np.dtype(np.uint8))
    fits, shifted = (memory[start : start + 24].view(np.float32).reshape(2, 3) for start in (0, 1))
    assert spec.laid_out(fits) is fits
    for other in (OutputSpec("y", og.f32, (2, 3), (1, 2)).laid_out(fits), spec.laid_out(shifted)):
        assert other is not fits
        assert other is not shifted
        assert other.shape == (2, 3)
        assert is_aligned(other)
