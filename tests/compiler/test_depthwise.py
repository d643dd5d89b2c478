"""Convolutions with a channel in each group, which run as images or with explicit padding where the library is slow."""

import numpy as np
import onnx
import pytest
from helpers.pass_graphs.depthwise import FAR, C, drawn, image, row, weights_of
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onegraph as og
import onegraph.onnx
from onegraph import reference
from onegraph.faults.depthwise import FAR_PADS, SLOW_ROWS

pytestmark = pytest.mark.library


def compare(g, tolerance=1e-4):
    """Compare a graph with the reference; returns the reasons that the report states."""
    given = {name: drawn(*one.shape) for name, one in g.inputs.items()}
    model = g.compile()
    np.testing.assert_allclose(model(**given), reference.run(g, given)["out"], rtol=tolerance, atol=10 * tolerance)
    return " ".join(reason for part in model.report().partitions for reason in part.reasons)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("layout", ["OIX", "XIO"])
@pytest.mark.parametrize("kind", ["Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights"])
def test_rows_are_seen_as_images(kind, layout, data_format):
    g, y = row(kind, layout, data_format, (2, 30))
    g.output("out", y)
    assert SLOW_ROWS.reason in compare(g)


@pytest.mark.parametrize("length", [1, 3])
def test_transposed_rows_become_images_without_numpy(length):
    g = og.Graph()
    rows = g.op("StaticTranspose", [g.input("x", "f32", (2, C, 30))], {"order": [0, 2, 1]})
    how = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1], "groups": C, "data_format": "NXC"}
    weights = g.constant(drawn(*weights_of("XIO", length)))
    g.output("out", g.op("Convolution", [rows, weights], {**how, "weights_format": "XIO"}))
    assert SLOW_ROWS.reason in compare(g)
    assert {part.executor for part in g.compile().report().partitions} <= {"oneDNN", "view"}


@pytest.mark.parametrize("kind", ["Convolution", "ConvolutionBackwardWeights"])
@pytest.mark.parametrize(
    "attrs",
    [{"strides": [2]}, {"dilations": [4], "pads_begin": [4], "pads_end": [4]}, {"pads_begin": [0], "pads_end": [2]}],
    ids=str,
)
def test_other_windows_over_rows(kind, attrs):
    g, y = row(kind, "OIX", "NXC", (2, 31), **attrs)
    g.output("out", y)
    is_fast = kind == "Convolution" or "dilations" not in attrs
    assert (SLOW_ROWS.reason in compare(g)) == is_fast


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("behind", ["relu", "add", "scaled", "shared", "twice"])
def test_ops_behind_see_images_too(behind, is_constant, bias):
    g, y = row("Convolution", "OIX", "NXC", (2, 30), is_constant=is_constant, bias=bias)
    if behind == "relu":
        y = g.relu(y)
    elif behind == "add":
        y = g.sigmoid(g.add(g.input("z", "f32", (2, 30, C)), g.square(y)))
    elif behind == "scaled":
        y = g.multiply(g.add(y, g.constant(drawn(C))), g.input("s", "f32", (1, 30, 1)))
    elif behind == "shared":
        y = g.add(g.relu(y), g.tanh(y))
    else:  # a value that is computed later than the convolution
        y = g.add(y, g.tanh(g.op("MatMul", [g.input("a", "f32", (2, 30, 5)), g.constant(drawn(5, C))], {})))
    g.output("out", y)
    reasons = compare(g)
    assert SLOW_ROWS.reason in reasons


@pytest.mark.usefixtures("finite_math")
def test_a_residual_is_fused_with_a_row():
    g, y = row("Convolution", "OIX", "NXC", (2, 30))
    g.output("out", g.relu(g.add(y, g.input("z", "f32", (2, 30, C)))))
    assert [len(part.ops) for part in g.compile().report().partitions if part.executor == "oneDNN"] == [3]


def test_a_normalization_is_folded_into_the_weights_of_a_row():
    g, y = row("Convolution", "OIX", "NXC", (2, 30))
    vectors = [g.constant(np.abs(drawn(C)) + 0.5) for _ in range(4)]
    g.output("out", g.op("BatchNormInference", [y, *vectors], {"epsilon": 1e-5}))
    assert SLOW_ROWS.reason in compare(g)
    assert sum(part.executor == "oneDNN" for part in g.compile().report().partitions) == 1


@pytest.mark.parametrize("groups", [1, 12])
def test_rows_of_other_groups_stay(groups):
    g = og.Graph()
    how = {"strides": [1], "pads_begin": [1], "pads_end": [1], "dilations": [1], "groups": groups}
    y = g.op("Convolution", [g.input("x", "f32", (2, 30, C)), g.constant(drawn(3, C // groups, C))], how)
    g.output("out", y)
    assert SLOW_ROWS.reason not in compare(g)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(
    ("dilations", "pads", "is_far"),
    [
        ([FAR, FAR], ([FAR, FAR], [FAR, FAR]), True),
        ([2, FAR], ([2, FAR], [2, 0]), True),
        ([2, FAR], ([2, 0], [2, FAR]), True),
        ([FAR, 2], ([FAR, 2], [FAR, 2]), False),
        ([4, 4], ([4, 4], [4, 4]), False),
        ([1, 1], ([FAR, FAR], [FAR, FAR]), False),
    ],
    ids=str,
)
def test_wide_padding_of_rows_is_added_before(dilations, pads, is_far, data_format):
    assert (FAR_PADS.reason in compare(image(dilations, pads, data_format))) == is_far


@pytest.mark.usefixtures("finite_math")
def test_ops_behind_wide_padding_stay_fused():
    g = image([FAR, FAR], ([FAR, FAR], [FAR, FAR]), behind=True)
    assert FAR_PADS.reason in compare(g)
    assert [len(part.ops) for part in g.compile().report().partitions if part.executor == "oneDNN"] == [2]


def test_small_images_are_not_copied():
    g = image([FAR, FAR], ([FAR, FAR], [FAR, FAR]), size=(8, 9))
    assert FAR_PADS.reason not in compare(g)


VOLUMES = {
    "as in an X3D": ((1, C, 4, 6, 5), (3, 3, 3), {"pads": [1] * 6}),
    "strides of the frames": ((1, C, 5, 7, 6), (3, 3, 3), {"pads": [1] * 6, "strides": [1, 2, 2]}),
    "along time": ((1, C, 6, 3, 2), (5, 1, 1), {"pads": [2, 0, 0, 2, 0, 0]}),
    "pads of one side, and gaps": ((1, C, 6, 5, 7), (2, 3, 2), {"pads": [3, 0, 1, 1, 2, 0], "dilations": [2, 1, 2]}),
    "several volumes": ((3, C, 4, 4, 4), (3, 3, 3), {"pads": [1, 1, 1, 0, 1, 1]}),
    "as large as without padding": ((1, C, 4, 5, 3), (2, 3, 3), {"auto_pad": "SAME_UPPER"}),
}


def volume(shape, window, attrs, groups=C):
    """A model in the ONNX format with one convolution of volumes, and its inputs."""
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=groups, **attrs)
    known = {"w": drawn(C, shape[1] // groups, *window), "b": drawn(C)}
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None))
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in known.items()]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": drawn(*shape)}


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_are_sums_of_frames(name):
    proto, inputs = volume(*VOLUMES[name])
    (wanted,) = ReferenceEvaluator(proto).run(None, inputs)
    g = og.onnx.load(proto)
    np.testing.assert_allclose(g.compile()(**inputs), wanted, rtol=1e-4, atol=1e-4)
    assert {len(op.inputs[0].shape) for op in g.ops if op.kind == "Convolution"} == {4}


@pytest.mark.parametrize(
    ("attrs", "groups"), [({"strides": [2, 1, 1]}, C), ({"pads": [1] * 6}, C // 2)], ids=["time has strides", "groups"]
)
def test_other_volumes_stay(attrs, groups):
    proto, inputs = volume((1, C, 4, 5, 3), (3, 3, 3), attrs, groups)
    (wanted,) = ReferenceEvaluator(proto).run(None, inputs)
    g = og.onnx.load(proto)
    np.testing.assert_allclose(g.compile()(**inputs), wanted, rtol=1e-4, atol=1e-4)
    assert [len(op.inputs[0].shape) for op in g.ops if op.kind == "Convolution"] == [5]


@pytest.mark.parametrize(
    ("window", "attrs"),
    [((5, 1, 1), {}), ((2, 1, 1), {"dilations": [0, 1, 1]}), ((2, 1, 1), {"pads": [-1, 0, 0, 0, 0, 0]}), ((2, 1), {})],
    ids=["a window larger than the volume", "no gap", "a negative pad", "weights of images"],
)
def test_wrong_volumes_are_errors(window, attrs):
    proto, inputs = volume((1, C, 3, 3, 3), window, attrs)
    with pytest.raises(og.OneGraphError, match=r"Conv|OnnxNode"):
        og.onnx.load(proto).compile()(**inputs)


def test_an_op_behind_an_image_may_update_a_variable():
    g, before = og.Graph(), np.full((2, 30, C), -1, np.float32)
    value, x = g.variable("v", before), g.input("x", "f32", (2, 30, C))
    how = {"strides": [1], "pads_begin": [1], "pads_end": [1], "dilations": [1], "groups": C, "data_format": "NXC"}
    y = g.relu(g.convolution(x, np.ones((C, 1, 3), np.float32), **how, weights_format="OIX"))
    g.assign(value, y)
    g.output("z", g.add(value, x))
    model, given = g.compile(), np.random.default_rng(0).standard_normal((2, 30, C)).astype(np.float32)
    around = np.pad(given, ((0, 0), (1, 1), (0, 0)))
    after = np.maximum(around[:, :-2] + around[:, 1:-1] + around[:, 2:], 0)
    for old in (before, after):
        np.testing.assert_allclose(model(given), old + given, rtol=1e-4, atol=1e-4)
