"""Graphs as ONNX models: other runtimes compute the same, and models that are read again are the same graphs."""

import os
import pickle
from base64 import b64encode
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import LONG, draws
from helpers import convolution_cases
from helpers.grouped import grouped
from helpers.host_cases import cases, graph_of

import onegraph as og
import onegraph.capi
from onegraph.errors import ArgumentError, FormatError, UnsupportedError
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.legacy_ops import OPS as LEGACY
from onegraph.opset.editions.registry import BASE, base_of, edition
from onegraph.reference import run
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.expected_results import ReferenceOracle

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
from helpers.onnx_compare import by_runtime, difference  # noqa: E402
from helpers.onnx_nodes import Case, model_of  # noqa: E402
from helpers.onnx_runs import run_in_reference, run_in_runtime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.frontends.onnx.save import REFUSED, WRITERS, Exporter  # noqa: E402
from onegraph.frontends.onnx.saving.interpolation import weights_along  # noqa: E402

HOST = edition("host").schemas
RNG = np.random.default_rng(5)
RUNNABLE = [case for case in CASES if case.kind not in ("Wildcard", "End")]
# The first case of every op, and some of the others.
STEP = 1 if LONG else 5
CHOSEN = [case for n, case in enumerate(RUNNABLE) if n % STEP == 0 or case.kind != RUNNABLE[n - 1].kind]
FIRST = [case for n, case in enumerate(RUNNABLE) if case.kind != RUNNABLE[n - 1].kind]
# Cases in which a model computes something else in ONNX Runtime, and on numpy when it is read again.
TWICE = "ONNX has no product of more than two axes with a bias, so that the sum is rounded twice"
DIFFERENT = {"MatMul-batch-bf16": TWICE}
DIFFERENT_AGAIN = {**DIFFERENT, "MatMul-batch-f16": TWICE}
# Random graphs in which a runtime computes something else, by edition and seed.
STEEP = "nodes round the difference of large numbers in f32"
RANDOM_DIFFERENT = {("legacy-1", 36): TWICE, ("legacy-1", 65): STEEP, ("onednn-3.13", 98): STEEP}
# Ops whose nodes depend on dims: without them no model is written.
WITH_DIMS = {
    "AvgPoolBackward",
    "ConvTransposeBackwardWeights",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "InterpolateBackward",
    "MaxPoolBackward",
    "PReLU",
    "PReLUBackward",
}
# Host ops that ONNX Runtime lacks for a data type; the package onnx runs them.
NO_KERNEL = {(kind, "float64") for kind in ("Acosh", "Asinh", "Atan", "Cosh", "Sinh", "Tan")}


@pytest.fixture(autouse=True)
def runtime():
    reason = "ONNX Runtime is not installed"
    pytest.importorskip("onnxruntime", reason=reason).set_default_logger_severity(4)


def built(case, known=True):
    """The graph of a case and its inputs; inputs that decide shapes are constants."""
    graph, tensors, arrays = og.Graph(), [], {}
    for place, array in enumerate(case.inputs):
        dtype = OF_NUMPY[array.dtype]
        if place in BASE[case.kind].shape_inputs:
            tensors.append(graph.constant(array, dtype=dtype))
        else:
            tensors.append(graph.input(f"x{place}", dtype, array.shape if known else (None,) * array.ndim))
            arrays[f"x{place}"] = array
    found = graph.op(case.kind, tensors, case.attrs, dtype=case.dtype, outputs=case.outputs, name="the op")
    for place, tensor in enumerate(found if isinstance(found, tuple) else (found,)):
        graph.output(f"y{place}", tensor)
    return graph, arrays


def saved(graph, folder):
    """The model that is written for a graph; the package onnx accepts it."""
    path = folder / "model.onnx"
    onegraph.onnx.save(graph, path)
    model = onnx.load(path)
    onnx.checker.check_model(str(path), full_check=True)
    return model


def disagreements(graph, arrays, got):
    """The outputs whose difference from the reference rounding does not explain."""
    oracle = ReferenceOracle(graph, arrays, "strict", 0, lambda *_: None)
    expected = oracle.expected({tensor.id for tensor in graph.outputs.values()})
    for name, tensor in graph.outputs.items():
        wanted = expected[tensor.id].exact
        assert (got[name].dtype, got[name].shape) == (wanted.dtype, wanted.shape)
    return [one for one in oracle.compare(graph, got, expected) if not one.agrees]


# The table -----------------------------------------------------------------------------------------------------------


def test_every_op_is_written_or_refused_with_a_reason():
    kinds = {*BASE, *(base_of(schema).kind for schema in (*LEGACY, *HOST.values()))}
    assert {*WRITERS} | {*REFUSED} == kinds
    assert {*WRITERS} & {*REFUSED} == set()


def test_name_of_a_json_file_is_refused(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (2,))))
    with pytest.raises(og.ArgumentError, match=r"expected the path of an ONNX file; Graph\.save writes JSON"):
        og.onnx.save(g, tmp_path / "model.json")
    assert not [*tmp_path.iterdir()]


def test_wildcards_are_refused_by_name(tmp_path):
    graph = og.Graph()
    graph.output("y", graph.op("Wildcard", [graph.input("x", "f32", (2,))], name="w", dtype="f32", outputs=["dst"]))
    with pytest.raises(UnsupportedError, match="Wildcard 'w' in ONNX: it stands for a computation"):
        onegraph.onnx.save(graph, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


# Other runtimes ------------------------------------------------------------------------------------------------------


@grouped("case", CHOSEN)
def test_onnx_runtime_computes_the_case(case, tmp_path):
    graph, arrays = built(case)
    found = disagreements(graph, arrays, run_in_runtime(saved(graph, tmp_path), arrays))
    assert bool(found) == (str(case) in DIFFERENT), found


def refusal(case):
    """What the error says of a host op that no node of ONNX computes; none for other cases."""
    dtypes = [np.asarray(array).dtype.name for array in case.inputs]
    if case.kind == "CouplePairs":
        return "no node of ONNX couples probabilities of pairs"
    if case.kind == "TreeEnsemble" and dtypes[0] == "float64":
        return "TreeEnsemble: float64"
    if case.kind == "LookUp" and "float64" in dtypes:
        return "keys of float64 and values of s64; ONNX has s64 and f32"
    if case.kind == "LookUp" and not case.known:
        return "keys is no constant; ONNX has it as an attribute"
    return ""


@grouped("case", cases())
def test_other_runtimes_compute_the_host_op(case, tmp_path):
    graph, arrays = graph_of(case)
    if reason := refusal(case):
        with pytest.raises(UnsupportedError, match=f"{case.kind} .*({reason})"):
            saved(graph, tmp_path)
        return
    model = saved(graph, tmp_path)
    if case.kind == "NonZero" and not case.inputs[0].ndim:
        return  # ONNX Runtime makes a row for a scalar; ONNX says that there is none
    try:
        got = run_in_runtime(model, arrays)
        assert (case.kind, case.inputs[0].dtype.name) not in NO_KERNEL
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) or (case.kind, case.inputs[0].dtype.name) not in NO_KERNEL:
            raise
        got = run_in_reference(model, arrays)
    for found, wanted in zip(got.values(), case.results, strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("words", convolution_cases.WORDS, ids=lambda words: f"{words.kind}-{words.edition}")
def test_onnx_runtime_computes_drawn_convolutions(words, tmp_path):
    """With known dims, and with dims of which none is known where a model can be written."""
    rng = np.random.default_rng([*words.kind.encode()])
    for number in range(draws(3, 40)):
        case = convolution_cases.make(rng, words, "f32")
        graph = og.Graph(edition=words.edition)
        arrays = {f"x{place}": array for place, array in enumerate(case.inputs)}
        is_open = number % 3 == 2 and words.role == "forward"
        tensors = [
            graph.input(name, "f32", (None,) * one.ndim if is_open else one.shape) for name, one in arrays.items()
        ]
        if case.shape_value is not None:
            tensors.append(graph.constant(np.array(case.shape_value, np.int32)))
        graph.output("y", graph.op(words.kind, tensors, case.attrs))
        refused = words.transposed or max(case.attrs["dilations"]) > 1
        if is_open and case.attrs["auto_pad"].startswith("same") and refused:
            with pytest.raises(UnsupportedError, match="dims of the padding are unknown; specialise the graph first"):
                saved(graph, tmp_path)
            continue
        found = run_in_runtime(saved(graph, tmp_path), arrays)["y"]
        np.testing.assert_allclose(found, case.expected, rtol=1e-5, atol=1e-5, err_msg=str(case))


@pytest.mark.parametrize("dims", ["open", "without a rank"])
def test_ops_with_one_unknown_shape_are_written_or_refused(dims):
    """No other error, whichever of the inputs has it."""
    hosts = {case.kind: case for case in cases()}
    for case, words in [*((case, "onednn-3.13") for case in FIRST), *((case, "host") for case in hosts.values())]:
        for unknown in range(len(case.inputs)):
            graph, ends = og.Graph(strict=False), []
            for place, array in enumerate(case.inputs):
                if array is None or (array.dtype.kind in "iu" and place != unknown):
                    ends.append(None if array is None else graph.constant(array, dtype=OF_NUMPY[array.dtype]))
                    continue
                shape = array.shape if place != unknown else (None,) * array.ndim if dims == "open" else None
                ends.append(graph.input(f"x{place}", OF_NUMPY[array.dtype], shape))
            given = {"dtype": case.dtype, "outputs": getattr(case, "outputs", None)}
            options = {name: one for name, one in given.items() if one}
            made = graph.op(case.kind, ends, case.attrs, edition=words, **options)
            for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
                if one is not None:
                    graph.output(f"y{place}", one)
            with suppress(UnsupportedError):
                Exporter(graph).model()


def test_trees_whose_tables_do_not_fit_are_no_model():
    case = next(case for case in cases() if case.kind == "TreeEnsemble" and len(case.inputs) > 6)
    graph, _ = graph_of(replace(case, inputs=[*case.inputs[:6], case.inputs[6][:2]]))
    with pytest.raises(UnsupportedError, match=r"TreeEnsemble .* in ONNX: a leaf beyond 1"):
        Exporter(graph).model()


@pytest.mark.parametrize("words", [None, "host"])
def test_axes_of_an_unknown_rank_are_turned(words, tmp_path):
    graph, x = og.Graph(), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    kind = "StaticTranspose" if words is None else "Transpose"
    graph.output("y", graph.op(kind, [graph.input("x", "f32", None)], {"order": []}, edition=words))
    onegraph.onnx.save(graph, tmp_path / "model.onnx")
    assert np.array_equal(run_in_runtime(onnx.load(tmp_path / "model.onnx"), {"x": x})["y"], x.T)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize(
    "dims", [((5,), (5,)), ((5,), (5, 4)), ((5,), (3, 5, 4)), ((4, 5), (5,)), ((3, 4, 5), (5,))], ids=str
)
def test_onnx_runtime_multiplies_vectors_and_turned_matrices(dims, turned, tmp_path):
    graph, arrays, factors = og.Graph(), {}, [RNG.standard_normal(shape).astype(np.float32) for shape in dims]
    for name, one, turn in zip("ab", factors, turned, strict=True):
        arrays[name] = np.swapaxes(one, -1, -2) if turn and one.ndim > 1 else one
    ends = [graph.input(name, "f32", one.shape) for name, one in arrays.items()]
    graph.output("y", graph.matmul(*ends, transpose_a=turned[0], transpose_b=turned[1]))
    found = run_in_runtime(saved(graph, tmp_path), arrays)["y"]
    np.testing.assert_allclose(found, np.matmul(*factors), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dims", "shape", "wanted"),
    [((0, 6), (0, -1, 2), (0, 3, 2)), ((0, 4), (-1, 4), (0, 4)), ((2, 0), (0, -1, 3), (0, 0, 3)), ((0, 4), (0,), (0,))],
    ids=str,
)
def test_onnx_runtime_reshapes_tensors_without_elements(dims, shape, wanted, tmp_path):
    for known in (dims, (None, None)):
        graph = og.Graph()
        ends = [graph.input("x", "f32", known), graph.constant(np.array(shape), dtype=og.s64)]
        graph.output("y", graph.op("Reshape", ends, edition="host"))
        if None in known and 0 in shape and -1 in shape:
            with pytest.raises(UnsupportedError, match="dims of dst are unknown; specialise the graph first"):
                saved(graph, tmp_path)
            continue
        assert run_in_runtime(saved(graph, tmp_path), {"x": np.zeros(dims, np.float32)})["y"].shape == wanted


def has_open_numbers(graph, arrays):
    """Whether a tensor has NaN or infinities, of which ONNX does not say what ops make."""
    every = graph.copy()
    shown = {tensor.id for tensor in every.outputs.values()}
    for op in every.ops:
        for tensor in op.outputs:
            if tensor.id not in shown:
                every.output(f"every {len(every.outputs)}", tensor)
                shown.add(tensor.id)
    return not all(np.isfinite(array.astype(np.float64)).all() for array in run(every, arrays).values())


@pytest.mark.parametrize("name", ["onednn-3.13", "legacy-1"])
def test_onnx_runtime_computes_random_graphs(name, tmp_path):
    count, compared = draws(40, 100), 0
    for seed in range(count):
        graph = random_graph(seed, 8, edition=name, dtypes=("f32", "bf16", "f16", "s8", "u8", "s4", "u4"))
        arrays = random_inputs(graph, seed)
        if has_open_numbers(graph, arrays):
            continue
        compared += 1
        found = disagreements(graph, arrays, run_in_runtime(saved(graph, tmp_path), arrays))
        assert bool(found) == ((name, seed) in RANDOM_DIFFERENT), (name, seed, found)
    assert compared > 0.6 * count


@grouped("case", FIRST)
def test_unknown_dims_are_written_or_refused(case, tmp_path):
    graph, arrays = built(case, known=False)
    padding = str(case.attrs.get("auto_pad", "none"))
    refused = case.kind in WITH_DIMS or (case.kind.startswith("ConvTranspose") and padding.startswith("same"))
    if case.kind in ("AvgPool", "MaxPool"):
        is_ceil = padding == "none" and case.attrs.get("rounding_type") == "ceil"
        refused |= is_ceil and not case.attrs.get("exclude_pad", True)
        steps = zip(case.attrs["strides"], case.attrs["kernel"], strict=True)
        refused |= padding.startswith("same") and any(step > size for step, size in steps)
    if refused:
        with pytest.raises(UnsupportedError, match="specialise the graph first"):
            saved(graph, tmp_path)
        return
    got = run_in_runtime(saved(graph, tmp_path), arrays)
    for name, wanted in run(graph, arrays).items():
        assert (got[name].dtype, got[name].shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got[name].astype(np.float64), wanted.astype(np.float64), rtol=1e-3, atol=1e-4)


def test_a_foreign_node_is_written_as_a_function(tmp_path):
    matrix = helper.make_tensor_value_info("matrix", TensorProto.FLOAT, [3, 3])
    number = helper.make_tensor_value_info("number", TensorProto.FLOAT, [])
    inner = helper.make_graph([helper.make_node("Det", ["matrix"], ["number"])], "node", [matrix], [number])
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    graph = og.Graph()
    attrs = {"model": b64encode(model.SerializeToString()).decode(), "nodes": "Det", "shapes": (0,)}
    tensor = graph.input("x", "f32", (3, 3))
    found = graph._add_op(edition("host"), "OnnxNode", attrs, [tensor], (og.f32,), name="det", names=["det.dst"])
    graph.output("y", found[0])
    got = run_in_runtime(saved(graph, tmp_path), {"x": np.diag([2, 3, 4]).astype(np.float32)})
    assert got["y"] == 24


def loaded(kind, arrays, opset, outputs=1, known=(), **attrs):
    """A model with one node of an op set, read as a graph, and the arrays of its inputs."""
    model, feeds = model_of(Case(kind, arrays, attrs, known=known, outputs=outputs), opset)
    return onegraph.onnx.load(model), feeds, by_runtime(model, feeds)


IMAGE = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
BOXES = {"X": IMAGE, "rois": np.float32([[0, 0, 3, 4]]), "batch_indices": np.array([0])}
SIGNAL = {"input": IMAGE[..., :1], "dft_length": np.array(4), "axis": np.array(1)}
KEPT = {
    "boxes before op set 16": ("RoiAlign", BOXES, 10, {"output_height": 2}),
    "boxes of op set 16": ("RoiAlign", BOXES, 16, {"output_width": 2}),
    "an axis as an attribute": ("DFT", {**SIGNAL, "axis": None}, 17, {"axis": 2, "known": ("dft_length",)}),
    "an axis as an input": ("DFT", SIGNAL, 20, {"known": ("dft_length", "axis")}),
    "places of a pool": ("MaxPool", {"X": IMAGE}, 11, {"kernel_shape": [2, 1], "outputs": 2}),
    "a determinant": ("Det", {"X": IMAGE[0]}, 11, {}),
    "a cache": ("TensorScatter", {"past_cache": IMAGE, "update": IMAGE[:, :, :2]}, 24, {}),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "arrays", "opset", "attrs"), KEPT.values(), ids=KEPT)
def test_kept_nodes_are_written_in_the_op_set_of_the_model(kind, arrays, opset, attrs, tmp_path):
    graph, feeds, wanted = loaded(kind, arrays, opset, **attrs)
    assert {op.edition for op in graph.ops} == {"host"}
    model = saved(graph, tmp_path)
    for found in (run_in_runtime(model, feeds), run(onegraph.onnx.load(model), feeds)):
        for name, array in zip(graph.outputs, wanted, strict=True):
            assert difference(found[name], array) == ""


def test_kept_branches_are_written_in_the_op_set_of_the_model(tmp_path):
    ports = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in "xyq"}
    inner = [helper.make_node("Hardmax", ["x"], ["q"], axis=1)], [helper.make_node("Softmax", ["x"], ["q"], axis=1)]
    graphs = [helper.make_graph(nodes, f"b{place}", [], [ports["q"]]) for place, nodes in enumerate(inner)]
    fork = helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    choice = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    whole = helper.make_graph([fork], "g", [ports["x"], choice], [ports["y"]])
    old = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    model = saved(onegraph.onnx.load(old), tmp_path)
    for flag in (True, False):
        feeds = {"x": RNG.standard_normal((2, 3, 4)).astype(np.float32), "c": np.array(flag)}
        assert difference(run_in_runtime(model, feeds)["y"], by_runtime(old, feeds)[0]) == ""


# Round trips ---------------------------------------------------------------------------------------------------------


@grouped("case", CHOSEN[::2])
def test_a_model_is_read_as_the_same_op(case, tmp_path):
    graph, arrays = built(case)
    onegraph.onnx.save(graph, tmp_path / "model.onnx")
    again = onegraph.onnx.load(tmp_path / "model.onnx")
    for ports in ("inputs", "outputs"):
        found, wanted = getattr(again, ports), getattr(graph, ports)
        assert [(name, one.dtype) for name, one in found.items()] == [(name, one.dtype) for name, one in wanted.items()]
        if case.kind != "Interpolate":  # the reader has no Resize
            assert [one.shape for one in found.values()] == [one.shape for one in wanted.values()]
    assert all(op.name.startswith("the op") for op in again.ops)
    found = disagreements(graph, arrays, run(again, arrays))
    assert bool(found) == (str(case) in DIFFERENT_AGAIN), found


def test_gradients_stay_the_ops_that_they_were(tmp_path):
    graph = og.Graph()
    src, diff = graph.input("src", "bf16", (2, 3)), graph.input("diff", "bf16", (2, 3))
    graph.output("y", graph.gelu_backward(src, diff, mode="gelu_tanh", name="slope"))
    onegraph.onnx.save(graph, tmp_path / "model.onnx")
    (op,) = onegraph.onnx.load(tmp_path / "model.onnx").ops
    assert (op.kind, op.name, dict(op.attrs)) == ("GELUBackward", "slope", {"mode": "gelu_tanh"})


# Form ----------------------------------------------------------------------------------------------------------------


def image(graph, bias=True):
    weights = [graph.constant(RNG.normal(size=(3, 3, 4, 4)).astype(np.float32)) for _ in range(2)]
    ones = {name: [1, 1] for name in ("pads_begin", "pads_end")}
    src = graph.input("image", "f32", (None, 8, 8, 4))
    return src, weights, {"strides": [1, 1], "dilations": [1, 1], **ones}


def test_transposes_between_channels_last_ops_cancel(tmp_path):
    graph = og.Graph()
    src, weights, attrs = image(graph)
    first = graph.convolution(src, weights[0], **attrs, name="first")
    sum_ = graph.add(graph.relu(first, name="act"), first, name="sum")
    graph.output("y", graph.convolution(sum_, weights[1], **attrs, name="second"))
    model = saved(graph, tmp_path)
    assert [(node.op_type, node.name) for node in model.graph.node] == [
        ("Transpose", "first/Transpose"),
        ("Conv", "first"),
        ("Relu", "act"),
        ("Add", "sum"),
        ("Conv", "second"),
        ("Transpose", "second/Transpose"),
    ]
    assert [tuple(one.dims) for one in model.graph.initializer] == [(4, 4, 3, 3)] * 2
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [
        "image_0", 8, 8, 4,
    ]  # fmt: skip


def test_int8_convolutions_are_in_the_qdq_form(tmp_path):
    graph = og.Graph()
    src = graph.dequantize(graph.input("src", "u8", (1, 6, 6, 4)), scales=[0.1], zps=[3])
    weights = graph.constant(RNG.integers(-9, 9, (3, 3, 4, 5)).astype(np.int8))
    wide = graph.dequantize(weights, qtype="per_channel", axis=3, scales=[0.1] * 5, zps=[0] * 5)
    zero, one = [0, 0], [1, 1]
    dst = graph.convolution(src, wide, strides=one, pads_begin=zero, pads_end=zero, dilations=one)
    graph.output("dst", graph.quantize(dst, dtype="u8", scales=[0.5], zps=[7]))
    model = saved(graph, tmp_path)
    kinds = ["Transpose", "DequantizeLinear", "DequantizeLinear", "Conv", "QuantizeLinear", "Transpose"]
    assert sorted(node.op_type for node in model.graph.node) == sorted(kinds)
    (conv,) = [node for node in model.graph.node if node.op_type == "Conv"]
    makers = {name: node for node in model.graph.node for name in node.output}
    assert [makers[name].op_type for name in conv.input] == ["DequantizeLinear"] * 2
    attrs = {one.name: one.i for one in makers[conv.input[1]].attribute}
    assert attrs["axis"] == 0
    assert (5, 4, 3, 3) in [tuple(one.dims) for one in model.graph.initializer]


def test_equal_ops_share_a_function(tmp_path):
    graph = og.Graph()
    src, diff = graph.input("src", "f32", (2, 3)), graph.input("diff", "f32", (2, 3))
    once = graph.relu_backward(src, diff)
    graph.output("y", graph.tanh_backward(src, graph.relu_backward(src, once)))
    model = saved(graph, tmp_path)
    assert [(one.domain, one.name) for one in model.functions] == [
        ("onegraph", "ReLUBackward"),
        ("onegraph", "TanhBackward"),
    ]


def test_an_input_may_be_an_output_twice(tmp_path):
    graph = og.Graph()
    src = graph.input("x", "f32", (2,))
    constant = graph.constant(np.float32([5, 6]))
    for name, tensor in (("a", src), ("b", src), ("c", graph.relu(src)), ("d", constant)):
        graph.output(name, tensor)
    graph.output("e", graph._by_id[graph.outputs["c"].id])
    got = run_in_runtime(saved(graph, tmp_path), {"x": np.float32([-1, 2])})
    assert {name: array.tolist() for name, array in got.items()} == {
        "a": [-1, 2], "b": [-1, 2], "c": [0, 2], "d": [5, 6], "e": [0, 2],
    }  # fmt: skip


def test_the_oldest_op_set_with_all_types_is_used(tmp_path):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "bf16", (2,))))
    model = saved(graph, tmp_path)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 22)]
    assert (model.ir_version, model.producer_name) == (10, "onegraph")


# Files ---------------------------------------------------------------------------------------------------------------


def small():
    graph = og.Graph()
    weights = graph.constant(np.arange(1200, dtype=np.float32).reshape(30, 40))
    more = graph.constant(np.arange(2400, dtype=np.float32).reshape(40, 60) / 1000)
    graph.output("y", graph.matmul(graph.matmul(graph.input("x", "f32", (1, 30)), weights), more))
    return graph


def test_large_models_have_their_constants_beside_them(tmp_path, monkeypatch):
    graph, arrays = small(), {"x": np.ones((1, 30), np.float32)}
    monkeypatch.setattr(import_module("onegraph.frontends.onnx.save"), "MAX_BYTES", 1000)
    model = saved(graph, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    assert (tmp_path / "model.onnx").stat().st_size < 2000
    again = onegraph.onnx.load(tmp_path / "model.onnx")
    np.testing.assert_array_equal(run(again, arrays)["y"], run(graph, arrays)["y"])
    assert disagreements(graph, arrays, run_in_runtime(model, arrays)) == []


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("old")
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x\n", "f32", (2,))))
    with pytest.raises(UnsupportedError, match="printable"):
        onegraph.onnx.save(graph, path)
    assert path.read_text() == "old"


def test_a_symbolic_link_stays(tmp_path):
    (tmp_path / "link.onnx").symlink_to(tmp_path / "model.onnx")
    onegraph.onnx.save(small(), tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    assert onnx.load(tmp_path / "model.onnx").graph.output[0].name == "y"


@pytest.mark.parametrize(
    ("path", "error"),
    [(Path("/"), ArgumentError), (3, ArgumentError), ("a\0b", ArgumentError), ("/missing/folder/m.onnx", FormatError)],
    ids=str,
)
def test_paths_that_no_file_can_have_are_refused(path, error):
    with pytest.raises(error):
        onegraph.onnx.save(small(), path)


def test_open_dims_keep_their_names(tmp_path):
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", None, 3]) for name in ("x", "y")
    ]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", ports[:1], ports[1:]), ir_version=10)
    graph = og.onnx.load(model)
    graph.replace("y", graph.tanh(graph.tensor("x")))
    for changed in (graph, graph.copy(), pickle.loads(pickle.dumps(graph))):
        og.onnx.save(changed, tmp_path / "again.onnx")
        dims = onnx.load(tmp_path / "again.onnx").graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", "x_1", 3]
    wider = og.onnx.load(model, shapes={"x": (None, 3)})
    og.onnx.save(wider, tmp_path / "wider.onnx")
    assert onnx.load(tmp_path / "wider.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "x_0"


def test_weighted_rows_of_an_unknown_rank_are_refused(tmp_path):
    graph = og.Graph()
    src, places = graph.input("x", og.f32), graph.input("i", og.s64, (2, 3))
    shares = graph.input("w", og.f32, (2, 3))
    graph.output("y", graph.op("WeightedGather", [src, places, shares], {"axis": 1}, edition="host"))
    with pytest.raises(UnsupportedError, match="rank"):
        onegraph.onnx.save(graph, tmp_path / "x.onnx")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("places", ["half_pixel", "align_corners"])
def test_each_new_element_is_made_of_its_neighbours(mode, places):
    options = {"mode": mode, "coordinate_transformation_mode": places}
    for old, new in ((1, 3), (2, 2), (2, 5), (5, 2), (4, 7), (6, 1)):
        if places == "align_corners":
            at = np.arange(new) * (old - 1) / max(new - 1, 1)
        else:
            at = (np.arange(new) + 0.5) * old / new - 0.5
        if mode == "nearest":
            at = np.floor(at + 0.5)
        wanted = [np.interp(at, np.arange(old), row) for row in np.eye(old)]
        np.testing.assert_allclose(weights_along(SimpleNamespace(string=options.get), old, new), np.transpose(wanted))
