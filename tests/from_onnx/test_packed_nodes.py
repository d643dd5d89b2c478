"""Codes of 4 bits behind DequantizeLinear, which are read as they are packed in the file."""

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx
from onegraph.arrays.packed_codes import packed
from onegraph.frontends.onnx import packed_nodes

pytestmark = pytest.mark.library
KINDS = {"s4": (TensorProto.INT4, -8, 8), "u4": (TensorProto.UINT4, 0, 16)}
DEPTH, COLUMNS = 96, 40


class Weights:
    """Random codes of a matrix, their DequantizeLinear, and the numbers in float64."""

    def __init__(self, coding="s4", shape=(DEPTH, COLUMNS), axis=0, block=32, zeros=True, scales=np.float32):
        rng = np.random.default_rng(1)
        kind, low, high = KINDS[coding]
        self.codes = rng.integers(low, high, shape)
        parts = [-(-dim // block) if place == axis else dim for place, dim in enumerate(shape)] if block else []
        parts = parts if block or axis is None else [shape[axis]]
        self.scales, points = rng.uniform(0.01, 0.02, parts).astype(scales), rng.integers(max(low, -4), 5, parts)
        self.held = [
            helper.make_tensor("w", kind, shape, self.codes.ravel()),
            numpy_helper.from_array(self.scales, "s"),
        ]
        self.held += [helper.make_tensor("z", kind, parts, points.ravel())] if zeros else []
        attrs = {} if axis is None else {"axis": axis, **({"block_size": block} if block else {})}
        self.node = helper.make_node("DequantizeLinear", [one.name for one in self.held], ["d"], **attrs)

        def spread(values):
            if not block:
                return values.reshape([-1 if place == axis else 1 for place in (0, 1)]) if axis is not None else values
            return np.repeat(values, block, axis)[: shape[0], : shape[1]]

        self.numbers = (self.codes - (spread(points) if zeros else 0)) * spread(self.scales.astype(np.float64))

    def model(self, nodes, inputs, outputs=("y",), others=()):
        ends = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in inputs.items()
        ]
        held = [*self.held, *(numpy_helper.from_array(array, name) for name, array in others)]
        graph = helper.make_graph(
            [self.node, *nodes], "model", ends, [onnx.ValueInfoProto(name=n) for n in outputs], held
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def rows_of(dtype=np.float32, depth=DEPTH):
    return np.random.default_rng(2).standard_normal((3, depth)).astype(dtype)


def node(kind, inputs, outputs=("y",), **attrs):
    return helper.make_node(kind, inputs, [*outputs], **attrs)


PLAIN = (node("MatMul", ["x", "d"]),)
TURNED = node("Transpose", ["d"], ["t"], perm=[1, 0])
FORMS = {
    "blocks": (Weights(), PLAIN, lambda x, w: x @ w),
    "without zero points": (Weights(zeros=False), PLAIN, lambda x, w: x @ w),
    "u4": (Weights("u4"), PLAIN, lambda x, w: x @ w),
    "a scale for each column": (Weights(axis=1, block=0), PLAIN, lambda x, w: x @ w),
    "one scale": (Weights(axis=None, block=0), PLAIN, lambda x, w: x @ w),
    "a short last block": (Weights(block=64), PLAIN, lambda x, w: x @ w),
    "one block": (Weights(block=96), PLAIN, lambda x, w: x @ w),
    "transposed": (Weights(shape=(COLUMNS, DEPTH), axis=1), (TURNED, node("MatMul", ["x", "t"])), lambda x, w: x @ w.T),
    "a Gemm": (Weights(shape=(COLUMNS, DEPTH), axis=1), (node("Gemm", ["x", "d"], transB=1),), lambda x, w: x @ w.T),
    "two products": (
        Weights(),
        (
            node("MatMul", ["x", "d"], ["a"]),
            node("Neg", ["x"], ["n"]),
            node("MatMul", ["n", "d"], ["b"]),
            node("Sub", ["a", "b"]),
        ),
        lambda x, w: 2 * x @ w,
    ),
    "a table that the last product shares": (
        Weights(shape=(COLUMNS, DEPTH), axis=1),
        (
            node("Gather", ["d", "i"], ["r"]),
            TURNED,
            node("Add", ["r", "x"], ["a"]),
            node("MatMul", ["a", "t"]),
        ),
        lambda x, w: (w[[3, 0, 39]] + x) @ w.T,
    ),
}
PACKED = {"PackedMatMul", "PackedGather"}
ROWS = np.array([3, 0, 39])


def loaded(weights, nodes, **others):
    x, is_table = rows_of(), any("i" in each.input for each in nodes)
    model = weights.model(nodes, {"x": x, **({"i": ROWS} if is_table else {})}, **others)
    graph = onegraph.onnx.load(model, strict=True)
    return graph, graph.compile()(x, ROWS) if is_table else graph.compile()(x)


def holds_codes(graph):
    return any(tensor.dtype in (og.s4, og.u4) for op in graph.ops for tensor in op.inputs if tensor is not None)


@pytest.mark.parametrize("form", FORMS)
def test_codes_stay_two_to_a_byte(form):
    weights, nodes, exact = FORMS[form]
    graph, found = loaded(weights, nodes)
    np.testing.assert_allclose(found, exact(rows_of().astype(np.float64), weights.numbers), rtol=0, atol=3e-5)
    assert PACKED & {op.kind for op in graph.ops}
    assert not holds_codes(graph)
    assert not {"Dequantize", "DynamicDequantize"} & {op.kind for op in graph.ops}


def test_one_scale_of_two_matrices():
    """Of other numbers of columns."""
    whole = {"axis": None, "block": 0, "zeros": False}
    weights, second = Weights(**whole), Weights(shape=(COLUMNS, 8), **whole)
    second.held[0].name = "v"
    weights.held.append(second.held[0])
    nodes = [node("MatMul", ["x", "d"], ["m"]), node("DequantizeLinear", ["v", "s"], ["e"]), node("MatMul", ["m", "e"])]
    graph, found = loaded(weights, nodes)
    exact = rows_of().astype(np.float64) @ weights.numbers @ (second.codes * float(weights.scales))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert [op.kind for op in graph.ops] == ["PackedMatMul", "PackedMatMul"]


def test_a_circle_behind_codes_is_refused():
    nodes = [node("Transpose", ["d"], ["t"]), node("Transpose", ["t"], ["d"]), node("MatMul", ["x", "t"])]
    with pytest.raises(og.FormatError, match="a name for each value"):
        loaded(Weights(), nodes)


@pytest.mark.parametrize("attrs", [{"axis": 1.5}, {"block_size": "x"}])
def test_attributes_of_other_types_are_refused(attrs):
    weights = Weights()
    given = {"axis": 0, "block_size": 32, **attrs}
    weights.node = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], **given)
    with pytest.raises(og.FormatError):
        loaded(weights, PLAIN)


OTHERS = {
    "blocks of columns": (Weights(axis=1, block=8), PLAIN, ()),
    "blocks of other sizes": (Weights(block=24), PLAIN, ()),
    "an odd number of columns": (Weights(shape=(DEPTH, 41)), PLAIN, ()),
    "numbers that are an output": (Weights(), PLAIN, ("y", "d")),
    "numbers that are added": (Weights(), (*PLAIN, node("Neg", ["d"], ["n"])), ("y", "n")),
    "the first operand": (Weights(), (node("MatMul", ["d", "x"], ["m"]), node("Transpose", ["m"], ["y"])), ()),
    "a factor": (Weights(), (node("Gemm", ["x", "d"], alpha=2.0),), ()),
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_readers_get_numbers(form):
    weights, nodes, outputs = OTHERS[form]
    x = rows_of() if form != "the first operand" else np.ascontiguousarray(rows_of(depth=COLUMNS).T)
    model = weights.model(nodes, {"x": x}, **({"outputs": outputs} if outputs else {}))
    graph = onegraph.onnx.load(model)
    assert holds_codes(graph)
    assert not PACKED & {op.kind for op in graph.ops}
    found = graph.compile()(x)
    wanted = (weights.numbers @ x).T if form == "the first operand" else x.astype(np.float64) @ weights.numbers
    wanted = 2 * wanted if form == "a factor" else wanted
    np.testing.assert_allclose(found[0] if outputs else found, wanted, rtol=0, atol=3e-5)


def test_casts_between_codes_and_product():
    weights = Weights(scales=np.float16)
    nodes = [node("Cast", ["d"], ["c"], to=TensorProto.FLOAT), node("MatMul", ["x", "c"])]
    graph, found = loaded(weights, nodes)
    np.testing.assert_allclose(found, rows_of().astype(np.float64) @ weights.numbers, rtol=0, atol=3e-5)
    assert not holds_codes(graph)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: w.held[0].__setattr__("raw_data", b"12"), "initializer 'w': 2 bytes"),
        (lambda w: w.held[1].__setattr__("raw_data", b"12"), "initializer 's'"),
        (lambda w: w.held[0].ClearField("int32_data"), "initializer 'w'"),
    ],
)
def test_malformed_codes_are_refused(change, text):
    weights = Weights()
    change(weights)
    with pytest.raises(og.FormatError, match=text):
        loaded(weights, PLAIN)


def test_a_product_of_another_depth_is_refused():
    model = Weights().model(PLAIN, {"x": rows_of(depth=90)})
    with pytest.raises(og.FormatError, match="96 as its last dim"):
        onegraph.onnx.load(model)


def test_pages_of_turned_codes_are_given_back(monkeypatch):
    given = []
    monkeypatch.setattr(packed_nodes, "give_back", given.extend)
    loaded(*FORMS["blocks"][:2])
    loaded(*FORMS["transposed"][:2])
    assert [one.shape for one in given] == [(DEPTH, COLUMNS // 2)]


def test_loading_takes_no_byte_for_each_code(tmp_path):
    weights = Weights(shape=(2048, 2048), block=128, zeros=False)
    raw = packed(weights.codes.astype(np.int8), 4).tobytes()
    weights.held[0] = helper.make_tensor("w", TensorProto.INT4, (2048, 2048), raw, raw=True)
    onnx.save(weights.model(PLAIN, {"x": rows_of(depth=2048)}), tmp_path / "m.onnx")
    onegraph.onnx.load(weights.model(PLAIN, {"x": rows_of(depth=2048)}))  # imports what is imported late
    tracemalloc.start()
    graph = onegraph.onnx.load(tmp_path / "m.onnx")
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert graph.ops[0].kind == "PackedMatMul"
    codes = 2048 * 2048 // 2
    assert kept < 1.2 * codes
    assert peak < 1.5 * codes
