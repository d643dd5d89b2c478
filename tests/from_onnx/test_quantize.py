"""Graphs that quantize makes of samples, against the graphs before."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.onnx_session import session_of

import onegraph as og
from onegraph import reference
from onegraph.tools.ranges import NumberRange

pytestmark = pytest.mark.library

RNG = np.random.default_rng(0)
F32 = np.float32


def normal(*shape, scale=1.0):
    return RNG.normal(0, scale, shape).astype(F32)


def relative(found, expected):
    return float(np.linalg.norm(found.astype(F32) - expected) / np.linalg.norm(expected))


def network(fmt="NXC"):
    """Two convolutions with a norm, a residual, and a product."""
    g = og.Graph()
    shape = (None, 8, 8, 16) if fmt == "NXC" else (None, 16, 8, 8)
    attrs = {"pads_begin": 1, "pads_end": 1, "data_format": fmt, "weights_format": "XIO" if fmt == "NXC" else "OIX"}
    h = g.input("x", og.f32, shape)
    for name in ("first", "second"):
        weights = normal(3, 3, 16, 16, scale=0.1) if fmt == "NXC" else normal(16, 16, 3, 3, scale=0.1)
        norm = [RNG.uniform(0.5, 1.5, 16), RNG.normal(0, 0.1, 16), RNG.normal(0, 0.1, 16), RNG.uniform(0.5, 1.5, 16)]
        y = g.convolution(h, weights, **attrs, name=name)
        y = g.batch_norm_inference(y, *[np.asarray(v, F32) for v in norm], epsilon=1e-5, data_format=fmt)
        h = g.relu(y + h)
    h = g.reduce_mean(h, axes=[1, 2] if fmt == "NXC" else [2, 3])
    g.output("y", g.matmul(h, normal(16, 20, scale=0.3), normal(20), name="head"))
    return g


def samples(fmt="NXC", count=4):
    return [normal(2, *((8, 8, 16) if fmt == "NXC" else (16, 8, 8))) for _ in range(count)]


@pytest.mark.parametrize("fmt", ["NXC", "NCX"])
def test_a_network_computes_with_codes(fmt):
    graph, given = network(fmt), samples(fmt)
    quantized = og.quantize(graph, given)
    assert [(one.name, one.reason) for one in quantized.quantization] == [("first", ""), ("second", ""), ("head", "")]
    x = normal(*given[0].shape)
    expected = graph.compile()(x)
    assert relative(quantized.compile()(x), expected) < 0.03
    assert relative(reference.run(quantized, {"x": x})["y"], expected) < 0.03
    assert not [op for op in quantized.ops if op.kind == "BatchNormInference"]
    assert not graph.quantization


def product(transposed):
    g = og.Graph()
    weights = normal(12, 48) if transposed else normal(48, 12)
    g.output("y", g.matmul(g.input("x", og.f32, (None, 48)), weights, transpose_b=transposed))
    return g, (5, 48)


def convolution(fmt, groups, kind="convolution"):
    g = og.Graph()
    inner = {"XIO": (3, 8 // groups, 12), "OIX": (12, 8 // groups, 3), "IOX": (8, 12 // groups, 3)}
    weights = inner.get(fmt, (3, 12 // groups, 8))
    x = g.input("x", og.f32, (2, 9, 8))
    g.output("y", getattr(g, kind)(x, normal(*weights), groups=groups, weights_format=fmt))
    return g, (2, 9, 8)


CASES = {
    "product": lambda: product(False),
    "transposed product": lambda: product(True),
    **{f"{f} in {n} groups": lambda f=f, n=n: convolution(f, n) for f in ("XIO", "OIX") for n in (1, 4)},
    **{
        f"transposed {f} in {n} groups": lambda f=f, n=n: convolution(f, n, "conv_transpose")
        for f in ("XOI", "IOX")
        for n in (1, 4)
    },
}


@pytest.mark.parametrize("case", CASES)
def test_each_layout_of_weights_has_scales_of_its_channels(case):
    graph, shape = CASES[case]()
    given = [normal(*shape) for _ in range(3)]
    quantized = og.quantize(graph, given, limit=1.0)
    assert [one.reason for one in quantized.quantization] == [""]
    for x in given:
        expected = graph.compile()(x)
        assert relative(reference.run(quantized, {"x": x})["y"], expected) < 0.02
        assert relative(quantized.compile()(x), expected) < 0.02


@pytest.mark.parametrize(
    ("numbers", "dtype", "zero"),
    [(np.linspace(0, 5, 96), "u8", 0), (np.linspace(-5, 5, 96), "s8", 0), (np.linspace(-1, 9, 96), "u8", 25)],
    ids=["unsigned", "symmetric", "far from symmetric"],
)
def test_codes_fit_the_numbers(numbers, dtype, zero):
    graph = og.Graph()
    graph.output("y", graph.matmul(graph.input("x", og.f32, (2, 48)), np.eye(48, 12, dtype=F32)))  # exact codes
    sample = numbers.reshape(2, 48).astype(F32)
    (record,) = og.quantize(graph, [sample]).quantization
    assert (record.dtype, record.zero_point) == (dtype, zero)
    codes = np.rint(sample / record.scale) + zero
    assert codes.min() >= (-1 if zero else 0) if dtype == "u8" else codes.min() == -127
    assert codes.max() in ((254, 255) if dtype == "u8" else (127,))
    rounded = (np.rint(sample / record.scale)) * record.scale
    assert record.error == pytest.approx(relative(rounded, sample), rel=0.6)


def test_percentiles_leave_out_the_outermost_numbers():
    graph, _ = product(False)
    sample = np.clip(normal(400, 48), -3, 3)
    sample[0, 0] = 3000
    (whole,) = og.quantize(graph, [sample], limit=10).quantization
    (cut,) = og.quantize(graph, [sample], method="percentile", percentile=99.9, limit=10).quantization
    assert whole.scale > 11
    assert cut.scale < 2 * 3 / 127 + 3000 / 2048 / 127 * 2


def test_ranges_are_those_of_numpy():
    known, numbers = NumberRange(), normal(1000)
    for part in np.split(numbers, 4):
        known.widen(part)
    for part in np.split(numbers, 4):
        known.fill(part)
    assert (known.low, known.high, known.count) == (numbers.min(), numbers.max(), 1000)
    assert known.square == pytest.approx(np.square(numbers, dtype=np.float64).sum())
    width = (known.high - known.low) / 2048
    low, high = known.inner(99.0)
    assert abs(low - np.quantile(numbers, 0.01)) < 40 * width
    assert abs(high - np.quantile(numbers, 0.99)) < 40 * width


def test_ops_are_excluded_by_name_and_by_error():
    graph, given = network(), samples()
    quantized = og.quantize(graph, given, exclude=["h*d"])
    assert {one.name: one.reason for one in quantized.quantization}["head"] == "it is excluded"
    assert [op.kind for op in quantized.ops].count("Dequantize") >= 4
    all_above = og.quantize(graph, given, limit=1e-6)
    assert all("above the limit" in one.reason for one in all_above.quantization)
    assert not [op for op in all_above.ops if op.kind in ("Quantize", "Dequantize")]
    assert "not quantized: it is excluded" in str(quantized.quantization[-1])
    assert "zero point 0" in str(quantized.quantization[0])


def test_products_keep_their_names():
    graph = network()
    quantized = og.quantize(graph, samples())
    kinds = {op.name: op.kind for op in quantized.ops}
    products = {op.name: op.kind for op in graph.ops if op.kind in ("Convolution", "MatMul")}
    assert products.items() <= kinds.items()
    names = [end.name for op in quantized.ops for end in op.outputs]
    assert len(names) == len({*names})


def test_samples_may_be_named_or_tuples():
    g = og.Graph()
    x, z = g.input("x", og.f32, (2, 32)), g.input("z", og.f32, (2, 8))
    g.output("y", g.matmul(x, normal(32, 8)) + z)
    x, z = normal(2, 32), normal(2, 8)
    first, second = og.quantize(g, [(x, z)]), og.quantize(g, [{"z": z, "x": x}])
    assert first.quantization == second.quantization


def test_a_trained_graph_is_quantized():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 32))
    w = g.variable("w", normal(32, 16))
    g.output("y", g.matmul(x, w))
    quantized = og.quantize(g, [normal(4, 32)])
    assert not quantized.variables
    assert len(quantized.quantization) == 1


def test_a_quantized_graph_runs_in_onnx_runtime(tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    graph, given = network("NCX"), samples("NCX")
    quantized = og.quantize(graph, given)
    og.onnx.save(quantized, tmp_path / "m.onnx")
    found = session_of(tmp_path / "m.onnx").run(None, {"x": given[0]})[0]
    assert relative(found, quantized.compile()(given[0])) < 0.02


def kinds_in_onnx_runtime(path):
    """The kinds of the nodes that ONNX Runtime makes of a model."""
    onnx, optimized = pytest.importorskip("onnx", reason="onnx is not installed"), path.with_suffix(".optimized.onnx")
    session_of(path, optimized)
    return [node.op_type for node in onnx.load(optimized).graph.node]


@pytest.mark.parametrize("fmt", ["NXC", "NCX"])
def test_portable_graphs_are_integers_in_onnx_runtime(fmt, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    graph, given = network(fmt), samples(fmt)
    quantized = og.quantize(graph, given, portable=True)
    og.onnx.save(quantized, tmp_path / "m.onnx")
    kinds = kinds_in_onnx_runtime(tmp_path / "m.onnx")
    assert [kinds.count(kind) for kind in ("QLinearConv", "QLinearAdd", "QGemm")] == [2, 2, 1]
    assert {"Conv", "FusedConv", "Gemm", "MatMul"}.isdisjoint(kinds)
    found, again = quantized.compile()(given[0]), og.onnx.load(tmp_path / "m.onnx").compile()
    assert np.array_equal(again(given[0]), found)
    assert relative(found, graph.compile()(given[0])) < 0.03
    assert relative(session_of(tmp_path / "m.onnx").run(None, {"x": given[0]})[0], found) < 0.02


def test_the_source_and_the_results_of_a_portable_graph_have_codes_of_u8():
    quantized = og.quantize(network(), samples(), portable=True)
    kinds = [(op.kind, op.outputs[0].dtype) for op in quantized.ops if op.kind in ("Quantize", "DynamicQuantize")]
    assert kinds == [("Quantize", og.u8)] * 6
    with pytest.raises(og.ArgumentError, match="quantize: portable"):
        og.quantize(network(), samples(), portable=1)


def biased(bias, scale):
    """A product of u8 codes by s8 codes, with a bias."""
    g = og.Graph()
    src = g.dequantize(g.input("x", og.u8, (2, 8)), scales=[0.5], zps=[3])
    codes = RNG.integers(-9, 9, (8, 4)).astype(np.int8)
    weights = g.dequantize(g.constant(codes), scales=[scale] * 4, qtype="per_channel", axis=1)
    g.output("y", g.matmul(src, weights, np.asarray(bias, F32)))
    return g


@pytest.mark.parametrize(
    ("steps", "scale", "is_coded"),
    [
        ([20, -40, 0, 600], 0.01, True),
        ([20, -40.5, 0, 600], 0.01, False),  # no multiple of the step
        ([0, 0, 2**24, 0], 0.01, True),
        ([0, 0, 2**25, 0], 0.01, False),  # f32 has not all of these integers
        ([0, 0, np.inf, 0], 0.01, False),
        ([0, 0, np.nan, 0], 0.01, False),
        ([0, 0, 0, 0], 1e-38, False),  # the step is subnormal
    ],
)
def test_a_bias_of_whole_steps_beside_codes_is_saved_as_integers(steps, scale, is_coded, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    graph = biased(np.asarray(steps, F32) * (F32(0.5) * F32(scale)), scale)
    og.onnx.save(graph, tmp_path / "m.onnx")
    held = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(tmp_path / "m.onnx").graph.initializer}
    codes = [array for array in held.values() if array.dtype == np.int32]
    assert [array.tolist() for array in codes] == [steps] * is_coded
    x = RNG.integers(0, 256, (2, 8)).astype(np.uint8)
    found, expected = og.onnx.load(tmp_path / "m.onnx").compile()(x), graph.compile()(x)
    np.testing.assert_array_equal(found, expected)


def test_channels_without_weights_keep_their_bias(tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    g, weights = og.Graph(), normal(48, 12)
    weights[:, 3:6] = [0, 1e-12, 1e-39]
    bias = np.concatenate([[0], normal(11)]).astype(F32)
    g.output("y", g.matmul(g.input("x", og.f32, (None, 48)), weights, bias))
    quantized = og.quantize(g, [normal(4, 48)])
    og.onnx.save(quantized, tmp_path / "m.onnx")
    assert "QGemm" in kinds_in_onnx_runtime(tmp_path / "m.onnx")
    for model in (quantized, og.onnx.load(tmp_path / "m.onnx")):
        np.testing.assert_allclose(model.compile()(normal(2, 48))[:, 3:6], [bias[3:6]] * 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": []}, "samples: none"),
        ({"samples": np.zeros((2, 48), F32)}, r"expected a list of the inputs of calls"),
        ({"samples": [{"z": np.zeros((2, 48), F32)}]}, r"samples\[0\]: no array for x"),
        ({"samples": [(np.zeros((2, 48), F32),) * 2]}, r"samples\[0\]: 2 arrays; expected one for each of x"),
        ({"samples": [np.full((2, 48), np.nan, F32)]}, "has NaN or infinities"),
        ({"samples": [np.zeros((0, 48), F32)]}, "'x' has no elements in any of them"),
        ({"samples": [np.zeros((0, 48), F32)], "method": "percentile"}, "'x' has no elements in any of them"),
        ({"method": "entropy"}, "quantize: method.*'entropy'"),
        ({"percentile": 10}, "quantize: percentile: 10"),
        ({"exclude": "head"}, "expected a list of names"),
        ({"exclude": ["hed"]}, r"exclude\[0\]: 'hed' is no op"),
        ({"exclude": ["matmul_0"]}, "to quantize"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    graph, _ = product(False)
    given = {"samples": [normal(2, 48)], **options}
    with pytest.raises(og.ArgumentError, match=message):
        og.quantize(graph, given.pop("samples"), **given)


def test_an_op_that_is_never_quantized_is_not_excluded():
    g = og.Graph()
    g.output("y", g.relu(g.matmul(g.input("x", og.f32, (2, 48)), normal(48, 12), name="fc"), name="act"))
    with pytest.raises(og.ArgumentError, match="'act' names ReLU, which quantize leaves alone; expected one of fc"):
        og.quantize(g, [normal(2, 48)], exclude=["act"])


def test_weights_with_nan_are_refused():
    g = og.Graph()
    weights = normal(48, 12)
    weights[3, 4] = np.nan
    g.output("y", g.matmul(g.input("x", og.f32, (None, 48)), weights))
    with pytest.raises(og.ArgumentError, match="weights with NaN"):
        og.quantize(g, [normal(2, 48)])


def test_codes_are_as_exact_as_those_of_the_quantizer_of_onnx_runtime(tmp_path):
    """Readouts of random features, fitted to the digits that scikit-learn has."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime is not installed")
    package = find_spec("sklearn")
    if package is None:
        pytest.skip("scikit-learn is not installed")
    table = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"  # its import takes a second
    *pixels, target = np.loadtxt(table, F32, delimiter=",", unpack=True)
    digits, target, rng = np.stack(pixels, 1).reshape(-1, 1, 8, 8) / 16, target.astype(int), np.random.default_rng(0)
    wanted = np.eye(10, dtype=F32)[target]

    def model(head):
        g = og.Graph()
        x, (kernel, inner) = g.input("x", "f32", (None, 1, 8, 8)), weights
        x = g.relu(g.convolution(x, kernel, pads_begin=1, pads_end=1, data_format="NCX", weights_format="OIX"))
        x = g.relu(g.matmul(g.static_reshape(x, shape=(-1, 1024), special_zero=False), inner))
        g.output("y", x if head is None else g.matmul(x, head))
        return g

    weights = [rng.normal(0, 0.3, (16, 1, 3, 3)), rng.normal(0, 0.04, (1024, 256))]
    weights = [array.astype(np.float32) for array in weights]
    features = model(None).compile()(digits)
    head = np.linalg.solve(features[:1200].T @ features[:1200] + np.eye(256), features[:1200].T @ wanted[:1200])
    graph, samples = model(head.astype(np.float32)), [digits[first : first + 100] for first in range(0, 1200, 300)]
    og.onnx.save(graph, tmp_path / "f32.onnx")
    reader = type("Reader", (quantization.CalibrationDataReader,), {"get_next": lambda self: next(rest, None)})
    rest = iter([{"x": sample} for sample in samples])
    quantization.quantize_static(tmp_path / "f32.onnx", tmp_path / "int8.onnx", reader(), per_channel=True)
    exact = graph.compile()(digits[1200:])
    both = og.quantize(graph, samples), og.onnx.load(tmp_path / "int8.onnx")
    found = [each.compile()(digits[1200:]) for each in both]
    errors = [relative(each, exact) for each in found]
    shares = [(each.argmax(1) == target[1200:]).mean() for each in (exact, *found)]
    assert shares[0] > 0.9
    assert shares[1] > shares[0] - 0.01
    assert errors[0] < 1.1 * errors[1]
