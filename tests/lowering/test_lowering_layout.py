"""Images keep the layout NXC while a model is lowered, and the results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import onegraph.capi  # noqa: F401

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onegraph import onnx as front  # noqa: E402
from onegraph.builder.graph import DataGraph  # noqa: E402
from onegraph.errors import SpecError  # noqa: E402
from onegraph.lowering.emitter import Emitter  # noqa: E402
from onegraph.lowering.patterns import REWRITES  # noqa: E402

RNG = np.random.default_rng(0)


def model(nodes, shape, **weights):
    """A model of one input x and one output y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def imported(proto, shape):
    """The graph of a model, after its results have been compared with those of the package onnx."""
    x = RNG.standard_normal(shape).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    graph = front.load(proto)
    np.testing.assert_allclose(graph.compile()(x), wanted, rtol=1e-4, atol=1e-5)
    return graph


def kinds(graph):
    return [op.kind for op in graph.ops]


def weights(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def channels_first():
    """A graph whose ops are rewritten, an input of channels first, and the attributes of a convolution over it."""
    graph, zeros, ones = DataGraph(), [0, 0], [1, 1]
    attrs = {"strides": ones, "dilations": ones, "pads_begin": zeros, "pads_end": zeros}
    attrs |= {"data_format": "NCX", "weights_format": "OIX"}
    return graph, Emitter(graph, REWRITES), graph.input("x", "f32", (1, 3, 6, 5)), attrs


def test_replaced_ops_are_never_added():
    graph, emit, x, attrs = channels_first()
    found = emit.op("ReLU", [emit.op("Convolution", [x, weights(4, 3, 1, 1)], attrs)])
    assert found.shape == (1, 4, 6, 5)
    assert kinds(graph) == ["StaticTranspose", "Convolution", "StaticTranspose", "ReLU", "StaticTranspose"]
    assert [op.attrs["data_format"] for op in graph.ops if op.kind == "Convolution"] == ["NXC"]


def test_mistakes_are_named_in_the_layout_of_the_model():
    _, emit, x, attrs = channels_first()
    with pytest.raises(SpecError, match="expected 3, as src has; with data_format='NXC' they agree"):
        emit.op("Convolution", [x, weights(4, 5, 1, 1)], attrs)
    made = emit.op("Convolution", [x, weights(4, 3, 1, 1)], attrs)
    with pytest.raises(SpecError, match="axis: 4; expected an axis of a rank 4 tensor"):
        emit.op("Concat", [made, made], {"axis": 4})


def test_transposes_between_convolutions_cancel():
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["d", "r"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["y"]),
    ]
    proto = model(
        nodes, (2, 3, 5, 7), w=weights(4, 3, 3, 3), b=weights(4), v=weights(4, 4, 3, 3), scale=weights(4, 1, 1)
    )
    graph = imported(proto, (2, 3, 5, 7))
    assert kinds(graph) == [
        "StaticTranspose",
        "Convolution",
        "ReLU",
        "Convolution",
        "Add",
        "Multiply",
        "StaticTranspose",
    ]
    assert all(op.attrs["data_format"] == "NXC" for op in graph.ops if op.kind == "Convolution")


def test_transposes_move_behind_concat_split_and_mean():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Split", ["c"], ["p", "q"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["q", "p", "c"], ["j"], axis=1),
        helper.make_node("ReduceMean", ["j", "axes"], ["y"], keepdims=0),
    ]
    graph = imported(model(nodes, (1, 3, 6, 5), w=weights(4, 3, 1, 1), axes=np.array([2, 3])), (1, 3, 6, 5))
    assert kinds(graph).count("StaticTranspose") == 1


def test_softmax_over_channels_keeps_its_axis():
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Softmax", ["c"], ["y"], axis=1)]
    graph = imported(model(nodes, (1, 3, 4, 5), w=weights(6, 3, 1, 1)), (1, 3, 4, 5))
    assert next(op.attrs["axis"] for op in graph.ops if op.kind == "SoftMax") == 3


def test_softmax_along_the_last_axis_keeps_it():
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Softmax", ["t"], ["y"], axis=3),
    ]
    graph = imported(model(nodes, (2, 5, 7, 4)), (2, 5, 7, 4))
    assert kinds(graph) == ["StaticTranspose", "SoftMax"]
    assert graph.ops[-1].attrs["axis"] == 3


@pytest.mark.parametrize(("factors", "moved"), [((1, 1, 6, 7), True), ((1, 4, 1, 7), False)], ids=str)
def test_transposes_move_behind_products_by_factors_in_the_same_order(factors, moved):
    shape, count = (5, 6, 7, 4), int(np.prod(factors))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("Slice", ["f", "start", "end"], ["s"]),
        helper.make_node("Reshape", ["s", "dims"], ["r"]),
        helper.make_node("Mul", ["t", "r"], ["y"]),
    ]
    known = {"flat": np.int64([-1]), "start": np.int64([0]), "end": np.int64([count]), "dims": np.int64(factors)}
    graph = imported(model(nodes, shape, **known), shape)
    assert (kinds(graph)[-1] == "StaticTranspose") == moved


def test_tensors_of_other_layouts_stay_apart():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    imported(model(nodes, (1, 3, 4, 5), w=weights(3, 3, 1, 1)), (1, 3, 4, 5))


def test_key_of_attention_becomes_one_view():
    nodes = [
        helper.make_node("Reshape", ["x", "heads"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["b", "flat"], ["c"]),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["d", "whole"], ["y"]),
    ]
    shapes = {"heads": [2, 6, 3, 4], "flat": [6, 6, 4], "whole": [2, 3, 4, 6]}
    graph = imported(model(nodes, (2, 6, 12), **{name: np.array(one) for name, one in shapes.items()}), (2, 6, 12))
    assert kinds(graph) == ["StaticReshape", "StaticTranspose"]
    assert graph.ops[1].attrs["order"] == (0, 2, 3, 1)


def test_a_shuffle_of_channels_is_one_copy_with_channels_last():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "groups"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["b", "whole"], ["d"]),
        helper.make_node("Conv", ["d", "v"], ["y"], group=12),
    ]
    sizes = {"groups": np.array([2, 3, 4, 5, 7]), "whole": np.array([2, 12, 5, 7])}
    graph = imported(model(nodes, (2, 6, 5, 7), w=weights(12, 6, 1, 1), v=weights(12, 1, 1, 1), **sizes), (2, 6, 5, 7))
    views = ["StaticReshape", "StaticTranspose", "StaticReshape"]
    assert kinds(graph) == ["StaticTranspose", "Convolution", *views, "Convolution", "StaticTranspose"]
    assert graph.ops[3].outputs[0].shape == (2, 5, 7, 4, 3)


@pytest.mark.parametrize("whole", [[6, 4, 6], [1, 4, 18, 2, 1], [3, 2, 24], [24, 6, 1]])
def test_transposes_before_reshapes_keep_results(whole):
    orders = [range(len(whole))[::-1], [*range(1, len(whole)), 0]]
    for order in orders:
        nodes = [
            helper.make_node("Transpose", ["x"], ["a"], perm=[2, 0, 3, 1]),
            helper.make_node("Reshape", ["a", "whole"], ["b"]),
            helper.make_node("Transpose", ["b"], ["y"], perm=[*order]),
        ]
        graph = imported(model(nodes, (2, 6, 3, 4), whole=np.array(whole)), (2, 6, 3, 4))
        assert kinds(graph)[-1] in ("StaticReshape", "StaticTranspose")


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_reshapes_and_transposes_keep_their_results(seed):
    rng = np.random.default_rng(seed)
    factors = [2, 3, 1, 4, 5]
    shape, nodes, known = (2, 12, 5), [], {}
    name = "x"
    for number in range(5):
        result = "y" if number == 4 else f"t{number}"
        if number % 2:
            order = rng.permutation(len(shape)).tolist()
            nodes.append(helper.make_node("Transpose", [name], [result], perm=order))
            shape = tuple(shape[axis] for axis in order)
        else:
            cut = sorted(rng.choice(np.arange(1, 5), rng.integers(1, 4), replace=False).tolist())
            parts = np.split(rng.permutation(factors), cut)
            shape = tuple(int(np.prod(part)) for part in parts)
            known[f"s{number}"] = np.array(shape)
            nodes.append(helper.make_node("Reshape", [name, f"s{number}"], [result]))
        name = result
    imported(model(nodes, (2, 12, 5), **known), (2, 12, 5))


@pytest.mark.parametrize(("indices", "count"), [(np.array(1), 1), (np.array([1, 2]), 1), (np.array([[-2, -1]]), 1)])
def test_gather_of_neighbours_is_a_slice(indices, count):
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], axis=1)]
    graph = imported(model(nodes, (2, 4, 3), i=indices), (2, 4, 3))
    assert kinds(graph).count("Slice") == count
    assert "Gather" not in kinds(graph)


def test_gather_of_other_indices_stays():
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], axis=1)]
    assert "Gather" in kinds(imported(model(nodes, (2, 4, 3), i=np.array([2, 0])), (2, 4, 3)))


def test_numbers_of_channels_go_into_the_norm_before():
    vectors = {name: np.abs(weights(4)) + 0.5 for name in ("gamma", "beta", "mean", "variance")}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("BatchNormalization", ["r", "gamma", "beta", "mean", "variance"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["m"]),
        helper.make_node("Add", ["shift", "m"], ["y"]),
    ]
    known = {**vectors, "scale": weights(4, 1, 1), "shift": weights(1, 4, 1, 1)}
    graph = imported(model(nodes, (2, 4, 5, 3), **known), (2, 4, 5, 3))
    assert [kind for kind in kinds(graph) if kind != "StaticTranspose"] == ["ReLU", "BatchNormInference"]


def test_softmax_of_a_view_runs_over_the_last_axis():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "dims"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=2),
    ]
    proto = model(nodes, (2, 3, 5, 7), w=weights(32, 3, 1, 1), dims=np.int64([2, 4, 8, 35]))
    graph = imported(proto, (2, 3, 5, 7))
    (softmax,) = [op for op in graph.ops if op.kind == "SoftMax"]
    assert softmax.outputs[0].shape == (2, 35, 4, 8)
    assert softmax.attrs["axis"] == 3


def test_slices_side_by_side_are_joined():
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Concat", ["b", "c", "r", "c", "b"], ["y"], axis=1),
    ]
    graph = imported(model(nodes, (2, 12, 5, 7)), (2, 12, 5, 7))
    (concat,) = [op for op in graph.ops if op.kind == "Concat" and len(op.inputs) == 4]
    assert [one.shape[1] for one in concat.inputs] == [8, 4, 4, 4]


CONCAT = helper.make_node("Concat", ["a", "b"], ["c"], axis=1)
PARTS = [
    helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[1, 1]),
    helper.make_node("Relu", ["a"], ["b"]),
]


def read(graph, name="y"):
    """The kinds of ops that the output needs."""
    makers = {tensor.id: op for op in graph.ops for tensor in op.outputs}
    found, left = set(), [graph.outputs[name].id]
    while left:
        op = makers.get(left.pop())
        if op is not None and op not in found:
            found.add(op)
            left += [one.id for one in op.inputs if one is not None]
    return sorted(op.kind for op in found if op.kind not in ("StaticTranspose", "ReLU", "AvgPool"))


def test_narrow_convolution_of_a_concat_is_a_sum():
    nodes = [*PARTS, CONCAT, helper.make_node("Conv", ["c", "w", "bias"], ["y"])]
    proto = model(nodes, (2, 6, 5, 7), w=weights(4, 12, 1, 1), bias=weights(4))
    assert read(imported(proto, (2, 6, 5, 7))) == ["Add", "Convolution", "Convolution"]


@pytest.mark.parametrize(
    ("size", "attrs"),
    [((5, 12, 1, 1), {}), ((4, 12, 1, 3), {}), ((4, 12, 1, 1), {"strides": [2, 2]}), ((4, 6, 1, 1), {"group": 2})],
    ids=["wide", "window", "strides", "groups"],
)
def test_other_convolutions_keep_the_concat(size, attrs):
    nodes = [*PARTS, CONCAT, helper.make_node("Conv", ["c", "w"], ["y"], **attrs)]
    graph = imported(model(nodes, (2, 6, 5, 7), w=weights(*size)), (2, 6, 5, 7))
    assert read(graph) == ["Concat", "Convolution"]


def test_pool_of_a_concat_comes_before_it():
    nodes = [*PARTS, CONCAT, helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[3, 3], strides=[2, 2])]
    graph = imported(model(nodes, (2, 6, 9, 7)), (2, 6, 9, 7))
    assert read(graph) == ["Concat", "MaxPool", "MaxPool"]
    (concat,) = [op for op in graph.ops if op.kind == "Concat" and op.outputs[0].shape == (2, 4, 3, 12)]
    assert {one.shape for one in concat.inputs} == {(2, 4, 3, 6)}


def resized(mode, *convolution):
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["r"], mode=mode, nearest_mode="floor"),
        helper.make_node("Conv", ["r", "w", "bias"], ["y"]),
    ]
    nodes[0].attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    return model(nodes, (2, 6, 5, 7), w=weights(*convolution), bias=weights(4), scales=np.float32([1, 1, 2, 2]))


def test_convolution_runs_before_upsampling():
    graph = imported(resized("nearest", 4, 6, 1, 1), (2, 6, 5, 7))
    (convolution,) = [op for op in graph.ops if op.kind == "Convolution" and op.outputs[0].shape == (2, 5, 7, 4)]
    assert read(graph) == ["Convolution", "Interpolate"]
    assert convolution.inputs[0].shape == (2, 5, 7, 6)


def test_window_runs_behind_upsampling():
    graph = imported(resized("nearest", 4, 6, 3, 3), (2, 6, 5, 7))
    assert [op.outputs[0].shape for op in graph.ops if op.kind == "Convolution"][-1] == (2, 8, 12, 4)


@pytest.mark.parametrize(
    ("slope", "kind"), [((4, 1, 1), "PReLU"), ((1, 4, 1, 1), "PReLU"), ((1,), "LeakyReLU"), ((5,), "PReLU")], ids=str
)
def test_prelu_keeps_channels_last(slope, kind):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("PRelu", ["c", "s"], ["p"]),
        helper.make_node("Conv", ["p", "v"], ["y"]),
    ]
    slopes = np.abs(weights(*slope)) * np.arange(1, 1 + np.prod(slope), dtype=np.float32).reshape(slope)
    proto = model(nodes, (1, 3, 6, 5), w=weights(4, 3, 1, 1), s=slopes, v=weights(2, 4, 1, 1))
    assert kinds(imported(proto, (1, 3, 6, 5))) == [
        "StaticTranspose", "Convolution", kind, "Convolution", "StaticTranspose"
    ]  # fmt: skip
