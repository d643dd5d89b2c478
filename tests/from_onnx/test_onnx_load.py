"""Loading models: files, bytes, external data, old op sets, sequences, and input that is not valid."""

import os
import random

import numpy as np
import pytest
from helpers.onnx_session import session_of

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.arrays.mapped_files import file_of  # noqa: E402
from onegraph.frontends.onnx import evaluate  # noqa: E402
from onegraph.frontends.onnx.tables.selection import _distinct  # noqa: E402
from onegraph.frontends.onnx.wire import cut  # noqa: E402
from tests.fuzz import grow  # noqa: E402

F = TensorProto.FLOAT
RNG = np.random.default_rng(1)
W = RNG.standard_normal((48, 64), np.float32)  # more than the 4096 bytes that stay in the message


def info(name, shape=(2, 48), dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), opset=21, functions=(), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [*initializers])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=[*functions], **more)


def product(weights=None):
    weights = numpy_helper.from_array(W, "w") if weights is None else weights
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return model([node], [info("x")], [info("y", (2, 64))], [weights])


def run(graph, **arrays):
    return graph.compile()(**arrays)


X = RNG.standard_normal((2, 48), np.float32)


@pytest.mark.parametrize("form", ["path", "text", "bytes", "bytearray", "proto"])
def test_takes_every_form_of_a_model(form, tmp_path):
    path = tmp_path / "m.onnx"
    data = product().SerializeToString()
    path.write_bytes(data)
    given = {"path": path, "text": str(path), "bytes": data, "bytearray": bytearray(data), "proto": product()}[form]
    np.testing.assert_allclose(run(onegraph.onnx.load(given), x=X), X @ W, rtol=1e-4, atol=1e-5)


def test_weights_are_read_into_the_constant_itself(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    (constant,) = [tensor for op in onegraph.onnx.load(path).ops for tensor in op.inputs if tensor.constant]
    assert constant.value.ctypes.data % 64 == 0
    np.testing.assert_array_equal(constant.value, W)


def test_the_structure_is_parsed_without_large_tensors():
    data = product().SerializeToString()
    pieces = cut(memoryview(data))
    assert len(pieces.structure) < 400
    ((offset, size),) = pieces.chunks
    assert data[offset : offset + size] == W.tobytes()


def test_large_tensors_of_attributes_are_found(tmp_path):
    value = numpy_helper.from_array(W, "value")
    nodes = [helper.make_node("Constant", [], ["w"], value=value), helper.make_node("MatMul", ["x", "w"], ["y"])]
    data = model(nodes, [info("x")], [info("y", (2, 64))]).SerializeToString()
    np.testing.assert_allclose(run(onegraph.onnx.load(data), x=X), X @ W, rtol=1e-4, atol=1e-5)


STORED = ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2", "BFLOAT16", "FLOAT16", "INT8", "UINT16"]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("count", [6, 9000])
def test_reads_tensors_of_every_size(name, count):
    values = np.arange(count) % 7
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    weights = numpy_helper.from_array(values.astype(dtype), "w")
    nodes = [helper.make_node("Cast", ["w"], ["v"], to=F), helper.make_node("Add", ["x", "v"], ["y"])]
    data = model(nodes, [info("x", ())], [info("y", (count,))], [weights], opset=23).SerializeToString()
    np.testing.assert_array_equal(run(onegraph.onnx.load(data), x=np.float32([0]).reshape(())), values.astype("f4"))


# External data -------------------------------------------------------------------------------------------------------


def external(**entries):
    tensor = TensorProto(name="w", data_type=F, dims=W.shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder, tensor):
    path = folder / "m.onnx"
    path.write_bytes(product(tensor).SerializeToString())
    return path


@pytest.mark.parametrize("offset", [0, 3, "3".zfill(19)])
def test_reads_external_data(offset, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(int(offset)) + W.tobytes() + b"rest")
    path = saved(tmp_path, external(offset=offset, length=W.nbytes))
    np.testing.assert_allclose(run(onegraph.onnx.load(path), x=X), X @ W, rtol=1e-4, atol=1e-5)


def test_aligned_external_data_is_not_copied(tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    graph = onegraph.onnx.load(saved(tmp_path, external()))
    (constant,) = [tensor for op in graph.ops for tensor in op.inputs if tensor.constant]
    assert file_of(constant.value).path == str(tmp_path / "w.bin")


ESCAPES = {
    "a parent": "../w.bin",
    "an absolute path": "/etc/passwd",
    "a link that leaves": "out",
    "a folder that is a link": "away/w.bin",
    "a missing file": "none.bin",
    "a pipe": "pipe",
    "the folder itself": ".",
    "a name with NUL": "w\0.bin",
    "no name": "",
    "a device": "/dev/zero",
}


@pytest.mark.parametrize("location", ESCAPES.values(), ids=ESCAPES)
def test_reads_nothing_outside_the_folder(location, tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "out").symlink_to(tmp_path / "w.bin")
    (inner / "away").symlink_to(tmp_path)
    os.mkfifo(inner / "pipe")
    path = saved(inner, external(location=location))
    with pytest.raises(og.FormatError, match=r"initializer 'w': external data in .*; expected a file in the folder"):
        onegraph.onnx.load(path)


@pytest.mark.parametrize(
    "entries",
    [
        *({"offset": 1 << 40}, {"length": 1 << 40}, {"offset": 8}, {"offset": -4}, {"length": "4e9"}, {"length": 4}),
        *({"offset": "0" * 20}, {"offset": "\u0660"}, {"length": ""}),
    ],
    ids=str,
)
def test_refuses_parts_that_a_file_lacks(entries, tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(og.FormatError, match="initializer 'w'"):
        onegraph.onnx.load(saved(tmp_path, external(**entries)))


def test_external_data_needs_a_path():
    with pytest.raises(og.FormatError, match=r"initializer 'w'.*loaded from a path"):
        onegraph.onnx.load(product(external()))


# Shapes and values ---------------------------------------------------------------------------------------------------


def dynamic():
    nodes = [helper.make_node("Add", ["x", "y"], ["z"])]
    return model(nodes, [info("x", ("n", 3)), info("y", ("n", 3))], [info("z", ("n", 3))])


def test_named_dims_are_unknown():
    graph = onegraph.onnx.load(dynamic())
    assert graph.inputs["x"].shape == graph.inputs["y"].shape == (None, 3)
    found = run(graph, x=np.ones((5, 3), "f4"), y=np.ones((5, 3), "f4"))
    np.testing.assert_array_equal(found, np.full((5, 3), 2, "f4"))


@pytest.mark.parametrize("shapes", [{"n": 4}, {"x": (4, 3), "y": [4, 3]}], ids=str)
def test_shapes_take_names_of_dims_and_inputs(shapes):
    graph = onegraph.onnx.load(dynamic(), shapes=shapes)
    assert graph.inputs["x"].shape == graph.inputs["y"].shape == (4, 3)


def test_an_input_may_have_the_name_of_a_dim():
    nodes = [helper.make_node("Relu", ["n"], ["y"])]
    graph = onegraph.onnx.load(model(nodes, [info("n", ("n", 3))], [info("y", ("n", 3))]), shapes={"n": (4, 3)})
    assert graph.inputs["n"].shape == (4, 3)


def test_values_make_inputs_known():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    proto = model(nodes, [info("x", (6,)), info("shape", (2,), TensorProto.INT64)], [info("y", None)])
    graph = onegraph.onnx.load(proto, values={"shape": np.array([2, 3])})
    assert [*graph.inputs] == ["x"]
    assert graph.outputs["y"].shape == (2, 3)


WRONG_ARGUMENTS = [
    {"shapes": {"q": (1,)}},
    {"shapes": {"q": 4}},
    {"shapes": {"x": "a"}},
    {"shapes": 3},
    {"shapes": {3: (1,)}},
    {"values": {"q": np.ones(3)}},
    {"values": {"x": np.ones((5, 3))}},
    {"values": {"x": np.ones((5, 4), "f4")}},
]


@pytest.mark.parametrize("arguments", WRONG_ARGUMENTS, ids=str)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(og.ArgumentError, match=r"shape|values"):
        onegraph.onnx.load(dynamic(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shapes": {"q": (1,)}}, "shapes: ['q']; expected names of inputs: ['x', 'y']"),
        ({"shapes": {"q": 4}}, "shapes: ['q']; expected names of named dims: ['n']"),
        ({"values": {"q": np.ones(3)}}, "values: ['q']; expected names of inputs: ['x', 'y']"),
    ],
    ids=str,
)
def test_unknown_names_are_told_beside_the_known_ones(arguments, text):
    with pytest.raises(og.ArgumentError) as refused:
        onegraph.onnx.load(dynamic(), **arguments)
    assert str(refused.value) == text


@pytest.mark.parametrize("given", [None, 3, [b""], "a\0b", memoryview(b"abcd")[::2]], ids=range(5))
def test_refuses_what_is_no_model(given):
    with pytest.raises(og.ArgumentError, match="model"):
        onegraph.onnx.load(given)


# Op sets, sequences and control flow ---------------------------------------------------------------------------------


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("opset", [7, 11, 13, 21])
def test_softmax_of_old_op_sets_flattens(opset):
    x = RNG.standard_normal((2, 3, 4), np.float32)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    found = run(onegraph.onnx.load(model([node], [info("x", x.shape)], [info("y", x.shape)], opset=opset)), x=x)
    expected = softmax(x, 1) if opset >= 13 else softmax(x.reshape(2, 12), 1).reshape(x.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_slice_and_pad_of_op_set_9_have_attributes():
    nodes = [
        helper.make_node("Slice", ["x"], ["s"], starts=[1], ends=[3], axes=[1]),
        helper.make_node("Pad", ["s"], ["y"], pads=[0, 1, 0, 0], value=7.0),
    ]
    x = RNG.standard_normal((2, 4), np.float32)
    found = run(onegraph.onnx.load(model(nodes, [info("x", (2, 4))], [info("y", (2, 3))], opset=9)), x=x)
    np.testing.assert_array_equal(found, np.concatenate([np.full((2, 1), 7, "f4"), x[:, 1:3]], 1))


def test_a_newer_op_set_than_the_package_has_is_refused():
    with pytest.raises(og.FormatError, match=r"opset_import 9999: .*; expected 1 to"):
        onegraph.onnx.load(model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], opset=9999))


def test_a_loop_of_known_length_is_unrolled():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Add", ["s", "x"], ["s_out"]),
            helper.make_node("Identity", ["s_out"], ["scan"]),
        ],
        "body",
        [info("i", (), TensorProto.INT64), info("c", (), TensorProto.BOOL), info("s", (2,))],
        [info("c_out", (), TensorProto.BOOL), info("s_out", (2,)), info("scan", (2,))],
    )
    trips = numpy_helper.from_array(np.array(3), "m")
    node = helper.make_node("Loop", ["m", "", "x"], ["last", "all"], body=body)
    graph = onegraph.onnx.load(model([node], [info("x", (2,))], [info("last", (2,)), info("all", (3, 2))], [trips]))
    assert "OnnxNode" not in {op.kind for op in graph.ops}
    last, every = run(graph, x=np.array([1, 2], "f4"))
    np.testing.assert_array_equal(last, [4, 8])
    np.testing.assert_array_equal(every, [[2, 4], [3, 6], [4, 8]])


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_of_known_length_is_unrolled(backwards):
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "part"], ["s_out"]), helper.make_node("Identity", ["s_out"], ["scan"])],
        "body",
        [info("s", (2,)), info("part", (2,))],
        [info("s_out", (2,)), info("scan", (2,))],
    )
    node = helper.make_node(
        "Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[backwards], scan_output_axes=[1],
    )  # fmt: skip
    outputs = [info("last", (2,)), info("all", (2, 3))]
    graph = onegraph.onnx.load(model([node], [info("s0", (2,)), info("x", (2, 3))], outputs))
    assert "OnnxNode" not in {op.kind for op in graph.ops}
    x = np.array([[1, 2, 4], [8, 16, 32]], "f4")
    last, every = run(graph, s0=np.zeros(2, "f4"), x=x)
    np.testing.assert_array_equal(last, x.sum(1))
    np.testing.assert_array_equal(every, np.cumsum(x[:, ::-1] if backwards else x, 1))


def test_a_condition_that_the_graph_computes_chooses_a_body():
    branches = {
        name: helper.make_graph([helper.make_node(kind, ["x"], ["r"])], name, [], [info("r", (2,))])
        for name, kind in (("then_branch", "Neg"), ("else_branch", "Exp"))
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["flag"], to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["y"], **branches),
    ]
    graph = onegraph.onnx.load(model(nodes, [info("x", (2,))], [info("y", (2,))]))
    executable = graph.compile()
    np.testing.assert_array_equal(executable(x=np.array([1, 2], "f4")), [-1, -2])
    np.testing.assert_array_equal(executable(x=np.array([0, 0], "f4")), [1, 1])
    assert "If" in [kind for part in executable.report().partitions for kind in part.kinds]


def test_random_numbers_are_drawn_by_each_call():
    nodes = [helper.make_node("RandomNormal", [], ["r"], shape=[9]), helper.make_node("Add", ["x", "r"], ["y"])]
    executable = onegraph.onnx.load(model(nodes, [info("x", (9,))], [info("y", (9,))])).compile()
    x = np.zeros(9, np.float32)
    assert (executable(x=x) != executable(x=x)).any()


@pytest.mark.library
@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize(("dtype", "kind"), [("float64", "f"), ("int32", "i"), ("int64", "i"), ("int64", "f")])
def test_squares_and_cubes_are_products(dtype, kind, exponent):
    """Integers wrap around, as numpy's; a float exponent of integers is left to numpy."""
    x = np.array([-3, 0, 7, 123456], dtype)
    x = np.append(x, np.array([np.nan, -np.inf, -0.0, 1e200]) if dtype == "float64" else np.array([2**31 - 1], dtype))
    tensor = numpy_helper.from_array(np.array(exponent, np.float32 if kind == "f" and dtype[0] == "i" else dtype), "e")
    ends = [info("x", x.shape, helper.np_dtype_to_tensor_dtype(x.dtype))]
    ends += [info("y", x.shape, helper.np_dtype_to_tensor_dtype(x.dtype))]
    graph = og.onnx.load(model([helper.make_node("Pow", ["x", "e"], ["y"])], ends[:1], ends[1:], [tensor]))
    assert ("Pow" in {op.kind for op in graph.ops}) == (kind != dtype[0])
    with np.errstate(all="ignore"):
        wanted = np.power(x, np.array(exponent, x.dtype))
    if kind == dtype[0]:
        np.testing.assert_allclose(graph.compile()(x), wanted, rtol=1e-15)


@pytest.mark.library
@pytest.mark.parametrize(
    ("node", "arrays", "expected"),
    [  # by the function of the table, and by the ops that it makes
        (helper.make_node("Unique", ["x"], ["y"], sorted=1), [[3, 1, 3]], [1, 3]),
        (helper.make_node("Squeeze", ["x"], ["y"]), [[[3], [4]]], [3, 4]),
        (helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0), [[[3, 4], [5, 6]], [1]], [7, 11]),
    ],
)
def test_nodes_that_wait_are_not_read_in_each_run(node, arrays, expected, monkeypatch):
    inputs = [helper.make_tensor_value_info(name, F, None) for name in node.input[:1]]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in node.input[1:]]
    executable = onegraph.onnx.load(model([node], inputs, [helper.make_tensor_value_info("y", F, None)])).compile()
    monkeypatch.setattr(evaluate, "evaluated", lambda *_: pytest.fail("the node is read once more"))
    given = [np.array(arrays[0], np.float32), *map(np.array, arrays[1:])]
    assert executable(*given).tolist() == expected


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize(("dims", "axis"), [((2, 5, 2), 1), ((6, 4, 2), 0), ((3, 400, 2), 1), ((2, 7, 1), -2)])
def test_transforms_of_few_numbers_are_products(dims, axis, inverse):
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    numbers = x[..., 0] + (1j * x[..., 1] if dims[-1] == 2 else 0)
    expected = (np.fft.ifft if inverse else np.fft.fft)(numbers, axis=axis % 3)
    node = helper.make_node("DFT", ["x"], ["y"], axis=axis % 3, inverse=inverse)
    outputs = [helper.make_tensor_value_info("y", F, [*dims[:-1], 2])]
    graph = onegraph.onnx.load(model([node], [info("x", dims)], outputs, opset=17))
    is_few = dims[axis] * np.prod(dims) <= 1 << 19
    assert is_few == all(op.kind != "OnnxNode" for op in graph.ops)
    found = run(graph, x=x)
    assert np.allclose(found[..., 0] + 1j * found[..., 1], expected, atol=1e-4)


@pytest.mark.parametrize(("frequencies", "length"), [(5, None), (5, 8), (5, 9), (5, 12), (1, None)])
def test_the_signal_of_half_a_spectrum_is_that_of_numpy(frequencies, length):
    x = np.random.default_rng(0).standard_normal((3, frequencies, 2, 2)).astype(np.float32)
    node = helper.make_node("DFT", ["x", "length"] if length else ["x"], ["y"], axis=1, inverse=1, onesided=1)
    known = [numpy_helper.from_array(np.array(length), "length")] if length else []
    proto = model([node], [info("x", x.shape)], [helper.make_tensor_value_info("y", F, None)], known, opset=17)
    if frequencies == 1:
        with pytest.raises(og.FormatError, match="Invalid number of FFT data points"):
            onegraph.onnx.load(proto)
        return
    graph = onegraph.onnx.load(proto)
    assert (length in (None, 8)) == all(op.kind != "OnnxNode" for op in graph.ops)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=1)[..., None]
    np.testing.assert_allclose(run(graph, x=x), expected, rtol=0, atol=1e-5)


def test_the_frames_of_a_signal_have_a_known_shape():
    node = helper.make_node("STFT", ["x", "step", "", "size"], ["y"])
    known = [numpy_helper.from_array(np.array(number), name) for name, number in (("step", 8), ("size", 16))]
    outputs = [helper.make_tensor_value_info("y", F, None)]
    graph = onegraph.onnx.load(model([node], [info("x", (1, 48, 1))], outputs, known))
    assert graph.outputs["y"].shape == (1, 5, 9, 2)
    x = np.random.default_rng(0).standard_normal((1, 48, 1)).astype(np.float32)
    frames = np.stack([x[:, at : at + 16, 0] for at in range(0, 33, 8)], 1)
    found = run(graph, x=x)
    assert np.allclose(found[..., 0] + 1j * found[..., 1], np.fft.fft(frames)[..., :9], atol=1e-4)


def test_the_weights_of_a_mel_spectrum_are_triangles():
    ends = {"bins": 8, "length": 16, "rate": 8192, "lower": np.float32(0), "upper": np.float32(4096)}
    types = [TensorProto.INT64] * 3 + [F] * 2
    inputs = [helper.make_tensor_value_info(name, dtype, []) for name, dtype in zip(ends, types, strict=True)]
    node = helper.make_node("MelWeightMatrix", [*ends], ["y"])
    proto = model([node], inputs, [helper.make_tensor_value_info("y", F, None)])
    executable, given = onegraph.onnx.load(proto).compile(), {name: np.array(end) for name, end in ends.items()}
    found = executable(**given)
    assert found.shape == (9, 8)
    assert (found.max(0) == 1).all()
    assert np.allclose(found, session_of(proto).run(None, given)[0], atol=1e-6)
    with pytest.raises(og.OneGraphError, match="the upper edge"):
        executable(*map(np.array, {**ends, "upper": np.float32(9000)}.values()))


def test_a_window_of_the_same_size_is_computed_once_and_belongs_to_the_caller(monkeypatch):
    node = helper.make_node("HannWindow", ["size"], ["y"])
    size = helper.make_tensor_value_info("size", TensorProto.INT64, [])
    executable = onegraph.onnx.load(model([node], [size], [helper.make_tensor_value_info("y", F, None)])).compile()
    for count in (4, 6):
        first = executable(np.array(count))
        wanted = first.copy()
        first[:] = 7
        assert np.array_equal(executable(np.array(count)), wanted)
        assert len(wanted) == count
    monkeypatch.setattr(np, "cos", lambda _: pytest.fail("the window is computed once more"))
    assert len(executable(np.array(4))) == 4


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("size", [0, 1, 40])
def test_unique_elements_are_those_of_numpy(dtype, size):
    x = np.random.default_rng(0).integers(0, 5, size).astype(dtype)
    if dtype is np.float32:
        x[x == 2] = np.nan
    wanted = np.unique(x, True, True, True)
    for found, expected in zip(_distinct(x), wanted, strict=True):
        assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize("batch", [0, 1])
def test_sequences_are_reversed_up_to_their_lengths(batch):
    """Each slice of an image by numpy; lengths that are negative or too large are refused."""
    shape = (3, 4, 2) if batch == 0 else (4, 3, 2)
    x = np.random.default_rng(batch).random(shape, np.float32)
    turned = helper.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=batch, time_axis=1 - batch)
    ends = [info("x", shape), info("n", (3,), TensorProto.INT64)]
    compiled = og.onnx.load(model([turned], ends, [info("y", shape)])).compile()
    assert {part.executor for part in compiled.report().partitions} <= {"kernel", "view"}
    for lengths in ([0, 1, 4], [2, 3, 4], [4, 4, 4]):
        wanted = x.copy()
        images = zip(*(np.moveaxis(one, batch, 0) for one in (x, wanted)), lengths, strict=True)
        for image, result, length in images:
            result[:length] = image[:length][::-1]
        np.testing.assert_array_equal(compiled(x, np.int64(lengths)), wanted)
    for wrong in ([1, 2, 5], [1, -1, 2]):
        with pytest.raises(og.ArgumentError, match="out of range"):
            compiled(x, np.int64(wrong))


def test_an_endless_loop_is_not_run_while_loading():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Add", ["s", "s"], ["s_out"])],
        "body",
        [info("i", (), TensorProto.INT64), info("c", (), TensorProto.BOOL), info("s", (2,))],
        [info("c_out", (), TensorProto.BOOL), info("s_out", (2,))],
    )
    known = [numpy_helper.from_array(np.array(2**62), "m"), numpy_helper.from_array(np.zeros(2, "f4"), "zero")]
    nodes = [helper.make_node("Loop", ["m", "", "zero"], ["last"], body=body), helper.make_node("Neg", ["last"], ["y"])]
    graph = onegraph.onnx.load(model(nodes, [], [info("y", (2,))], known))
    assert graph.ops[0].kind == "Loop"


def test_a_sequence_is_several_inputs_and_outputs():
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["t"])]
    proto = model(nodes, [onnx.ValueInfoProto(name="s", type=kind), info("x", (2,))], [onnx.ValueInfoProto(name="t")])
    graph = onegraph.onnx.load(proto, shapes={"s": [(1,), (3,)]})
    assert [*graph.inputs] == ["s.0", "s.1", "x"]
    assert {name: tensor.shape for name, tensor in graph.outputs.items()} == {"t.0": (1,), "t.1": (3,), "t.2": (2,)}
    with pytest.raises(og.FormatError, match=r"input 's': a sequence of unknown length; expected shapes="):
        onegraph.onnx.load(proto)


# Input that is not valid ---------------------------------------------------------------------------------------------


def function(name, calls):
    nodes = [helper.make_node(one, ["a"], ["b"], domain="own") for one in calls]
    return helper.make_function("own", name, ["a"], ["b"], nodes, [helper.make_opsetid("own", 1)])


RELU = helper.make_node("Relu", ["x"], ["y"], name="act")
IO = [info("x")], [info("y")]
INVALID = {
    "a cycle": (
        model([helper.make_node("Add", ["x", "y"], ["z"], name="first"), helper.make_node("Relu", ["z"], ["y"])], *IO),
        "results of each other: .*node 'first'.*without a cycle",
    ),
    "recursion": (
        model(
            [helper.make_node("F", ["x"], ["y"], domain="own")],
            *IO,
            functions=[function("F", ["G"]), function("G", ["F"])],
        ),
        "function '[FG]' of 'own': a call of itself",
    ),
    "functions that double each other": (
        model(
            [helper.make_node("F0", ["x"], ["y"], domain="own")],
            *IO,
            functions=[function(f"F{n}", [f"F{n + 1}"] * 2) for n in range(40)] + [function("F40", ["F41"])],
        ),
        "more than 200000 nodes",
    ),
    "an unknown op": (model([helper.make_node("Nothing", ["x"], ["y"], name="n")], *IO), "node 'n' .Nothing."),
    "no output": (model([RELU], [info("x")], [info("q")]), "output 'q'"),
    "a string attribute for a number": (
        model([helper.make_node("Softmax", ["x"], ["y"], name="act", axis="one")], *IO),
        "node 'act'",
    ),
    "an axis out of range": (model([helper.make_node("Softmax", ["x"], ["y"], name="act", axis=9)], *IO), "node 'act'"),
    "huge dims without contents": (product(TensorProto(name="w", data_type=F, dims=[2**40, 2**40])), "initializer 'w'"),
    "negative dims": (product(TensorProto(name="w", data_type=F, dims=[-1])), "initializer 'w'"),
    "too few bytes": (product(TensorProto(name="w", data_type=F, dims=[2**40], raw_data=b"abcd")), "initializer 'w'"),
    "an unknown data type": (product(TensorProto(name="w", data_type=77, dims=[1])), "initializer 'w': data type 77"),
    "a huge constant": (
        model(
            [
                helper.make_node("ConstantOfShape", ["w"], ["c"], name="fill"),
                helper.make_node("Add", ["x", "c"], ["y"]),
            ],
            *IO,
            [numpy_helper.from_array(np.array([2**40]), "w")],
        ),
        "node 'fill'",
    ),
    "two initializers of one name": (
        model([RELU], *IO, [numpy_helper.from_array(W[:1], "w")] * 2),
        "initializer 'w': two of this name",
    ),
}


@pytest.mark.parametrize(("proto", "text"), INVALID.values(), ids=INVALID)
def test_the_error_names_the_node(proto, text):
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(proto)


def test_every_truncation_is_refused():
    data = product().SerializeToString()
    for size in [*range(60), *range(60, len(data), 997)]:
        with pytest.raises(og.FormatError):
            onegraph.onnx.load(data[:size])


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"{}", random.Random(1).randbytes(9999)], ids=len)
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(og.FormatError, match=r"m\.onnx.*which onegraph.load reads" if content == b"{}" else r"m\.onnx"):
        onegraph.onnx.load(path)


def test_missing_files_folders_and_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none.onnx", tmp_path, tmp_path / "pipe"):
        with pytest.raises(og.FormatError, match=str(path)):
            onegraph.onnx.load(path)


def test_changed_models_give_graphs_or_format_errors():
    """A child process loads them, because a signal must not end the tests."""
    found = grow.in_child("onnx", 1, 400).findings
    assert found == []


def test_constants_keep_the_names_of_initializers(tmp_path):
    weights = numpy_helper.from_array(W, "c1.weight")
    node = helper.make_node("MatMul", ["x", "c1.weight"], ["y"], name="product")
    graph = onegraph.onnx.load(model([node], [info("x")], [info("y", (2, 64))], [weights]))
    graph.save(tmp_path / "g.json")
    onegraph.onnx.save(graph, tmp_path / "g.onnx")
    for read in (graph, og.load(tmp_path / "g.json"), onegraph.onnx.load(tmp_path / "g.onnx")):
        assert [*read.constants] == ["c1.weight"]
        np.testing.assert_array_equal(read.constants["c1.weight"], W)
    assert [one.name for one in onnx.load(tmp_path / "g.onnx").graph.initializer] == ["c1.weight"]


def test_an_edited_model_is_saved_and_runs(tmp_path):
    graph = onegraph.onnx.load(product())
    (op,) = graph.ops
    graph.replace(op, graph.relu(op.outputs[0]))
    graph.replace(op.inputs[1], W * 2)
    onegraph.onnx.save(graph, tmp_path / "g.onnx")
    (found,) = session_of(tmp_path / "g.onnx").run(None, {"x": X})
    np.testing.assert_allclose(found, np.maximum(X @ (W * 2), 0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run(graph, x=X), found, rtol=1e-4, atol=1e-4)
