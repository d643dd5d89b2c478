"""The builder: the results of calls, inference, constants, names, messages."""

import contextlib
import copy
import inspect
import pickle
import sys
import threading
from keyword import iskeyword

import ml_dtypes
import numpy as np
import pytest
from conftest import library
from helpers.grouped import grouped
from helpers.interrupts import Alarm, interrupted, moments

import onegraph as og
from onegraph.builder.op_methods import ELSEWHERE
from onegraph.builder.op_outputs import output_dtypes
from onegraph.opset.editions.registry import BASE, edition
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.harness import rewrite
from onegraph.tools.python_code import to_python
from onegraph.transform.translate_graph import translate_graph

WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


@pytest.fixture
def g():
    return og.Graph()


def test_infers_shapes_while_building(g):
    src = g.input("src", og.f32, (8, 32, 32, 3))
    dst = g.convolution(src, g.constant(np.zeros((3, 3, 3, 16), np.float32)), **WINDOW)
    assert (dst.dtype, dst.shape) == (og.f32, (8, 30, 30, 16))


def test_unknown_dims_stay_unknown(g):
    src = g.input("src", og.f32, (None, 32, None, 3))
    dst = g.relu(g.convolution(src, g.constant(np.zeros((3, 3, 3, 16), np.float32)), **WINDOW))
    assert dst.shape == (None, 30, None, 16)
    assert g.relu(g.input("any", og.f32)).shape is None
    assert g.add(dst, g.input("bias", og.f32, (16,))).shape == (None, 30, None, 16)
    assert g.reduce_sum(dst, axes=[0, 2]).shape == (30, 16)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("f32", og.f32),
        (og.bf16, og.bf16),
        (np.float16, og.f16),
        (np.dtype("int8"), og.s8),
        (ml_dtypes.bfloat16, og.bf16),
        (np.bool_, og.boolean),
        ("uint8", og.u8),
    ],
)
def test_accepts_every_name_of_a_data_type(g, given, expected):
    assert g.input("x", given, (1,)).dtype is expected


def test_data_type_class_accepts_every_name():
    assert og.DataType("bf16") is og.DataType(ml_dtypes.bfloat16) is og.bf16
    with pytest.raises(og.ArgumentError, match="'fp32' is not a data type; did you mean 'f32'"):
        og.DataType("fp32")


def test_u64_is_corrected_to_s64():
    with pytest.raises(og.ArgumentError) as caught:
        og.DataType("u64")
    corrected = "use 's64': pages print u64 for the seed and the offset of Dropout, which the library takes as s64"
    assert str(caught.value).startswith(f"'u64' is not a data type; {corrected}; expected one of f32")
    with pytest.raises(og.ArgumentError, match=r"uint64; expected s32, .*; or og.s64, where the specification wants"):
        og.DataType(np.uint64)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, "f31", object, 3, None])
def test_rejects_unknown_data_types(g, dtype):
    with pytest.raises(og.ArgumentError, match=r"data type"):
        g.input("x", dtype, (1,))
    assert not g.inputs


def test_rejects_float64_with_the_fix(g):
    with pytest.raises(og.ArgumentError, match=r"float64; convert the array with \.astype\(np\.float32\)"):
        g.constant(np.zeros(3))


def test_every_way_to_call_an_op_agrees(g):
    x, w = g.input("x", og.f32, (1, 4, 4, 2)), g.input("w", og.f32, (1, 1, 2, 2))
    g.convolution(x, w, **WINDOW)
    g.convolution(src=x, weights=w, **WINDOW)
    g.op("Convolution", [x, w], WINDOW)
    g.op("convolution", (x, w, None), {name: np.array(value) for name, value in WINDOW.items()})
    records = {(op.kind, op.inputs, tuple(op.attrs.items())) for op in g.ops}
    assert len(records) == 1
    assert dict(g.ops[0].attrs)["strides"] == (1, 1)


def test_several_outputs_are_a_named_tuple(g):
    x = g.input("x", og.f32, (2, 3, 8))
    gamma, beta = g.input("gamma", og.f32, (8,)), g.input("beta", og.f32, (8,))
    result = g.layer_norm(x, gamma, beta)
    assert result._fields == ("dst", "mean", "variance")
    assert result.mean.shape == (2, 3)
    assert g.layer_norm(x, gamma, beta, keep_stats=False).shape == (2, 3, 8)


def test_outputs_argument_selects_optional_ports(g):
    x = g.input("x", og.f32, (2, 8))
    assert g.softmax(x, axis=1, dtype="f32", outputs=[]).shape == (2, 8)
    assert g.softmax(x, axis=1, dtype="f32", outputs=["stats"]).stats.shape == (2, 1)
    assert g.op("SoftMax", [x], {"axis": 1}, edition="onednn-3.2").shape == (2, 8)
    with pytest.raises(og.ArgumentError, match="'statistics'; expected names of"):
        g.softmax(x, axis=1, dtype="f32", outputs=["statistics"])


def test_dtype_is_required_where_the_type_is_open(g):
    x = g.input("x", og.f32, (4,))
    with pytest.raises(og.SpecError, match="dtype: not given; expected one of"):
        g.quantize(x, scales=[0.1], zps=[0])
    assert g.quantize(x, scales=[0.1], zps=[0], dtype="u8").dtype is og.u8
    assert g.type_cast(x, dtype=og.bf16).dtype is og.bf16
    with pytest.raises(og.SpecError, match="dtype: s32; expected one of"):
        g.quantize(x, scales=[0.1], zps=[0], dtype="s32")
    with pytest.raises(og.SpecError, match="dtype: bf16; expected f32 for dst"):
        g.relu(x, dtype="bf16")


def test_shape_as_tensor_and_attribute(g):
    dy, w = g.input("dy", og.f32, (1, 3, 1)), g.input("w", og.f32, (3, 1, 1))
    window = {name: value[:1] for name, value in WINDOW.items()} | {"strides": [2]}
    shape = g.constant(np.array([1, 8, 1], np.int32))
    assert g.convolution_backward_data(dy, w, shape, **window).shape == (1, 8, 1)
    assert g.convolution_backward_data(dy, w, dst_shape=shape, **window).shape == (1, 8, 1)
    assert g.convolution_backward_data(dy, w, dst_shape=[1, 7, 1], **window).shape == (1, 7, 1)
    both = {**window, "dst_shape": [1, 7, 1]}
    assert g.op("ConvolutionBackwardData", [dy, w, shape], both).shape == (1, 8, 1), "the tensor wins"
    unknown = g.input("shape", og.s32, (3,))
    assert g.convolution_backward_data(dy, w, unknown, **window).shape == (None, None, None)


def test_constants_are_copied_aligned_and_read_only(g):
    array = np.arange(4, dtype=np.float32)
    kept = g.constant(array)
    array[0] = 9
    assert kept.constant
    assert kept.value.tolist() == [0, 1, 2, 3]
    assert kept.value.__array_interface__["data"][0] % 64 == 0
    assert not kept.value.flags.writeable
    frozen = g.constant(array, copy=False)
    assert frozen.value.base is array
    assert not array.flags.writeable


@pytest.mark.library
@pytest.mark.parametrize(("name", "other"), [("shape", (2, 2)), ("dtype", np.int32)])
def test_frozen_array_reinterpreted_in_place(g, name, other):
    array, data = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    g.output("y", g.add(g.input("x", og.f32, (4,)), g.constant(array, copy=False)))
    setattr(array, name, other)
    (kept,) = (tensor for tensor in g._tensors if tensor.constant)
    setattr(kept.value, name, other)
    assert og.reference.run(g, {"x": data})["y"].tolist() == [1, 2, 3, 4]
    assert g.compile()(data).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.ones(6, np.float32)[:4], "a view of memory that can still be written"),
        (np.ones((4, 4), np.float32).T[1:], "not C-contiguous"),
    ],
)
def test_rejects_arrays_that_cannot_be_frozen(g, array, text):
    with pytest.raises(og.ArgumentError, match=text):
        g.constant(array, copy=False)
    assert g.constant(array).value.tolist() == array.tolist()


def test_messages_shorten_long_names(g):
    name, x = "n" * 10**6, g.input("x", og.f32, (2,))
    for call in (lambda: g.input(name, "f31"), lambda: g.output(name, x, strides=(0,))):
        with pytest.raises(og.ArgumentError, match=r"put 'nnn.*nnn'") as caught:
            call()
        assert len(str(caught.value)) < 1000


def test_inputs_and_outputs_share_one_namespace(g):
    x = g.input("x", og.f32, (1,))
    for taken in (lambda: g.input("x", og.f32, (1,)), lambda: g.output("x", x)):
        with pytest.raises(og.ArgumentError, match="name 'x' is taken; inputs and outputs share one namespace"):
            taken()
    g.relu(x, name="first")
    with pytest.raises(og.ArgumentError, match="name 'first' is taken by another op"):
        g.relu(x, name="first")
    assert [op.name for op in g.ops] == ["first"]


def test_rejects_a_tensor_of_another_graph(g):
    with pytest.raises(og.ArgumentError, match=r"ReLU: src: tensor 'x' is of another graph"):
        og.Graph().relu(g.input("x", og.f32, (1,)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g, a: g.op("ReLU", [np.zeros(3)]),
            "ReLU: src: no logical tensor has the data type float64; convert the array with .astype(np.float32)",
        ),
        (
            lambda g, a: g.add(a, np.full(4, 1e300)),
            "Add: src_1: the ndarray; expected numbers within its range, as a is f32",
        ),
        (
            lambda g, a: g.relu(a, np.zeros(3)),
            "ReLU: inputs[1]: array([0., 0., 0.]); expected 1: src",
        ),
        (
            lambda g, a: g.convolution(1, 2),
            "Convolution: src: 1; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            "g.constant(np.float32(1))",
        ),
        (
            lambda g, a: g.relu("x"),
            "ReLU: src: 'x'; expected a tensor of this graph: g.tensor('x') finds it by name",
        ),
        (
            lambda g, a: g.add(1.0, 2),
            "Add: src_0: 1.0; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            "g.constant(np.float32(1.0))",
        ),
        (
            lambda g, a: g.matmul(g.input("b", og.bf16, (1,)), 2),
            "MatMul: weights: 2; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            "g.constant(np.array(2, og.bf16.numpy))",
        ),
        (
            lambda g, a: g.maximum(a, 1e300),
            "Maximum: src_1: 1e+300; expected numbers within its range, as a is f32",
        ),
        (
            lambda g, a: g.add(a, True),
            "Add: src_1: True; expected a tensor of this graph, as g.input, g.constant and ops return it",
        ),
        (
            lambda g, a: g.prelu(a, 0.5),
            "PReLU: slope: 0.5; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            "g.constant(np.float32(0.5))",
        ),
        (
            lambda g, a: g.matmul(a, 1),
            "MatMul: weights: 1; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            "g.constant(np.float32(1))",
        ),
        (
            lambda g, a: g.select(g.input("m", og.boolean, (4, 4)), 1, -np.inf),
            "Select: cond: shape [4, 4]; expected a shape that broadcasts to []\n"
            "the host op Where broadcasts all of its inputs: g.where(cond, src_0, src_1)",
        ),
        (
            lambda g, a: g.select(g.input("m", og.boolean, (4, 4)), a, g.input("b", og.f32, (5,))),
            "Select: src_1: shape [5]; expected a shape that broadcasts with [4, 4] of src_0",
        ),
        (
            lambda g, a: g.select(g.input("m", og.boolean, (3, 4)), a, g.input("b", og.s32, (4, 4))),
            "Select: src_1 is s32; expected f32, as src_0 is f32\n"
            "Select: cond: shape [3, 4]; expected a shape that broadcasts to [4, 4]\n"
            "g.cast(tensor, dtype=...) converts s32 to another data type",
        ),
        (
            lambda g, a: g.op("Divide", [a, a], {"cond": 1}),
            "Divide: cond: not an attribute of this op; expected auto_broadcast",
        ),
        (
            lambda g, a: g.select(1, a, a),
            "Select: cond: 1; expected a tensor of this graph, as g.input, g.constant and ops return it: "
            f"g.constant(np.{og.boolean.numpy.type.__name__}(1))",
        ),
        (
            lambda g, a: g.matmul(a, np.float64(2.5)),
            f"MatMul: weights: {np.float64(2.5)!r}; expected a tensor of this graph, as g.input, g.constant and ops "
            "return it: g.constant(np.float32(2.5))",
        ),
        (
            lambda g, a: g.softmax(a, -1),
            "SoftMax: inputs[1]: -1; expected 1: src; give attributes by name: axis, mode",
        ),
        (
            lambda g, a: g.relu(3, a, 1),
            "ReLU: src: 3; expected a tensor of this graph, as g.input, g.constant and ops "
            "return it: g.constant(np.float32(3))",
        ),
        (
            lambda g, a: g.concat(a, a, 1),
            "Concat: inputs[2]: 1; expected at least 1: src_i; give attributes by name: axis=1",
        ),
        (
            lambda g, a: g.reduce_mean(a, 1),
            "ReduceMean: axes: 1; expected a tensor of this graph, or the attribute axes=...",
        ),
        (
            lambda g, a: g.concat([a, a], axis=0),
            "Concat: inputs[0]: a list; expected its tensors one by one: g.concat(a, a)",
        ),
        (
            lambda g, a: g.relu([a]),
            "ReLU: src: a list of tensors; expected a tensor of this graph: one of them, without brackets",
        ),
        (
            lambda g, a: g.relu(og.LogicalTensor("a", og.f32, (4,), None, "a")),
            "ReLU: src: tensor 'a' is of another graph; expected a tensor of this graph",
        ),
        (
            lambda g, a: g.relu(og.LogicalTensor([], og.f32, (4,), None, "a")),
            "ReLU: src: tensor 'a' is of another graph; expected a tensor of this graph",
        ),
        (
            lambda g, a: g.relu(()),
            "ReLU: src: what an op without outputs returns; expected a tensor of this graph",
        ),
        (lambda g, a: g.op("ReLU", 3), "ReLU: inputs: 3; expected a list of tensors of this graph"),
        (lambda g, a: g.matmul(a), "MatMul: inputs: 1; expected 2 or 3: src, weights, bias? (? is optional)"),
        (lambda g, a: g.concat(axis=0), "Concat: inputs: 0; expected at least 1: src_i"),
        (
            lambda g, a: g.matmul(a, a, wei=a),
            "MatMul: wei: neither an input nor an attribute of this op; expected the inputs src, weights, bias; "
            "did you mean 'weights'?",
        ),
        (
            lambda g, a: g.op("MatMul", [a, a], {"bias": a}),
            "MatMul: bias: a tensor among the attributes; expected the inputs src, weights, bias; pass it as an input",
        ),
        (
            lambda g, a: g.input("y", "float", ()),
            "input 'y': no logical tensor has the data type float64; "
            "expected f32, which arrays become with .astype(np.float32)",
        ),
        (
            lambda g, a: g.dynamic_dequantize(g.input("s", "s8", (4,)), g.input("c", "bf16", (1,)), dtype="f16"),
            "DynamicDequantize: dtype: f16; expected bf16 for dst, the data type of scales",
        ),
        (
            lambda g, a: g.specialise({"q": (1,)}),
            "shapes: {'q': (1,)}; expected a dictionary by names of inputs: a",
        ),
    ],
)
def test_message_names_op_port_and_fix(g, call, message):
    a = g.input("a", og.f32, (4, 4))
    with pytest.raises(og.OneGraphError) as caught:
        call(g, a)
    assert str(caught.value) == message
    assert not g.ops


def test_suggested_fixes_work(g):
    a = g.input("a", og.f32, (4,))
    assert g.add(a, g.constant(np.float32(1.0))).shape == (4,)
    assert g.add(g.input("b", og.bf16, (1,)), g.constant(np.array(2, og.bf16.numpy))).dtype is og.bf16
    assert g.concat(a, a, axis=0).shape == (8,)
    assert g.select(a >= a, a, g.constant(np.float32(-np.inf))).shape == (4,)


@pytest.mark.parametrize(("rank", "fix"), [(3, "[2]"), (4, "[2, 2]"), (5, "[2, 2, 2]")])
def test_suggests_a_list_for_a_single_number(g, rank, fix):
    window = {"kernel": [1] * (rank - 2), "pads_begin": [0] * (rank - 2), "pads_end": [0] * (rank - 2)}
    with pytest.raises(og.SpecError) as caught:
        g.op("MaxPool", [g.input("x", og.f32, (4,) * rank)], {"strides": 2, **window})
    assert str(caught.value).endswith(f"; write {fix}, one for each spatial axis")
    with pytest.raises(og.SpecError, match=r"write one for each spatial axis: \[2, 2\] for two"):
        g.max_pool(g.input("any", og.f32), strides=2, **window)
    with pytest.raises(og.SpecError, match=r"write \[0\.1\]$"):
        g.quantize(g.input("q", og.f32, (4,) * rank), scales=0.1, dtype="u8")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("relue", "relu"),
        ("MatMul", "matmul"),
        ("BatchNormInference", "batch_norm_inference"),
        ("conv2d", "convolution"),
        ("reshape", "static_reshape"),
        ("sum", "reduce_sum"),
        ("compil", "compile"),
        ("topk", "top_k"),
        ("layernorm", "layer_norm"),
        ("BatchNorm2d", "batch_norm_forward_training' or 'batch_norm_inference"),
        ("Linear", "matmul"),
        *[(word, meant) for word, meant in ELSEWHERE.items() if "g." not in meant],
        ("batch_norm", "batch_norm_forward_training' or 'batch_norm_inference"),
    ],
)
def test_unknown_method_suggests_the_nearest(g, name, meant):
    with pytest.raises(AttributeError, match=rf"^'Graph' object has no attribute '{name}'; did you mean '{meant}'\?$"):
        getattr(g, name)


@pytest.mark.parametrize(("name", "call"), [(word, meant) for word, meant in ELSEWHERE.items() if "g." in meant])
def test_unknown_method_suggests_a_call(g, name, call):
    with pytest.raises(AttributeError) as refused:
        getattr(g, name)
    assert str(refused.value).endswith(f"; did you mean {call}?")


@pytest.mark.parametrize("name", ["xyzzy", "_repr_latex_", "__array__", "_relu"])
def test_unknown_method_without_a_near_match(g, name):
    assert not hasattr(g, name)
    with pytest.raises(AttributeError, match=rf"^'Graph' object has no attribute '{name}'$"):
        getattr(g, name)


def test_constants_of_s64(g):
    src, half = g.input("src", og.f32, (4,)), g.constant(np.float32(0.5))
    with pytest.raises(og.ArgumentError) as caught:
        g.constant(np.int64(7))
    assert "convert the array with .astype(np.int32), or pass dtype=og.s64 where" in str(caught.value)
    seed = g.constant(np.int64(7), dtype=og.s64)
    assert (seed.dtype, seed.shape, int(seed.value)) == (og.s64, (), 7)
    assert g.dropout(src, seed, g.constant(np.array(0), dtype="s64"), half).shape == (4,)
    assert g.constant(np.zeros(3, np.int8), dtype=og.s8).dtype is og.s8
    for wrong, dtype in ((np.zeros(3), og.s64), (np.zeros(3, np.int64), og.s32), (np.zeros(3, np.int8), og.u8)):
        with pytest.raises(og.ArgumentError, match=f"an array of {wrong.dtype}; expected .*, as dtype is {dtype}"):
            g.constant(wrong, dtype=dtype)
    with pytest.raises(og.ArgumentError, match=r"or og\.s64, where the specification wants that"):
        g.input("seed", np.int64, ())
    assert g.input("seed", og.s64, ()).dtype is og.s64
    assert to_python(g)[0].count("dtype=og.s64") == 2


def test_reports_all_mistakes_and_keeps_the_graph(g):
    x, w = g.input("x", og.f32, (1, 4, 4, 2)), g.input("w", og.bf16, (1, 1, 3, 2))
    before = repr(g)
    with pytest.raises(og.SpecError) as caught:
        g.op("Convolution", [x, w], {"strides": [0, 1], "dilatoins": [1, 1], "groups": True, "pads_begin": "00"})
    assert [violation.rule for violation in caught.value.violations] == [
        "attribute_range",
        "unknown_attribute",
        "attribute_kind",
        "attribute_kind",
        "missing_attribute",
        "missing_attribute",
        "data_type",
    ]
    assert "did you mean 'dilations'?" in str(caught.value)
    assert repr(g) == before


def test_unknown_op_is_named_before_its_arrays(g):
    with pytest.raises(og.SpecError, match="did you mean 'Convolution'"):
        g.op("Convolutoin", [g.input("source", "f32", (1, 8, 8, 3)), np.zeros((3, 3, 3, 4))])


def test_rejects_unknown_op_and_edition(g):
    with pytest.raises(og.SpecError, match="did you mean 'Convolution'"):
        g.op("Convolutoin", [])
    with pytest.raises(og.ArgumentError, match="did you mean 'legacy-1'"):
        og.Graph(edition="legacy1")
    with pytest.raises(ValueError, match="unknown edition 'onednn-4"):
        g.op("ReLU", [g.input("x", og.f32, (1,))], edition="onednn-4.0")


@pytest.mark.library
def test_graph_can_grow_between_compilations(g):
    x = g.input("x", og.f32, (3,))
    y = g.output("y", g.relu(x))
    first = g.compile()
    g.output("z", g.square(y))
    second = g.compile()
    data = np.array([-1, 2, 3], np.float32)
    assert first(data).tolist() == [0, 2, 3]
    assert second(data).z.tolist() == [0, 4, 9]


def test_copy_and_pickle_keep_the_graph(g):
    x = g.input("x", og.f32, (2, 5, 2), strides=(20, 4, 2))
    g.output("y", g.add(g.relu(x), g.constant(np.ones(2, np.float32))))
    for other in (g.copy(), copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert repr(other) == repr(g)
        other.output("z", other.relu(other.outputs["y"]))
        assert "z" not in g.outputs
        assert [op.id for op in other.ops] == [0, 1, 2]
        assert len(g.ops) == 2


@pytest.mark.library
def test_results_of_several_outputs_can_be_pickled(g):
    x = g.input("x", og.f32, (4,))
    both = g.softmax(g.input("s", og.f32, (2, 4)), axis=1, outputs=["stats"], dtype="f32")
    g.output("y", g.relu(x))
    g.output("2nd", x)
    result = g.compile()(np.ones(4, np.float32), np.ones((2, 4), np.float32))
    for value in (both, result):
        for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert other._fields == value._fields
            assert type(other).__name__ == type(value).__name__
            assert repr(other) == repr(value)


@pytest.mark.parametrize(
    "work",
    [
        lambda g, x, array: g.relu(x, name="r"),
        lambda g, x, array: g.op("SoftMax", [x], {"axis": 0}, name="r", dtype="f32", outputs=["stats"]),
        lambda g, x, array: g.input("z", og.f32, (4,), constant=True),
        lambda g, x, array: g.output("y", x, strides=[2]),
        lambda g, x, array: g.constant(array, copy=False),
    ],
    ids=["op", "outputs", "input", "output", "constant"],
)
def test_interrupt_leaves_the_graph_unchanged(work):
    for step in range(1, 1000):
        g, array = og.Graph(), np.ones(4, np.float32)
        x = g.input("x", og.f32, (4,))
        before = repr(g)
        if not interrupted(lambda g=g, x=x, array=array: work(g, x, array), step):
            break
        assert repr(g) == before
        assert array.flags.writeable
        work(g, x, array)
    assert step > 3


@pytest.mark.parametrize(
    "work",
    [
        lambda g, x: g.op("SoftMax", [x], {"axis": 0}, name="r", dtype=np.dtype(np.float32), outputs=["stats"]),
        lambda g, x: g.convolution(x, x, strides=[1], weights_format="OIX"),
        lambda g, x: g.input("z", np.float32, (4,)),
        lambda g, x: x * 2,
        lambda g, x: og.check_attrs("SoftMax", {"axis": 0}),
    ],
)
def test_exception_of_a_signal_handler_reaches_the_caller(work):
    def attempt():
        g = og.Graph()
        with contextlib.suppress(og.SpecError):
            work(g, g.input("x", np.dtype(np.float32), (1, 4, 4)))

    attempt()  # what is cached takes fewer calls
    lost = [step for step in range(1, moments(attempt)) if not interrupted(attempt, step, Alarm)]
    assert lost == []


def test_threads_can_build_one_graph(g):
    x, interval = g.input("x", og.f32, (1,)), sys.getswitchinterval()

    def work(first):
        for number in range(first, first + 200):
            g.output(f"y{number}", g.add(x, g.constant(np.full(1, number, np.float32))))

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(4)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(g.outputs) == len(g.ops) == 800
    assert og.check_graph(g) == []
    results = og.reference.run(g, {"x": np.zeros(1, np.float32)})
    assert all(value == int(name[1:]) for name, value in results.items())
    assert og.Graph.from_json(g.to_json()).outputs.keys() == g.outputs.keys()


@pytest.mark.parametrize("name", [object(), 3, None, b"text"], ids=["object", "3", "None", "bytes"])
def test_constant_name_must_be_text(g, name):
    with pytest.raises(og.ArgumentError, match=r"name: .*; expected a string"):
        g.constant(np.ones(4, np.float32), name=name)


def test_rejects_masked_arrays(g):
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    masked = np.ma.MaskedArray(np.ones(4, np.float32), [1, 0, 1, 0])
    for call in (
        lambda: g.constant(masked),
        lambda: g.with_constants({"x": masked}),
        lambda: g.specialise({}, {"x": masked}),
        lambda: og.reference.run(g, {"x": masked}),
    ):
        with pytest.raises(og.ArgumentError, match="a masked array; expected plain data"):
            call()


@grouped("schema", BASE.values(), key=lambda schema: schema.category, label=lambda schema: schema.kind)
def test_every_op_is_a_method(schema):
    method = getattr(og.Graph, schema.name)
    parameters = inspect.signature(method).parameters
    assert set(parameters) >= {port.name for port in schema.inputs} | {a.name for a in schema.attributes}
    for attribute in schema.attributes:
        assert f"{attribute.name}: {attribute.kind}" in method.__doc__
    text = " ".join(method.__doc__.split())
    assert all(" ".join(part.split()) in text for part in (schema.doc, *schema.notes))
    assert max(map(len, method.__doc__.splitlines())) <= 120


def test_method_rejects_unknown_attributes_and_inputs(g):
    x = g.input("x", og.f32, (1,))
    with pytest.raises(og.SpecError, match="alpha: not an attribute of this op"):
        g.relu(x, alpha=0.1)
    with pytest.raises(og.SpecError, match=r"inputs: 2; expected 1: src$"):
        g.relu(x, x)


# Lenient graphs -------------------------------------------------------------------------------------------------------

CUTTING = {"strides": [2], "pads_begin": [0], "pads_end": [-1], "data_format": "NCX"}
FORBIDDEN = {
    "pads_end": lambda g, x, y: g.max_pool(x, kernel=[2], **CUTTING),
    "scale_count": lambda g, x, y: g.dequantize(y, scales=[1.0, 2.0], qtype="per_channel", axis=1),
    "data types": lambda g, x, y: g.divide(x, g.input("z", og.bf16, (8,)), dtype=og.f16),
}


def sources(strict):
    g = og.Graph(strict=strict)
    return g, g.input("x", og.f32, (None, 2, 8)), g.input("y", og.u8, (2, 1))


READERS = {
    "copy": lambda g, path: g.copy(),
    "repr": lambda g, path: repr(g),
    "to_json": lambda g, path: og.Graph.from_json(g.to_json()),
    "save": lambda g, path: g.save(path / "g.json") or og.Graph.load(path / "g.json"),
    "check_graph": lambda g, path: og.check_graph(g),
    "to_dot": lambda g, path: g.to_dot(),
    "html": lambda g, path: g._repr_html_(),
    "specialise": lambda g, path: g.specialise({}),
    "with_constants": lambda g, path: g.with_constants({"x": np.ones(4, np.float32)}),
    "without_wildcards": lambda g, path: g.without_wildcards(),
    "constant_inputs": lambda g, path: g.constant_inputs,
    "random_inputs": lambda g, path: random_inputs(g),
    "to_python": lambda g, path: to_python(g),
    "translate_graph": lambda g, path: translate_graph(g, "onednn-3.2"),
    "rewrite": lambda g, path: rewrite(g, mb=0),
    "compile": lambda g, path: g.compile(threads=1),
    "partitions": lambda g, path: g.partitions(),
}


@pytest.mark.parametrize("reader", [library(name) if name in ("compile", "partitions") else name for name in READERS])
def test_graph_may_grow_while_it_is_read(g, reader, tmp_path):
    last = g.input("x", og.f32, (4,))
    g.output("y", g.relu(last))
    before, added = sys.gettrace(), iter(range(60))

    def grow(frame, event, argument):
        nonlocal last
        number = next(added, None) if "onegraph" in frame.f_code.co_filename else None
        if number is not None:
            sys.settrace(None)
            last = g.square(last)
            g.output(f"y{number}", last)
            g.output(f"z{number}", g.add(last, g.input(f"x{number}", og.f32, (4,))))
            sys.settrace(grow)
        return grow

    sys.settrace(grow)
    try:
        found = READERS[reader](g, tmp_path)
    finally:
        sys.settrace(before)
    if reader == "check_graph":
        assert found == []
    if isinstance(found, og.Graph):
        known = {tensor.id for tensor in found._tensors if tensor.constant or tensor in found.inputs.values()}
        for op in found.ops:
            assert {tensor.id for tensor in op.inputs} <= known
            known |= {tensor.id for tensor in op.outputs}
        assert {tensor.id for tensor in found.outputs.values()} <= known


@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_strict_graph_follows_the_specification(forbidden):
    with pytest.raises(og.SpecError):
        FORBIDDEN[forbidden](*sources(True))
    g, x, y = sources(False)
    g.output("out", FORBIDDEN[forbidden](g, x, y))
    assert any(one.severity == "error" for one in og.check_graph(g))
    for other in (g, g.copy(), pickle.loads(pickle.dumps(g)), og.Graph.from_json(g.to_json())):
        found = other.specialise({"x": (3, 2, 8)})
        assert found.strict is False
        assert None not in found.outputs["out"].shape


@pytest.mark.library
def test_negative_padding_crops():
    g, x, _ = sources(False)
    g.output("out", FORBIDDEN["pads_end"](g, x, None))
    data = np.arange(16, dtype=np.float32).reshape(1, 2, 8)
    # windows of 7 elements in steps of 2: no window covers the last element
    assert g.compile()(x=data, y=np.zeros((2, 1), np.uint8)).tolist() == [[[1, 3, 5], [9, 11, 13]]]


@pytest.mark.parametrize("pads", [[2**70], [-(2**63)], [-1.5], ["a"], -9, [-9], [-1, -1]])
def test_lenient_graph_rejects_what_the_library_rejects(pads):
    g, x, _ = sources(False)
    with pytest.raises(og.SpecError):
        g.max_pool(x, kernel=[2], **{**CUTTING, "pads_end": pads})
    assert g.ops == ()


def test_strict_must_be_a_boolean():
    with pytest.raises(og.ArgumentError, match="strict: 1; expected True or False"):
        og.Graph(strict=1)


def test_loaded_graphs_are_lenient_by_default():
    text = og.Graph().to_json()
    assert (og.Graph.from_json(text).strict, og.Graph.from_json(text, strict=True).strict) == (False, True)


@pytest.mark.library
def test_objects_cannot_be_initialized_twice():
    g = og.Graph()
    x = g.input("x", og.f32, (1 << 16,))
    g.output("y", g.relu(x))
    model, other = g.compile(), og.Graph()
    other.output("y", other.square(other.input("x", og.f32, (4,))))
    (op,) = g.ops
    schema = op.signature.schema
    for made, arguments in (
        (g, ("legacy-1",)),
        (model, (other,)),
        (x, (x.id, x.dtype, (4,))),
        (op, (op.id, "Square", op.inputs, op.outputs, {}, op.name, op.edition)),
        (op.signature, (schema, {}, op.signature.inputs, (og.s8,), ((4,),))),
        (schema, ("Square",)),
        (schema.inputs[0], ("src", "f32")),
        (x.type, (og.s8, (4,))),
    ):
        with pytest.raises(og.StateError, match="is made; make another one instead of calling __init__ again"):
            made.__init__(*arguments)
        if hasattr(made, "__setstate__"):
            with pytest.raises(og.StateError, match="is made"):
                made.__setstate__(made.__getstate__())
    assert (g.ops, x.shape, op.kind) == ((op,), (1 << 16,), "ReLU")
    assert model(np.full(1 << 16, 2, np.float32))[-1] == 2


@pytest.mark.parametrize("strides", [(0, 1), (2, 1), (1, 1), (1, 0)])
def test_rejects_overlapping_strides(strides):
    with pytest.raises(og.ArgumentError, match=r"input 'x': strides: .* expected memory of its own for each element"):
        og.Graph().input("x", og.f32, (2, 3), strides=strides)


@pytest.mark.parametrize(
    ("call", "dtypes"),
    [
        (lambda g, x: g.matmul(x, np.ones((3, 4)), np.arange(4)), {"bf16"}),
        (lambda g, x: g.matmul(x, weights=np.ones((3, 4), np.float32)), {"bf16"}),
        (lambda g, x: g.add(np.ones(3), x), {"bf16"}),
        (lambda g, x: g.concat(x, np.ones((2, 3)), axis=1), {"bf16"}),
        (lambda g, x: g.op("MatMul", [x, np.ones((3, 4))]), {"bf16"}),
        (lambda g, x: g.add(x, og.as_dlpack(np.ones(3, np.float32))), {"bf16"}),
        (lambda g, x: g.select(np.ones(3, bool), x, np.zeros(3)), {"bf16", "boolean"}),
        (lambda g, x: g.relu(np.ones(3, np.float32)), {"f32"}),
    ],
)
def test_arrays_become_constants_of_the_type_of_their_port(call, dtypes):
    g = og.Graph()
    call(g, g.input("x", og.bf16, (2, 3)))
    constants = [tensor for tensor in g._tensors if tensor.constant]
    assert {str(tensor.dtype) for tensor in constants} == dtypes
    assert all(not tensor.value.flags.writeable for tensor in constants)
    assert len(g.ops) == 1


def test_a_refused_op_leaves_no_constants(g):
    with pytest.raises(og.SpecError):
        g.matmul(g.input("x", og.f32, (2, 3)), np.ones((9, 4), np.float32))
    assert not g.constants


def test_dtypes_of_pytorch_are_data_types():
    of_torch = type("dtype", (), {"__repr__": lambda self: self.name})
    found = {name: of_torch() for name in ("torch.float32", "torch.bfloat16", "torch.bool", "torch.complex64")}
    for name, one in found.items():
        one.name = name
    wanted = [og.f32, og.bf16, og.boolean]
    assert [og.DataType.of(found[name]) for name in ("torch.float32", "torch.bfloat16", "torch.bool")] == wanted
    with pytest.raises(og.ArgumentError, match="complex64"):
        og.DataType.of(found["torch.complex64"])


HOST_ONLY = sorted({*edition("host").schemas} - {*BASE, "Reshape", "Transpose"})


@grouped("kind", HOST_ONLY, key=lambda kind: kind[0])
def test_each_host_op_has_a_method(kind):
    schema = edition("host").schemas[kind]
    name = schema.name.removeprefix("host_")
    method = getattr(og.Graph, f"{name}_" if iskeyword(name) else name)
    assert method.__doc__.startswith(f"{kind}: ")
    assert list(inspect.signature(method).parameters)[1:][: len(schema.inputs)] == [port.name for port in schema.inputs]
    with pytest.raises(AttributeError, match=f"did you mean '{method.__name__}'"):
        getattr(og.Graph(), kind)


@pytest.mark.library
def test_host_methods_take_numbers_and_lists():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 6))
    rows = g.gather(g.slice(x, [0], [3]), [2, 0], axis=0)
    g.output("rows", rows)
    g.output("best", g.top_k(x, 2).values)
    g.output("kept", g.where(g.not_(g.greater(x, 0)), -1.0, x))
    array = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    first, best, kept = g.compile()(array)
    np.testing.assert_array_equal(first, array[[2, 0]])
    np.testing.assert_array_equal(best, -np.sort(-array)[:, :2])
    np.testing.assert_array_equal(kept, np.where(array > 0, array, np.float32(-1)))


@pytest.mark.parametrize("operand", ["0", [[1], [2, 3]], None, object()])
def test_host_methods_refuse_what_holds_no_numbers(operand):
    g = og.Graph()
    with pytest.raises(og.OneGraphError, match="Gather: in"):
        g.gather(g.input("x", og.f32, (4, 6)), operand)
    assert not g.ops


@pytest.mark.parametrize(
    ("choices", "wanted", "first", "found"),
    [
        (["f32"], None, None, ["f32"]),
        (["f32"], "f32", "bf16", ["f32"]),
        (["f32"], "bf16", "bf16", None),
        (["f32 bf16"], "bf16", "f32", ["bf16"]),
        (["f32 bf16"], "s8", "f32", None),
        (["f32 bf16"], None, "bf16", ["bf16"]),
        (["f32 bf16"], None, "s8", None),
        (["f32 bf16"], None, None, None),
        (["f32 bf16", "f32"], "bf16", "f32", ["bf16", "f32"]),
        (["f32", "f32 bf16"], None, "bf16", ["f32", "bf16"]),
        (["f32", "bf16"], "bf16", None, ["f32", "bf16"]),
    ],
)
def test_outputs_have_the_wanted_data_type_or_that_of_the_first_input(choices, wanted, first, found):
    chosen = edition("onednn-3.13")
    options = [[*map(og.DataType, each.split())] for each in choices]
    types = [None if each is None else og.DataType(each) for each in (wanted, first)]
    schema = chosen.schemas["LayerNorm"]  # of several outputs
    if found is None:
        with pytest.raises(og.SpecError):
            output_dtypes(chosen, schema, options, *types)
    else:
        assert output_dtypes(chosen, schema, options, *types) == [*map(og.DataType, found)]


@pytest.mark.parametrize(("kind", "flag"), [("LayerNorm", "keep_stats"), ("GroupNorm", "keep_stats")])
def test_norms_have_the_outputs_that_their_flag_selects(kind, flag):
    inputs = [("f32", (2, 4, 3, 4)), *[("f32", (4,))] * 2]
    for keeps in (False, True):
        for count in (1, 2, 3, 4):
            attrs = {flag: keeps, **({"groups": 2} if kind == "GroupNorm" else {})}
            outputs = [("f32", None)] * count
            rules = {one.rule for one in og.check_op(kind, attrs, inputs, outputs, edition="onednn-3.13")}
            assert ("output_count" in rules) == (count != (3 if keeps else 1)), (keeps, count)
