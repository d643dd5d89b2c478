"""Graphs as JSON files for an older version of the library."""

import json

import numpy as np
import pytest
from helpers.json_files import (
    assert_library_reads,
    file,
    load,
    op,
    tensor,
)

import onegraph as og


def test_version_and_attributes():
    g = og.Graph()
    a, b = g.input("a", og.f32, (2, 3)), g.input("b", og.f32, (3, 4))
    g.output("y", g.matmul(a, b, accumulation_mode="strict"))
    assert "accumulation_mode" in g.to_json()
    whole = json.loads(g.to_json(for_version="3.2.1"))
    attrs = {"transpose_a": {"type": "bool", "value": 0}, "transpose_b": {"type": "bool", "value": 0}}
    assert (whole["version"], whole["graph"][0]["attrs"]) == ("3.2.0", attrs)
    read = og.Graph.from_json(g.to_json())
    assert json.loads(read.to_json(for_version="3.2"))["graph"][0]["attrs"] == attrs
    g.matmul(a, b, accumulation_mode="any", name="fast")
    assert "accumulation_mode" in g.to_json(for_version="3.13")
    with pytest.raises(og.UnsupportedError, match=r"'fast': accumulation_mode needs oneDNN 3\.\d"):
        g.to_json(for_version="3.2")


def test_rejects_ops_and_types_it_lacks():
    g = og.Graph()
    g.output("y", g.group_norm(g.input("x", og.f32, (2, 3, 4)), groups=1, keep_stats=False, use_affine=False))
    with pytest.raises(og.UnsupportedError, match="kind needs oneDNN"):
        g.to_json(for_version="3.2")
    g = og.Graph()
    g.dequantize(g.input("x", og.f8_e4m3, (2,)), scales=[0.5])
    with pytest.raises(og.UnsupportedError, match=r"src needs oneDNN 3\.4"):
        g.to_json(for_version="3.3")


def test_drops_unread_outputs():
    g = og.Graph()
    g.output("y", g.softmax(g.input("x", og.f32, (2, 3)), outputs=["stats"]).dst)
    for graph in (g, og.Graph.from_json(g.to_json())):
        kinds = [len(json.loads(graph.to_json(for_version=one))["graph"][0]["outputs"]) for one in ("3.2", "3.13")]
        assert kinds == [1, 2]
    g.output("stats", g.ops[0].outputs[1])
    with pytest.raises(og.UnsupportedError, match="stats needs oneDNN"):
        g.to_json(for_version="3.2")


def test_rejects_forms_of_ops_it_lacks():
    g = og.Graph()
    g.output("y", g.softmax(g.input("x", og.f32, (2, 3)), axis=1, dtype=og.bf16, outputs=["dst"]))
    assert "SoftMax" in g.to_json(for_version="3.13")
    with pytest.raises(og.UnsupportedError, match=r"^for_version 3\.2: .*dst is bf16; expected f32, as src is f32"):
        g.to_json(for_version="3.2")
    g = og.Graph(edition="legacy-1")
    g.output("y", g.op("BiasAddBackprop", [g.input("x", og.f32, (2, 3))]))
    assert "BiasAddBackprop" in g.to_json()
    with pytest.raises(og.UnsupportedError, match=r"onegraph convert --edition onednn-3\.2"):
        g.to_json(for_version="3.2")


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "said"),
    [
        ("BatchNormInference", [(2, 4, 4, 3), *[(3,)] * 4], {"epsilon": 0.1}, {"data_format": ("string", "NXC")}),
        ("SoftPlus", [(2, 3)], {}, {"beta": ("f32", 1.0)}),
        ("TanhBackward", [(2, 3)] * 2, {}, {"use_dst": ("bool", 1)}),
        ("LogSoftmax", [(2, 3)], {}, {"axis": ("s64", -1)}),
        ("PReLU", [(2, 3), (3,)], {"data_format": "NXC"}, {"per_channel_broadcast": ("bool", 1)}),
        (
            "MaxPool",
            [(2, 4, 4, 3)],
            {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NXC"},
            {"dilations": ("s64[]", [1, 1]), "rounding_type": ("string", "floor"), "auto_pad": ("string", "None")},
        ),
    ],
)
@pytest.mark.parametrize("reload", [False, True])
def test_writes_defaults(kind, shapes, attrs, said, reload):
    g = og.Graph()
    g.output("y", g.op(kind, [g.input(f"x{i}", og.f32, shape) for i, shape in enumerate(shapes)], attrs))
    g = og.Graph.from_json(g.to_json()) if reload else g
    assert {*json.loads(g.to_json())["graph"][0]["attrs"]} == {*attrs}
    written = json.loads(g.to_json(for_version="3.2"))["graph"][0]["attrs"]
    assert {name: (attr["type"], attr["value"]) for name, attr in written.items() if name not in attrs} == said
    assert_library_reads(g, for_version="3.2")
    assert og.Graph.from_json(g.to_json(for_version="3.2")).ops[0].attrs.keys() == {*attrs, *said}


@pytest.mark.parametrize("source", ["legacy-1", "onednn-3.0", "onednn-3.2", "onednn-3.8"])
@pytest.mark.parametrize("reload", [False, True])
def test_writes_defaults_of_later_attributes(source, reload):
    g = og.Graph(source)
    a, b = g.input("a", og.f32, (2, 3)), g.input("b", og.f32, (3, 4))
    g.output("y", g.op("GELU", [g.op("MatMul", [a, b])]))
    g = og.Graph.from_json(g.to_json()) if reload else g
    plain, strict, mode = {"transpose_a": 0, "transpose_b": 0}, {"accumulation_mode": "strict"}, {"mode": "gelu_erf"}
    for version, expected in (
        ("3.8", [plain, {}]),
        ("3.9", [plain, mode]),
        ("3.13", [{**plain, **strict}, mode]),
    ):
        written = g.to_json(for_version=version)
        ops = json.loads(written)["graph"]
        assert [{name: attr["value"] for name, attr in op["attrs"].items()} for op in ops] == expected
        assert [op.kind for op in og.Graph.from_json(written).ops] == ["MatMul", "GELU"]


@pytest.mark.parametrize(("dtype", "is_written"), [("f32", True), ("s64", False)])
def test_host_ops_that_the_version_has_are_written(dtype, is_written):
    g = og.Graph()
    g.output("y", g.op("Add", [g.input(name, dtype, (2,)) for name in "ab"], edition="host"))
    if is_written:
        (written,) = json.loads(g.to_json(for_version="3.2"))["graph"]
        assert written["attrs"] == {"auto_broadcast": {"type": "string", "value": "numpy"}}
    else:
        with pytest.raises(og.UnsupportedError, match=r"for_version 3.13: Add .*src_0 is s64"):
            g.to_json(for_version="3.13")


@pytest.mark.parametrize("reload", [False, True])
def test_writes_required_zero_points(reload):
    g = og.Graph()
    x = g.quantize(g.input("x", og.f32, (2, 3)), qtype="per_channel", axis=1, scales=[0.5, 1, 2], dtype=og.u8)
    g.output("y", g.dequantize(x, scales=[0.5]))
    g = og.Graph.from_json(g.to_json()) if reload else g
    for version, expected in (("3.3", [[0, 0, 0], [0]]), ("3.4", [None, None])):
        ops = json.loads(g.to_json(for_version=version))["graph"]
        assert [op["attrs"].get("zps", {}).get("value") for op in ops] == expected
    assert all("zps" not in op["attrs"] for op in json.loads(g.to_json())["graph"])
    read = og.Graph.from_json(g.to_json(for_version="3.2"))
    assert [op.attrs["zps"] for op in read.ops] == [(0, 0, 0), (0,)]
    inputs = {"x": np.float32([[1, -2, 3], [4, 5, 6]])}
    (got,) = og.reference.run(read, dict.fromkeys(read.inputs, inputs["x"])).values()
    np.testing.assert_array_equal(got, og.reference.run(g, inputs)["y"])


def test_corrects_kinds_and_ports():
    whole = file(op(0, "relu", [tensor(0, "f32", [2])], [tensor(1, "f32", [2])]))
    for ports in ({}, {"input_ports": [1], "output_ports": [7]}, {"input_ports": [], "output_ports": [1, 7]}):
        g = load({**whole, **ports})
        assert json.loads(g.to_json()) == {**whole, **ports}
        found = json.loads(g.to_json(for_version="3.2"))
        assert (found["graph"][0]["kind"], found["input_ports"], found["output_ports"]) == ("ReLU", [0], [1])
    twice = {"input_ports": [0, 0], "output_ports": [1]}  # as the library itself writes it
    assert json.loads(load({**whole, **twice}).to_json(for_version="3.2"))["input_ports"] == [0, 0]


@pytest.mark.parametrize("version", ["", "2.7", "3", "3.x", 3.2, None.__class__, "3.2; rm", "3.15", "3.99", "\u0663.2"])
def test_rejects_unknown_versions(version):
    with pytest.raises(og.ArgumentError, match="for_version"):
        og.Graph().to_json(for_version=version)


def test_omits_end_ops_for_old_versions():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    y = g.relu(x)
    g.output("z", g.exp(y))
    g.end(y)
    g.output("y", y)
    for version, kinds in (("3.2", ["ReLU", "Exp"]), ("3.3", ["ReLU", "Exp", "End"])):
        text = g.to_json(for_version=version)
        form = json.loads(text)
        assert [op["kind"] for op in form["graph"]] == kinds
        assert form["output_ports"] == [2, 1]
        assert list(og.Graph.from_json(text).outputs) == ["z", "y"]
        del form["onegraph"]
        bare = og.Graph.from_json(json.dumps(form))
        assert list(bare.outputs) == ["t2", "t1"]
        assert json.loads(bare.to_json(for_version="3.2"))["graph"] == form["graph"][:2]
    end = og.Graph()
    end.end(end.input("x", og.f32, (2,)))  # no other key mentions this tensor
    assert [op["kind"] for op in json.loads(end.to_json(for_version="3.2"))["graph"]] == ["End"]
