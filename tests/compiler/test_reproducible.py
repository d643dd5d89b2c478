"""With ``reproducible=True``, results have the same bits for any number of threads and any batch size."""

import pickle

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from benchmarks import inference
from benchmarks.models import gpt2
from benchmarks.models.network import Network
from onegraph.capi.settings import has_avx512
from onegraph.compiler.independent_rows import independent_parts
from onegraph.compiler.kernels import winograd
from onegraph.compiler.lower import lower
from onegraph.runtime import compiled_program, equal_bits
from tests.helpers.command_line import onegraph

LARGEST = 16
# (batch, threads): every batch, and numbers of threads; make test-long has every number with most batches.
RUNS = draws(
    [(3, 1), (3, 4), (1, 3), (2, 2), (16, 7)],
    [(3, 1), (3, 2), (3, 3), (3, 4), (3, 7), (1, 1), (1, 2), (1, 3), (1, 7), (2, 2), (5, 3), (16, 2), (16, 7)],
)


def rows_of(model, batch, array):
    """The bytes of the result for each of the images of a batch."""
    result = model(array)
    return [part.tobytes() for part in np.split(result, batch)]


def assert_same_bits(graph_of, array_of, runs=RUNS, **options):
    known = {}
    for batch, threads in runs:
        model = graph_of(batch).compile(reproducible=True, threads=threads, **options)
        for index, row in enumerate(rows_of(model, batch, array_of(batch))):
            assert known.setdefault(index, row) == row, f"batch {batch}, {threads} threads, image {index}"


def small_models():
    for model in inference.models(quick=True):
        for kind in model.kinds:
            yield pytest.param(model, kind, id=f"{model.name}, {kind}")


@pytest.mark.parametrize(("model", "kind"), [*small_models()])
def test_models_have_same_bits_for_threads_and_batches(model, kind):
    dtype = og.f32 if kind == "int8" else og.DataType(kind)
    everything = inference.random(model.shape(LARGEST), dtype)

    def array_of(batch):
        return everything[: model.shape(batch)[0]]

    def graph_of(batch):
        if kind != "int8":
            net = Network(model.parameters, dtype)
        else:
            net = inference.Int8(model.parameters, inference.calibrated(model.parameters, model.forward, array_of(2)))
        net.graph.output("result", model.forward(net, net.input("x", model.shape(batch))))
        return net.graph

    assert_same_bits(graph_of, array_of)


def test_generator_of_text_has_same_bits_for_threads_and_batches():
    width, words, tokens = 32, 50, 8
    parameters = gpt2.parameters(width, 2, words, tokens)
    everything = np.random.default_rng(0).integers(0, words, LARGEST * tokens, np.int32)

    def graph_of(batch):
        net = Network(parameters)
        given = net.graph.input("words", og.s32, (batch * tokens,))
        net.graph.output("scores", gpt2.forward(net, given, batch, tokens, heads=4, layers=2))
        return net.graph

    assert_same_bits(graph_of, lambda batch: everything[: batch * tokens])


def deconvolution(batch):
    """A ConvTranspose whose kernel adds in an order that depends on threads and batch, in oneDNN 3.2 with AVX-512."""
    g, rng = og.Graph(), np.random.default_rng(0)
    x = g.input("x", "f32", (batch, 32, 32, 64))
    weights = g.constant(rng.standard_normal((4, 4, 3, 64)).astype(np.float32))
    window = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    g.output("y", g.conv_transpose(x, weights, data_format="NXC", weights_format="XIO", **window))
    return g


def images(batch):
    return np.random.default_rng(1).standard_normal((LARGEST, 32, 32, 64)).astype(np.float32)[:batch]


def test_transposed_convolution_has_same_bits():
    assert_same_bits(deconvolution, images)


def test_transformed_convolution_has_same_bits(monkeypatch):
    """Images are divided into two strips each, so strips never have tiles of two images."""
    monkeypatch.setattr(winograd, "STRIP_BYTES", 1 << 20)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    rows = rng.standard_normal((LARGEST, 32, 32, 64)).astype(np.float32)

    def graph_of(batch):
        g, window = og.Graph(), {"pads_begin": (1, 1), "pads_end": (1, 1), "data_format": "NXC"}
        x = g.input("x", "f32", (batch, 32, 32, 64))
        g.output("y", g.abs(g.convolution(x, g.constant(weights), weights_format="OIX", **window)))
        return g

    assert_same_bits(graph_of, lambda batch: rows[:batch], RUNS[:4] + RUNS[5:8])
    report = graph_of(3).compile(reproducible=True).report()
    products = [part for part in report.partitions if part.kinds == ("Convolution: MatMul",)]
    assert len(products) == 6
    assert all(part.reason.endswith("reproducible; products for tiles of one image") for part in products)


def product(batch, kind="f32"):
    g = og.Graph()
    x = g.input("x", kind, (batch, 512))
    drawn = np.random.default_rng(0).standard_normal((512, 70)).astype(og.DataType(kind).numpy)
    g.output("y", g.leaky_relu(g.matmul(x, g.constant(drawn)), alpha=0.1))
    return g


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_product_has_same_bits(kind):
    rows = np.random.default_rng(1).standard_normal((LARGEST, 512)).astype(og.DataType(kind).numpy)
    assert_same_bits(lambda batch: product(batch, kind), lambda batch: rows[:batch])


def test_dynamic_batch_has_same_bits():
    g = og.Graph()
    x = g.input("x", "f32", (None, 512))
    weights = np.random.default_rng(0).standard_normal((512, 70)).astype(np.float32)
    g.output("y", g.matmul(x, g.constant(weights)))
    rows = np.random.default_rng(1).standard_normal((LARGEST, 512)).astype(np.float32)
    model = g.compile(reproducible=True)
    whole = model(rows)
    for batch in (1, 2, 3, 5):
        assert model(rows[:batch]).tobytes() == whole[:batch].tobytes()
    assert model.cache_info().misses == 5
    assert "reproducible" in str(model.report())


def test_training_step_has_same_bits_for_any_number_of_threads():
    g, rng = og.Graph(), np.random.default_rng(0)
    x = g.input("x", "f32", (16, 14, 14, 32))
    w = g.input("w", "f32", (3, 3, 32, 48))
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = g.convolution(x, w, data_format="NXC", weights_format="XIO", **window)
    gamma, beta = (g.input(name, "f32", (48,)) for name in ("gamma", "beta"))
    y = g.layer_norm(y, gamma, beta, keep_stats=False)
    for name, tensor in zip("abcd", g.gradient([g.gelu(y)], [x, w, gamma, beta]), strict=True):
        g.output(name, tensor)
    arrays = {name: rng.standard_normal(one.shape).astype(np.float32) for name, one in g.inputs.items()}
    found = {
        tuple(array.tobytes() for array in g.compile(reproducible=True, threads=threads)(**arrays))
        for threads in (1, 2, 3, 4, 7)
    }
    assert len(found) == 1


# The choice of a form ------------------------------------------------------------------------------------------------


def test_gradient_of_attention_has_same_bits_for_any_number_of_threads():
    g = og.Graph()
    query = g.input("query", og.f32, (1, 4, 300, 16))
    key, value = (g.input(name, og.f32, (1, 2, 300, 16)) for name in ("key", "value"))
    dst, _ = g.op("Attention", [query, key, value], edition="host", outputs=["dst", "logsumexp"])
    for name, tensor in zip(("dst", "dq", "dk", "dv"), (dst, *g.gradient(dst, [query, key, value])), strict=True):
        g.output(name, tensor)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(tensor.shape, np.float32) for tensor in g.inputs.values()]
    models = [g.compile(reproducible=True, threads=threads) for threads in (1, 2, 3)]
    assert len({tuple(array.tobytes() for array in model(*arrays)) for model in models}) == 1
    (reason,) = (one.reason for one in models[2].report().partitions if one.kinds == ("AttentionBackward",))
    assert reason.endswith("; reproducible, on 1 of 3 threads, because on more the kernel adds in another order")


def test_fewer_threads_are_used_where_bits_differ(monkeypatch):
    monkeypatch.setattr(compiled_program, "agrees", lambda case: case.threads == 1)
    model = product(3).compile(reproducible=True, threads=4)
    (report,) = model.report().partitions
    assert report.threads == 1
    assert report.reason == "reproducible, on 1 of 4 threads, because on more the kernel adds in another order"


def test_parts_of_the_batch_run_one_by_one_where_bits_differ(monkeypatch):
    monkeypatch.setattr(compiled_program, "agrees", lambda case: False)
    model = product(3).compile(reproducible=True, threads=2)
    (report,) = model.report().partitions
    assert (report.threads, "in 3 parts of the batch" in report.reason) == (1, True)
    rows = np.random.default_rng(1).standard_normal((3, 512)).astype(np.float32)
    alone = product(1).compile(threads=1)
    expected = np.concatenate([alone(rows[index : index + 1]) for index in range(3)])
    np.testing.assert_array_equal(model(rows), expected)
    assert len(model.profile(rows, runs=1)) == 1


@pytest.mark.skipif(not has_avx512(), reason="f32 products of several rows differ from those of one")
def test_comparison_notices_another_result(monkeypatch):
    cases = []

    def recorded(case):
        cases.append(case)
        return equal_bits.agrees(case)

    monkeypatch.setattr(compiled_program, "agrees", recorded)
    product(3).compile(reproducible=True, threads=1)
    case = cases[0]
    assert (case.parts, case.threads) == (3, 1)
    if not equal_bits.agrees(case):
        pytest.skip("this library multiplies one row by a kernel that adds in another order")
    assert not equal_bits.agrees(case._replace(canonical=lambda part: case.canonical(min(part, 1))))


def test_one_image_is_compared_with_one_thread(monkeypatch):
    seen = []
    monkeypatch.setattr(compiled_program, "agrees", lambda case: seen.append((case.threads, case.parts)) or False)
    (report,) = product(1).compile(reproducible=True, threads=4).report().partitions
    assert (seen, report.threads) == ([(4, 1), (2, 1), (1, 1)], 1)


def test_ordinary_programs_are_not_compared(monkeypatch):
    monkeypatch.setattr(compiled_program, "agrees", lambda case: pytest.fail("compared"))
    report = product(3).compile().report()
    assert "reproducible" not in str(report)


# Independent rows ----------------------------------------------------------------------------------------------------


def parts_of(build, *shapes):
    g = og.Graph()
    inputs = [g.input(f"x{index}", "f32", shape) for index, shape in enumerate(shapes)]
    g.output("y", build(g, *inputs))
    lowered = lower(g)
    found = independent_parts(lowered.steps, lowered.values)
    names = {tensor.id: f"x{index}" for index, tensor in enumerate(inputs)}
    return found and ({names[number] for number in found.values if number in names}, found.number)


def softmax(axis):
    return lambda g, x: g.softmax(x, axis=axis)


def quantized(axis):
    def build(g, x):
        count = x.shape[axis]
        scales, zeros = [0.5] * count, [0] * count
        return g.quantize(x, scales=scales, zps=zeros, qtype="per_channel", axis=axis, dtype="s8")

    return build


def prelu(g, x, slope):
    return g.prelu(x, slope, per_channel_broadcast=False)


@pytest.mark.parametrize(
    ("build", "shapes", "expected"),
    [
        (lambda g, x, w: g.matmul(x, w), [(6, 5), (5, 6)], ({"x0"}, 6)),
        (lambda g, x, w: g.matmul(x, w, transpose_a=True), [(5, 6), (5, 6)], None),
        (lambda g, x, w: g.matmul(x, w), [(4, 6, 5), (4, 5, 6)], ({"x0", "x1"}, 4)),
        (lambda g, x, w: g.matmul(x, w), [(4, 6, 5), (1, 5, 6)], ({"x0"}, 4)),
        (lambda g, x, w: g.add(g.matmul(x, w), w), [(6, 6), (6, 6)], None),
        (lambda g, x, y: g.add(x, y), [(4, 3), (3,)], ({"x0"}, 4)),
        (lambda g, x, y: g.add(x, y), [(4, 3), (1, 3)], ({"x0"}, 4)),
        (lambda g, x, y: g.add(g.relu(x), y), [(4, 3), (4, 3)], ({"x0", "x1"}, 4)),
        (prelu, [(4, 3), (4, 3)], ({"x0", "x1"}, 4)),
        (prelu, [(4, 3), (1, 3)], ({"x0"}, 4)),
        (prelu, [(4, 3), (3,)], ({"x0"}, 4)),
        (lambda g, x, y: g.squared_difference(x, y), [(4, 3), (3,)], ({"x0"}, 4)),
        (softmax(1), [(4, 3)], ({"x0"}, 4)),
        (softmax(0), [(4, 3)], None),
        (softmax(-2), [(4, 3)], None),
        (lambda g, x: g.reduce_max(x, axes=[1], keep_dims=False), [(4, 3)], ({"x0"}, 4)),
        (lambda g, x: g.static_reshape(x, shape=(2, 6, 4), special_zero=False), [(12, 4)], ({"x0"}, 2)),
        (lambda g, x: g.static_transpose(x, order=(0, 2, 1)), [(4, 2, 3)], ({"x0"}, 4)),
        (lambda g, x: g.static_transpose(x, order=(1, 0)), [(4, 2)], None),
        (lambda g, x: g.static_transpose(x, order=(-2, -1)), [(4, 2)], ({"x0"}, 4)),
        (lambda g, x: g.static_transpose(x, order=()), [()], None),
        (lambda g, x: g.reduce_sum(x, axes=[1]), [(4, 2)], ({"x0"}, 4)),
        (lambda g, x: g.reduce_sum(x, axes=[-1, -2]), [(4, 2)], None),
        (lambda g, x: g.layer_norm(x, begin_norm_axis=1, use_affine=False, keep_stats=False), [(4, 2, 3)], ({"x0"}, 4)),
        (lambda g, x: g.layer_norm(x, begin_norm_axis=0, use_affine=False, keep_stats=False), [(4, 2, 3)], ({"x0"}, 1)),
        (lambda g, x: g.quantize(x, scales=[0.5], zps=[0], dtype="s8"), [(4, 2)], ({"x0"}, 4)),
        (quantized(axis=1), [(4, 2)], ({"x0"}, 4)),
        (quantized(axis=-2), [(4, 4)], None),
        (lambda g, x: g.bias_add(x, np.ones(3, np.float32), data_format="NCX"), [(4, 3, 2)], ({"x0"}, 4)),
        (lambda g, x, y: g.add(x, y), [(4, 3), (2, 4, 3)], ({"x1"}, 2)),
        (lambda g, x, y: g.bias_add_backward(g.add(x, y), data_format="NCX"), [(4, 2, 3), (4, 2, 3)], None),
    ],
)
def test_independent_parts(build, shapes, expected):
    assert parts_of(build, *shapes) == expected


# Options -------------------------------------------------------------------------------------------------------------


def test_option_is_a_flag():
    with pytest.raises(og.ArgumentError, match="reproducible"):
        product(1).compile(reproducible=1)


def test_pickle_keeps_the_option():
    model = pickle.loads(pickle.dumps(product(2).compile(reproducible=True)))
    assert "reproducible" in str(model.report())


@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_commands_take_the_option(command, tmp_path):
    path = tmp_path / "graph.json"
    product(2).save(path)
    option = ["--reproducible", "no,yes", "--seconds", "0", "--runs", "1"] if command == "bench" else ["--reproducible"]
    result = onegraph(command, path, *option)
    assert result.returncode == 0, result.stderr
    assert command == "verify" or "reproducible" in result.stdout
