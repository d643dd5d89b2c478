"""Graphs rewritten as benchdnn rewrites them, and every line of its harness files."""

import json
import math
from enum import Enum
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED, draws
from helpers.specification import graph_errors
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.harness import read_harness, rewrite, rewrite_like_benchdnn
from onegraph.transform.batch_inputs import with_batch

CORPUS = SHARED / "data" / "benchdnn-3.2"
HARNESSES = sorted(CORPUS.glob("*/harness_*"))
SMALL = 4000  # the largest tensor, in elements, of a graph that is run


def chain():
    """Convolution, bias, ReLU and the sum with a second input."""
    g = og.Graph()
    src = g.input("src", og.f32, (2, 8, 8, 3))
    weights = g.input("weights", og.f32, (3, 3, 3, 4))
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    conv = g.convolution(src, weights, g.constant(np.ones(4, np.float32)), **window, name="conv")
    relu = g.relu(conv, name="act")
    g.output("dst", g.add(relu, g.input("other", og.f32, (2, 8, 8, 4)), name="sum"))
    return g


def shapes(graph):
    return {tensor.name: tensor.shape for tensor in graph._tensors}


# Shapes ---------------------------------------------------------------------------------------------------------------


def test_infers_shapes_again():
    g = chain()
    before = g.to_json()
    found = rewrite(g, in_shapes="0:5x10x12x3+5:5x10x12x4")
    assert found.inputs["src"].shape == (5, 10, 12, 3)
    assert {op.name: op.outputs[0].shape for op in found.ops} == dict.fromkeys(["conv", "act", "sum"], (5, 10, 12, 4))
    assert found.outputs["dst"].shape == (5, 10, 12, 4)
    assert g.to_json() == before
    assert found.ops[0].inputs[2].value.tolist() == [1, 1, 1, 1]
    # the JSON has the new shapes too, which the library's own program reads
    form = json.loads(found.to_json())
    assert [op["outputs"][0]["shape"] for op in form["graph"]] == [[5, 10, 12, 4]] * 3
    assert form["graph"][1]["inputs"][0]["stride"] == [480, 48, 4, 1]


@pytest.mark.parametrize(
    "in_shapes",
    [
        "0:4x8x8x3+5:4x8x8x4",
        {"src": (4, 8, 8, 3), "other": [4, 8, 8, 4]},
        {0: "4x8x8x3", "other": np.array([4, 8, 8, 4])},
    ],
)
def test_accepts_ids_and_names(in_shapes):
    assert rewrite(chain(), in_shapes=in_shapes).to_json() == rewrite(chain(), mb=4).to_json()


@pytest.mark.parametrize(
    ("text", "shape", "strides"),
    [
        ("0:2x3x4", (2, 3, 4), None),
        ("0:*cba", (3, 4, 5), (1, 3, 12)),
        ("0:*20x5x1", (3, 4, 5), None),
        ("0:*60x15x3", (3, 4, 5), (60, 15, 3)),
        ("0:2x2x2*acb", (2, 2, 2), (4, 1, 2)),
        ("0:2x2x2*32x16x4", (2, 2, 2), (32, 16, 4)),
        ("0:2x1x3*cba", (2, 1, 3), (1, 2, 2)),
        ("0:2x0x3*bac", (2, 0, 3), (3, 6, 1)),
        ("0:2x0x3*1x1x1", (2, 0, 3), (1, 1, 1)),
        ("0:7x9", (7, 9), None),
        ("0:-", (), None),
        ("0:0", (0,), None),
        ("0:0:2x3", (2, 3), None),
        ("0*ab:2x3", (2, 3), None),
    ],
)
def test_forms_of_a_shape(text, shape, strides):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (3, 4, 5), strides=(60, 15, 3) if "60" in text else None)))
    found = rewrite(g, in_shapes=text)
    assert (found.inputs["x"].shape, found.inputs["x"].strides) == (shape, strides)
    assert found.outputs["y"].shape == shape
    values = random_inputs(found)
    np.testing.assert_array_equal(og.reference.run(found, values)["y"], np.maximum(values["x"], 0))


def test_a_shape_without_strides_is_dense():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4, 5), strides=(1, 4))))
    assert rewrite(g, in_shapes="0:4x5").inputs["x"].strides is None
    # a new batch alone keeps the order of the axes
    assert rewrite(g, mb=7).inputs["x"].strides == (1, 7)


def test_fills_unknown_shapes():
    g = og.Graph()
    x = g.input("x", og.f32, (None, 3))
    g.output("y", g.relu(g.matmul(x, g.input("w", og.f32, None))))
    assert rewrite(g, in_shapes="0:7x3+1:3x2").outputs["y"].shape == (7, 2)


def test_keeps_unchanged_ops_as_the_file_has_them():
    g = og.Graph()
    x, sizes = g.input("x", og.f32, (1, 2, 2, 1)), g.input("sizes", og.s32, (2,))
    y = g.interpolate(x, sizes, mode="nearest")
    g.output("y", y)
    g.output("z", g.relu(g.input("x2", og.f32, (3,)), name="r"))
    form = json.loads(g.to_json())
    form["graph"][0]["outputs"][0].update(shape=[1, 4, 4, 1], stride=[16, 4, 1, 1], layout_type="strided")
    loaded = og.Graph.from_json(json.dumps(form))
    found = rewrite(loaded, in_shapes={"x2": (5,)})
    assert found.outputs["y"].shape == (1, 4, 4, 1)
    assert rewrite(loaded, in_shapes={"x": (2, 2, 2, 1)}).outputs["y"].shape == (2, None, None, 1)


def test_empty_text_and_default_change_nothing():
    same = json.loads(rewrite(chain(), in_shapes="0:2x8x8x3").to_json())
    assert json.loads(rewrite(chain(), in_shapes="").to_json()) == same
    assert json.loads(rewrite(chain(), op_attrs="").to_json()) == same
    assert json.loads(rewrite(chain(), in_shapes="0:default+5:2x8x8x4").to_json()) == same


def test_ignores_shapes_of_unread_tensors():
    found, passed_over = rewrite_like_benchdnn(chain(), in_shapes="0:5x8x8x3+9:7+5:5x8x8x4+6:1x2")
    assert (found.outputs["dst"].shape, passed_over) == ((5, 8, 8, 4), [9, 6])
    for known in ("3:2x3", "2:4", "nobody:2"):  # tensors that an op reads, or an unknown id
        with pytest.raises(og.ArgumentError, match="in_shapes: tensor"):
            rewrite_like_benchdnn(chain(), in_shapes=known)


# Attributes -----------------------------------------------------------------------------------------------------------


def test_rewrites_attributes_of_every_kind():
    found = rewrite(chain(), op_attrs="0:strides:2x2*auto_pad:VALID*groups:1+conv:pads_end:0x1", in_shapes="5:2x3x3x4")
    assert found.ops[0].attrs["strides"] == (2, 2)
    assert found.ops[0].attrs["auto_pad"] == "valid"
    assert found.ops[0].attrs["groups"] == 1
    assert found.outputs["dst"].shape == (2, 3, 3, 4)
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("a", g.clamp(x, min=-float("inf"), max=2))
    g.output("b", g.reduce_sum(x, axes=[0], keep_dims=True))
    found = rewrite(g, op_attrs="0:min:-1.5e-1*max:6.+1:axes:-1*keep_dims:0")
    assert found.ops[0].attrs == {
        "min": -0.15000000596046448 if found.ops[0].attrs["min"] != -0.15 else -0.15,
        "max": 6.0,
    }
    assert found.ops[1].attrs == {"axes": (-1,), "keep_dims": False}
    assert found.outputs["b"].shape == (2,)
    found = rewrite(g, op_attrs={0: {"min": -1}, 1: {"axes": np.array([0, 1]), "keep_dims": True}})
    assert found.ops[0].attrs == {"min": -1.0, "max": 2.0}
    assert found.outputs["b"].shape == (1, 1)


def test_rejects_overlapping_strides():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4, 8))))
    message = r"in_shapes: '\*1x2' for \[4, 8\]; expected memory of its own for each element"
    with pytest.raises(og.ArgumentError, match=message):
        rewrite(g, in_shapes="x:4x8*1x2")
    assert rewrite(g, in_shapes="x:4x8*1x4").inputs["x"].strides == (1, 4)


def test_scales_follow_the_channels():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    q = g.quantize(x, qtype="per_channel", axis=1, scales=[0.5, 1, 2], zps=[1, 2, 3], dtype=og.s8)
    g.output("y", g.dequantize(q, qtype="per_channel", axis=-1, scales=[0.5, 1, 2], zps=[1, 2, 3]))
    wide, narrow = rewrite(g, in_shapes="0:4x5"), rewrite(g, in_shapes="0:4x2")
    for op in wide.ops:
        assert op.attrs["scales"] == (0.5, 1, 2, 0.5, 1)
        assert op.attrs["zps"] == (1, 2, 3, 0, 0)
    assert [op.attrs["scales"] for op in narrow.ops] == [(0.5, 1)] * 2
    assert wide.outputs["y"].shape == (4, 5)
    assert graph_errors(wide) == graph_errors(narrow) == []


# Data types and kinds -------------------------------------------------------------------------------------------------


def test_one_data_type_for_all_tensors():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    norm = g.layer_norm(x, g.constant(np.ones(3, np.float32)), g.input("beta", og.f32, (3,)))
    g.output("y", g.relu(norm.dst))
    g.output("i", g.gen_index(norm.dst, axis=0))
    for name in ("bf16", "f16"):
        found = rewrite(g, dt=name)
        assert {str(found.inputs["x"].dtype), str(found.outputs["y"].dtype)} == {name}
        assert found.inputs["beta"].dtype is og.f32  # parameters of a normalization keep their type
        assert found.outputs["i"].dtype is og.s32
        assert graph_errors(found) == []
    back = rewrite(rewrite(g, dt="bf16"), dt="f32")
    assert back.to_json() == g.to_json()


def test_casts_that_have_nothing_to_do_are_removed():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 2))
    low, weights = (g.type_cast(one, dtype=og.bf16) for one in (x, g.constant(np.float32([[1, 2], [3, 4]]))))
    g.output("y", g.type_cast(g.matmul(low, weights, name="product"), dtype=og.f32))
    g.output("low", low)
    found = rewrite(g, dt="f32")
    assert [op.name for op in found.ops] == ["product"]
    assert {str(one.dtype) for one in (*found.inputs.values(), *found.outputs.values())} == {"f32"}
    expected = np.float32([[1, 2], [3, 4]])
    results = og.reference.run(found, {"x": np.eye(2, dtype=np.float32)})
    assert all(np.array_equal(results[name], one) for name, one in {"y": expected, "low": np.eye(2)}.items())


def test_casts_constants():
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 2)), g.constant(np.float32([[1, 2], [3, 4.5]]))))
    value = rewrite(g, dt="bf16").ops[0].inputs[1].value
    assert (value.dtype, value.astype(np.float32).tolist()) == (og.bf16.numpy, [[1, 2], [3, 4.5]])


def test_data_types_for_some_tensors():
    g = og.Graph()
    g.output("y", g.add(g.input("a", og.f32, (2,)), g.input("b", og.f32, (2,))))
    found = rewrite(g, dt="1:bf16")
    assert [str(tensor.dtype) for tensor in found.ops[0].inputs] == ["f32", "bf16"]
    assert rewrite(g, dt={"a": og.s32, "b": "s32", "y": np.int32}).outputs["y"].dtype is og.s32
    with pytest.raises(og.SpecError, match="Add"):
        rewrite(g, dt="1:s8")


class Name(str, Enum):
    """A string with its own hash and format."""

    BF16 = "bf16"
    OP = "relu_0"
    TANH = "Tanh"
    X = "x"
    WIDE = "2x4"


@pytest.mark.parametrize(
    "options", [{"mb": 2}, {"dt": "bf16"}, {"dt": Name.BF16}, {"in_shapes": "0:3x4"}, {"op_attrs": "0:beta:1"}]
)
def test_rewrites_an_op_without_attributes(options):
    g = og.Graph()
    g.output(
        "y",
        g.softplus(g.input("x", og.f32, (5, 4)), beta=2.0)
        if "op_attrs" in options
        else g.relu(g.input("x", og.f32, (5, 4))),
    )
    form = json.loads(g.to_json())
    del form["graph"][0]["attrs"]
    found = rewrite(og.Graph.from_json(json.dumps(form)), **options)
    assert (found.inputs["x"].shape, str(found.inputs["x"].dtype)) == {
        "mb": ((2, 4), "f32"),
        "dt": ((5, 4), "bf16"),
        "in_shapes": ((3, 4), "f32"),
        "op_attrs": ((5, 4), "f32"),
    }[next(iter(options))]
    assert found.outputs["y"].shape == found.inputs["x"].shape


@pytest.mark.parametrize("options", [{"in_shapes": {Name.X: Name.WIDE}}, {"op_kind": {Name.OP: Name.TANH}}])
def test_reads_string_subclasses_by_their_characters(options):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    found = rewrite(g, **options)
    assert (found.inputs["x"].shape, found.ops[0].kind) == (
        ((2, 4), "ReLU") if "in_shapes" in options else ((2, 3), "Tanh")
    )


def test_rewrites_op_kinds():
    found = rewrite(chain(), op_kind="2:Multiply+act:Tanh")
    assert [op.kind for op in found.ops] == ["Convolution", "Tanh", "Multiply"]
    g = og.Graph()
    g.output("y", g.elu(g.input("x", og.f32, (2,)), alpha=0.5))
    assert rewrite(g, op_kind="0:ReLU").ops[0].attrs == {}
    assert rewrite(g, op_kind="0:Pow", op_attrs="0:beta:2").ops[0].attrs == {"beta": 2.0}
    with pytest.raises(og.SpecError, match="beta"):
        rewrite(g, op_kind="0:Pow")


def test_undef_removes_ops():
    found = rewrite(chain(), op_kind="act:undef")
    assert [op.name for op in found.ops] == ["conv", "sum"]
    assert found.ops[1].inputs[0] is found.ops[0].outputs[0]
    found = rewrite(chain(), op_kind="2:undef", in_shapes="0:5x8x8x3")
    assert (list(found.inputs), [op.name for op in found.ops]) == (["src", "weights"], ["conv", "act"])
    assert found.outputs["dst"].shape == (5, 8, 8, 4)
    assert found.outputs["dst"] is found.ops[1].outputs[0]
    form = json.loads(found.to_json())
    assert (len(form["input_ports"]), form["output_ports"]) == (2, [form["graph"][1]["outputs"][0]["id"]])
    x = random_inputs(found)
    conv = rewrite(found, op_kind="act:undef")
    assert [op.kind for op in conv.ops] == ["Convolution"]
    np.testing.assert_array_equal(og.reference.run(conv, x)["dst"].clip(0), og.reference.run(found, x)["dst"])


def test_undef_infers_broadcasts_again():
    """The readers get the input that an op produces, also if the other input has the larger shape."""
    g = og.Graph()
    made = g.relu(g.input("x", og.f32, (1, 4)), name="made")
    g.output("y", g.tanh(g.divide(made, g.input("wide", og.f32, (3, 4)), name="gone")))
    found = rewrite(g, op_kind="gone:undef")
    assert (list(found.inputs), found.outputs["y"].shape) == (["x"], (1, 4))


def test_undef_can_leave_no_op():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3))))
    found = rewrite(g, op_kind="0:undef")
    assert (found.ops, found.outputs["y"].shape) == ((), (2, 3))
    assert found.outputs["y"].id == found.inputs["x"].id


def test_rewrites_property_types():
    found = rewrite(chain(), tensor_property="weights:constant+5:host_scalar")
    assert list(found.constant_inputs) == ["weights"]
    uses = {use["id"]: use["property_type"] for op in json.loads(found.to_json())["graph"] for use in op["inputs"]}
    assert [uses[number] for number in (0, 1, 5)] == ["undef", "constant", "host_scalar"]
    assert list(rewrite(found, tensor_property="1:undef").constant_inputs) == []


@pytest.mark.library
def test_rewrites_the_fpmath_mode():
    found = json.loads(rewrite(chain(), attr_fpmath="bf16:true").to_json())
    assert (found["fpmath_mode"], found["fpmath_mode_apply_to_int"]) == ("bf16", "true")
    assert rewrite(chain(), attr_fpmath="tf32").compile(fpmath_mode=None).report().fpmath_mode == "tf32"


# The batch ------------------------------------------------------------------------------------------------------------


def test_changes_the_batch_of_all_inputs():
    found = rewrite(chain(), mb=5)
    assert {name: tensor.shape[0] for name, tensor in found.inputs.items()} == {"src": 5, "weights": 3, "other": 5}
    assert found.outputs["dst"].shape == (5, 8, 8, 4)
    assert rewrite(chain(), mb=0).to_json() == chain().to_json()
    # a batch overrides a shape
    assert rewrite(chain(), mb=3, in_shapes="0:7x4x4x3+5:7x4x4x4").outputs["dst"].shape == (3, 4, 4, 4)


@pytest.mark.parametrize(
    ("build", "batches"),
    [
        (lambda g, x: g.matmul(x, g.input("w", og.f32, (4, 3))), {"x": 9, "w": 4}),
        (lambda g, x: g.add(x, g.input("w", og.f32, (1, 4))), {"x": 9, "w": 1}),
        (lambda g, x: g.add(g.input("w", og.f32, (2, 4)), x), {"x": 9, "w": 9}),
        (lambda g, x: g.add(g.input("w", og.f32, (4,)), x), {"x": 9, "w": 4}),
        (lambda g, x: g.concat(x, g.input("w", og.f32, (2, 1)), axis=1), {"x": 9, "w": 9}),
        (lambda g, x: g.relu_backward(x, g.input("w", og.f32, (2, 4))), {"x": 9, "w": 9}),
        (lambda g, x: g.static_reshape(x, shape=[-1, 2], special_zero=False), {"x": 9}),
        (lambda g, x: g.prelu(x, g.input("w", og.f32, (2, 4))), {"x": 9, "w": 9}),
    ],
)
def test_finds_inputs_with_a_batch(build, batches):
    g = og.Graph()
    g.output("y", build(g, g.input("x", og.f32, (2, 4))))
    assert {name: tensor.shape[0] for name, tensor in rewrite(g, mb=9).inputs.items()} == batches


def test_refuses_a_batch_that_an_attribute_holds():
    g = og.Graph()
    g.output("y", g.static_reshape(g.input("x", og.f32, (2, 4)), shape=[2, 2, 2], special_zero=False))
    with pytest.raises(og.ArgumentError, match="mb: 3; no input of this graph has a batch"):
        rewrite(g, mb=3)


# Rejected rewrites ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"in_shapes": "0"}, og.ArgumentError, "in_shapes: '0'; expected ID:VALUE"),
        ({"in_shapes": "0:2x"}, og.ArgumentError, "expected dims such as"),
        ({"in_shapes": "0:2x3+0:2x3"}, og.ArgumentError, "each id once"),
        ({"in_shapes": "9:2x3"}, og.ArgumentError, r"tensor 9; the inputs are 0 \(src\), 1 \(weights\), 5 \(other\)"),
        ({"in_shapes": "3:2x3"}, og.ArgumentError, "no graph input"),
        ({"in_shapes": "2:4"}, og.ArgumentError, "a constant whose contents are known"),
        ({"in_shapes": "0:*aabc"}, og.ArgumentError, "expected the letters 'abcd' in some order"),
        ({"in_shapes": "0:*abc"}, og.ArgumentError, "expected the letters"),
        ({"in_shapes": "0:*2x3"}, og.ArgumentError, "expected 4 strides"),
        ({"in_shapes": "0:2x3,0:3x4"}, og.ArgumentError, "expected ID:VALUE"),
        ({"in_shapes": {"nobody": (2,)}}, og.ArgumentError, "tensor 'nobody'"),
        ({"in_shapes": {"src": "-1x3"}}, og.ArgumentError, "expected dims"),
        ({"in_shapes": {"src": (-1, 3)}}, og.ArgumentError, "expected dims"),
        ({"in_shapes": {"src": 3}}, og.ArgumentError, "expected dims"),
        ({"in_shapes": {"src": (2, None)}}, og.ArgumentError, "expected dims"),
        ({"in_shapes": {"src": (1,) * 13}}, og.ArgumentError, "expected dims"),
        ({"in_shapes": "0:2x8x8x5"}, og.SpecError, "Convolution"),
        ({"op_attrs": "7:strides:1x1"}, og.ArgumentError, r"op 7; the ops are 0 \(Convolution 'conv'\)"),
        ({"op_attrs": "cnv:strides:1x1"}, og.ArgumentError, "did you mean 'conv'[?]"),
        ({"op_attrs": "0:stride:1x1"}, og.ArgumentError, "has no attribute 'stride'; it has strides"),
        ({"op_attrs": "0:strides:axb"}, og.ArgumentError, "strides: 'axb'; expected integers such as 1x2"),
        ({"op_attrs": "0:groups:x"}, og.ArgumentError, "expected an integer"),
        ({"op_attrs": "0:groups:1e3"}, og.ArgumentError, "groups: '1e3'; expected an integer"),
        ({"op_attrs": "0:groups:1.9"}, og.ArgumentError, "groups: '1.9'; expected an integer"),
        ({"op_attrs": "0:groups:\u0661"}, og.ArgumentError, "expected an integer"),
        ({"op_attrs": "0:strides:1.7x1"}, og.ArgumentError, "strides: '1.7x1'; expected integers such as 1x2"),
        ({"op_attrs": "\u0660:groups:1"}, og.ArgumentError, "op '\u0660'"),
        ({"in_shapes": "0:\u0662x3"}, og.ArgumentError, "expected dims such as"),
        ({"mb": 2**31}, og.ArgumentError, "below 2[*][*]31"),
        ({"op_attrs": "0:strides:0x0"}, og.SpecError, "strides"),
        ({"op_attrs": {0: [1]}}, og.ArgumentError, "expected NAME:VALUE"),
        ({"op_attrs": {0: {"strides": object()}}}, og.OneGraphError, "strides"),
        ({"op_attrs": 3}, og.ArgumentError, "op_attrs: 3; expected"),
        ({"mb": -1}, og.ArgumentError, "mb: -1"),
        ({"mb": True}, og.ArgumentError, "mb: True"),
        ({"mb": "2"}, og.ArgumentError, "mb: '2'"),
        ({"dt": "f64"}, og.ArgumentError, "dt: 'f64'; expected one of f32, bf16, f16"),
        ({"dt": "s8"}, og.ArgumentError, "dt: 's8'"),
        ({"dt": "0:float"}, og.ArgumentError, "dt: no logical tensor has the data type float64"),
        ({"op_kind": "1:Add"}, og.ArgumentError, "ReLU as 'Add'; expected another op of the category"),
        ({"op_kind": "0:ReLU"}, og.ArgumentError, "Convolution as 'ReLU'; only elementwise and binary ops change"),
        ({"op_kind": "1:Nothing"}, og.ArgumentError, "ReLU as 'Nothing'"),
        ({"op_kind": "1:Sigmiod"}, og.ArgumentError, "category elementwise; did you mean 'Sigmoid'[?]"),
        ({"op_kind": {1: 5}}, og.ArgumentError, "ReLU as 5"),
        ({"op_kind": "0:undef"}, og.ArgumentError, "Convolution as 'undef'; only elementwise and binary ops of one or"),
        ({"op_kind": "9:undef"}, og.ArgumentError, "op 9; the ops are"),
        ({"op_kind": "1:undef", "op_attrs": "1:alpha:1"}, og.ArgumentError, "op 1; the ops are 0 .*, 2 "),
        ({"tensor_property": "1:fixed"}, og.ArgumentError, "'fixed'; expected one of undef, variable, constant, host_"),
        ({"tensor_property": "constant"}, og.ArgumentError, "expected ID:VALUE"),
        ({"tensor_property": "99:constant"}, og.ArgumentError, "tensor 99; the inputs are"),
        ({"attr_fpmath": "f64"}, og.ArgumentError, "attr_fpmath: 'f64'; expected MODE"),
        ({"attr_fpmath": "bf16:maybe"}, og.ArgumentError, "attr_fpmath: 'bf16:maybe'; expected MODE"),
    ],
)
def test_rejects_invalid_rewrites(options, error, message):
    with pytest.raises(error, match=message):
        rewrite(chain(), **options)


@pytest.mark.parametrize("count", [0, 2])
def test_removes_no_op_with_unclear_input(count):
    g = og.Graph()
    inputs = [g.input(name, og.f32, (2,)) for name in "ab"]
    made = [g.abs(tensor) for tensor in inputs[:count]] + inputs[count:]
    g.output("y", g.add(*made, name="sum"))
    with pytest.raises(og.ArgumentError, match=f"Add as 'undef': {count} inputs come from ops; expected one"):
        rewrite(g, op_kind="sum:undef")


def test_rejects_one_type_for_type_conversions():
    g = og.Graph()
    g.output("y", g.quantize(g.input("x", og.f32, (2,)), scales=[1.0], zps=[0], dtype=og.s8))
    with pytest.raises(og.ArgumentError, match="dt: bf16, of a graph with Quantize"):
        rewrite(g, dt="bf16")


# Properties -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.data())
@settings(max_examples=60, deadline=None)
def test_rewritten_random_graphs_are_valid_and_run(seed, data):
    graph = random_graph(seed, 5)
    names = [name for name, tensor in graph.inputs.items() if tensor.shape]
    dim = st.integers(1, 4)
    given_shapes = (
        {
            name: tuple(data.draw(dim) if data.draw(st.booleans()) else old for old in graph.inputs[name].shape)
            for name in data.draw(st.lists(st.sampled_from(names), unique=True))
        }
        if names
        else {}
    )
    try:
        found = rewrite(graph, in_shapes=given_shapes)
    except og.SpecError:
        return
    assert graph_errors(found) == []
    assert {name: found.inputs[name].shape for name in given_shapes} == given_shapes
    results = og.reference.run(found, random_inputs(found, 0))
    assert {name: array.shape for name, array in results.items()} == {n: t.shape for n, t in found.outputs.items()}


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_unchanged_shapes_change_nothing(seed):
    graph = random_graph(seed, 6)
    found = rewrite(graph, in_shapes={name: tensor.shape for name, tensor in graph.inputs.items() if tensor.shape})
    assert found.to_json() == graph.to_json()


# Harness files --------------------------------------------------------------------------------------------------------


def harness(folder, text):
    (folder / "inputs" / "op").mkdir(parents=True, exist_ok=True)
    chain().save(folder / "inputs" / "chain.json")
    (folder / "inputs" / "op" / "harness_x").write_text(text)
    return folder / "inputs" / "op" / "harness_x"


def test_reads_harness_lines(tmp_path):
    path = harness(
        tmp_path,
        "# comment\n\n--reset --case=chain.json\n--mb=4 --case=chain.json # more\n--op-kind=1:Tanh --case=chain.json\n"
        "--reset --dt=f32,bf16 --mb=0,2 --expected-n-partitions=2 --case=chain.json\n"
        "--reset --in-shapes=,0:1x8x8x3+5:1x8x8x4+77:3--op-attrs=0:groups:1 --case=chain.json\n",
    )
    cases = read_harness(path)
    assert [dict(case.options) for case in cases] == [
        {},
        {"mb": "4"},
        {"mb": "4", "op_kind": "1:Tanh"},
        {"dt": "f32"},
        {"dt": "f32", "mb": "2"},
        {"dt": "bf16"},
        {"dt": "bf16", "mb": "2"},
        {"op_attrs": "0:groups:1"},
        {"in_shapes": "0:1x8x8x3+5:1x8x8x4+77:3", "op_attrs": "0:groups:1"},
    ]
    assert cases[0].line == f"{path}:3"
    assert cases[3].knobs == {"expected-n-partitions": "2"}
    assert cases[0].knobs == {}
    assert {case.path for case in cases} == {tmp_path / "inputs" / "chain.json"}
    batches = [case.load().outputs["dst"].shape[0] for case in cases]
    assert batches == [2, 4, 4, 2, 2, 2, 2, 2, 1]
    assert str(cases[6].load().outputs["dst"].dtype) == "bf16"


def test_reads_every_rewriting_option(tmp_path):
    path = harness(
        tmp_path,
        "--reset --op-kind=1:undef,1:Tanh --tensor-property=1:undef,1:constant --attr-fpmath=,bf16 --case=chain.json\n",
    )
    cases = read_harness(path)
    assert [(len(case.load().ops), list(case.load().constant_inputs)) for case in cases] == [
        *[(2, [])] * 2,
        *[(2, ["weights"])] * 2,
        *[(3, [])] * 2,
        *[(3, ["weights"])] * 2,
    ]
    assert [json.loads(case.load().to_json()).get("fpmath_mode", "strict") for case in cases] == ["strict", "bf16"] * 4
    assert all(case.knobs == {} for case in cases)


def test_backslash_joins_lines(tmp_path):
    path = harness(
        tmp_path, "--reset --mb=2 \\\n --op-kind=1:Tanh \\\n\n--case=chain.json\n--mb=4 \\\n--case=chain.json\n"
    )
    found = [(dict(case.options), case.line) for case in read_harness(path)]
    assert found == [
        ({"mb": "2", "op_kind": "1:Tanh"}, f"{path}:4"),
        ({"mb": "4", "op_kind": "1:Tanh"}, f"{path}:6"),
    ]


def test_backslash_joins_parts_of_a_value(tmp_path):
    """oneDNN 3.13 has such a file: complex_fusion/harness_mha_all."""
    path = harness(tmp_path, "--reset --in-shapes=0:2x3,\\\n   0:4x3,\\\n   0:5x3\n--case=chain.json\n")
    assert [case.options["in_shapes"] for case in read_harness(path)] == ["0:2x3", "0:4x3", "0:5x3"]


def test_harness_can_include_harnesses(tmp_path):
    path = harness(tmp_path, "--reset --mb=2 --case=chain.json")
    (tmp_path / "inputs" / "all").write_text("--batch=op/harness_x\n--batch=op/harness_x")
    assert len(read_harness(tmp_path / "inputs" / "all")) == 2
    path.write_text("--batch=harness_x")
    with pytest.raises(og.FormatError, match="at most 8 levels"):
        read_harness(path)
    for level in range(8):
        (tmp_path / "inputs" / f"level_{level}").write_text(f"--batch=level_{level + 1}")
    (tmp_path / "inputs" / "level_8").write_text("--case=chain.json")
    assert len(read_harness(tmp_path / "inputs" / "level_0")) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case.json", "expected options"),
        ("--mb=two --case=chain.json", "expected --mb=N"),
        ("--batch=absent", "a harness file"),
        ("--mb=2 \\", "expected options"),
    ],
)
def test_rejects_invalid_harness_files(text, message, tmp_path):
    with pytest.raises(og.FormatError, match=message):
        read_harness(harness(tmp_path, text))


def test_errors_name_the_line(tmp_path):
    path = harness(tmp_path, "\n--op-attrs=9:a:1 --case=chain.json\n--case=absent.json")
    with pytest.raises(og.ArgumentError, match=r"harness_x:2: op_attrs: op 9"):
        read_harness(path)[0].load()
    with pytest.raises(og.FormatError, match="absent"):
        read_harness(path)[1].load()
    with pytest.raises(og.FormatError):
        read_harness(Path("absent"))


# The library's own harness files --------------------------------------------------------------------------------------


@cache
def as_it_was(path):
    """The graph of a file, and the rules that it breaks; most lines change the graph of another line."""
    graph = og.Graph.load(path)
    return graph, {violation.rule for violation in graph_errors(graph)}


@pytest.mark.parametrize("path", HARNESSES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_reads_every_harness_line_of_the_library(path):
    text = path.read_text()
    cases = read_harness(path)
    assert len(cases) == text.count("--case=")
    assert text.count("--in-shapes=") == sum("in_shapes" in case.options for case in cases)
    assert text.count("--op-attrs=") == sum("op_attrs" in case.options for case in cases)
    ran = {}
    for case in cases:
        graph = case.load()
        before, known = as_it_was(case.path)
        given = case.options.get("in_shapes", "")
        for part in filter(None, given.split("+")):
            number, _, dims = part.rpartition(":")
            name = f"t{number.split(':')[0]}"
            if name in before.inputs:
                assert "x".join(map(str, graph.inputs[name].shape)) == dims
        assert all(tensor.shape is not None and None not in tensor.shape for tensor in graph._tensors), case.line
        form = json.loads(graph.to_json())
        assert all(dim >= 0 for op in form["graph"] for use in op["outputs"] for dim in use["shape"])
        new = {violation.rule for violation in graph_errors(graph)} - known
        # Rules of the specification that the library does not enforce.
        assert new <= {"mode_rank", "gradient_resized", "attribute_range"}, case.line
        if new == set() and max(math.prod(tensor.shape) for tensor in graph._tensors) <= SMALL:
            ran[graph.to_json()] = graph
    for graph in list(ran.values())[: draws(6, 12)]:
        inputs = random_inputs(graph)
        results = graph.compile()(**inputs)
        expected = og.reference.run(graph, inputs)
        low = any(tensor.dtype in (og.bf16, og.f16) for tensor in graph._tensors)
        for got, (name, tensor) in zip(
            results if len(graph.outputs) > 1 else [results], graph.outputs.items(), strict=True
        ):
            want = expected[name].astype(np.float64)
            rounding = 1 if tensor.dtype in (og.s8, og.u8) else (2e-2 if low else 1e-4) * (1 + np.abs(want).max())
            assert np.abs(got.astype(np.float64) - want).max() <= rounding, (path, name)


def test_finds_the_harness_files_of_the_library():
    assert bool(HARNESSES) == CORPUS.is_dir()


@pytest.mark.parametrize(
    ("kind", "shapes", "names"),
    [
        ("PReLU", [(4, 3), (4, 3)], ["x0", "x1"]),
        ("PReLU", [(4, 3), (1, 3)], ["x0"]),
        ("PReLU", [(4, 3), (3,)], ["x0"]),
        ("Add", [(4, 3), (4, 1)], ["x0", "x1"]),
        ("Add", [(4, 3), (1, 3)], ["x0"]),
        ("MatMul", [(4, 2, 3), (4, 3, 2)], ["x0", "x1"]),
        ("MatMul", [(4, 3), (3, 2)], ["x0"]),
        ("Concat", [(4, 3), (4, 3)], ["x0", "x1"]),
    ],
    ids=str,
)
def test_inputs_that_carry_a_batch(kind, shapes, names):
    g = og.Graph()
    ends = [g.input(f"x{place}", og.f32, shape) for place, shape in enumerate(shapes)]
    g.output("y", g.op(kind, ends, {"axis": 1} if kind == "Concat" else {}))
    assert [tensor.name for tensor in with_batch(g)] == names
