"""Graphs of ops that files describe: the names of inputs, what tensors may be, and what is refused."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.cli import op_records

F32 = ["f32", [2]]


def graph_of(*records):
    return op_records.graph_of("ops.json", json.dumps(records if len(records) > 1 else records[0]).encode())


@pytest.mark.parametrize(("records", "inputs", "outputs"), [
    ([{"op": "Add", "inputs": [F32, F32]}], ["src_0", "src_1"], ["out_0"]),
    ([{"op": "ReLU", "inputs": [["f32", [2, "?"]]]}], ["src"], ["out_0"]),
    ([{"op": "ReLU", "inputs": [F32]}, {"op": "Add", "inputs": [F32, F32]}],
     ["op0_src_0", "op1_src_0_0", "op1_src_1_1"], ["op0_out_0", "op1_out_0"]),
    ([{"op": "Concat", "attrs": {"axis": 0}, "inputs": [F32, F32, F32]}], ["src_i", "src_i_1", "src_i_2"], ["out_0"]),
    ([{"op": "TypeCast", "inputs": [F32], "outputs": [["bf16", [2]]]}], ["src"], ["out_0"]),
    ([{"op": "ReLU", "inputs": {"dtype": "f32", "shape": [2]}}], ["src"], ["out_0"]),
    ([{"op": "LayerNorm", "attrs": {"use_affine": False}, "inputs": [["f32", [2, 3]]]}], ["src"],
     ["out_0", "out_1", "out_2"]),
])  # fmt: skip
def test_ends_of_described_ops_have_names(records, inputs, outputs):
    graph = graph_of(*records)
    assert [*graph.inputs] == inputs
    assert [*graph.outputs] == outputs


def test_a_tensor_of_another_form_is_an_error():
    with pytest.raises(og.FormatError, match=r"^ops\.json: record 0: inputs\[0\]: 'f32'; expected \[dtype, shape\]"):
        graph_of({"op": "ReLU", "inputs": ["f32", [2, "?"]]})


def test_described_tensors_have_types_dims_and_contents():
    graph = graph_of({"op": "TypeCast", "inputs": [["f32", [2, "?", None]]], "outputs": [["bf16", None]]})
    assert (graph.inputs["src"].shape, graph.outputs["out_0"].dtype) == ((2, None, None), og.bf16)
    axes = {"dtype": "s32", "values": [1], "shape": [1]}
    (op,) = graph_of({"op": "ReduceSum", "inputs": [["f32", [2, 3]], axes]}).ops
    assert op.inputs[1].value.tolist() == [1]
    assert op.inputs[1].value.dtype == np.int32


@pytest.mark.parametrize("content", [b"{", b"[]", b"[1]", b'[{"kind": "ReLU"}]', b'{"ops": {"op": 1}}', b"3"])
def test_other_files_describe_no_graph(content):
    assert op_records.graph_of("ops.json", content) is None


def parsed_yaml(monkeypatch, load):
    error = type("YAMLError", (Exception,), {})
    stand_in = (
        None if load is None else SimpleNamespace(YAMLError=error, safe_load=lambda content: load(content, error))
    )
    monkeypatch.setitem(sys.modules, "yaml", stand_in)
    return [op_records.parsed(name, b"x: 1") for name in ("a.yaml", "a.yml")]


def test_yaml_is_read_with_its_package(monkeypatch):
    assert parsed_yaml(monkeypatch, lambda content, _: content.decode()) == ["x: 1"] * 2
    with pytest.raises(og.FormatError, match=r"^a\.yaml: YAML; expected JSON or TOML, or the package PyYAML"):
        parsed_yaml(monkeypatch, None)


@pytest.mark.parametrize("kind", ["YAMLError", RecursionError, UnicodeDecodeError])
def test_wrong_yaml_is_an_error_of_one_line(monkeypatch, kind):
    def load(content, error):
        if kind is UnicodeDecodeError:
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no")
        raise (error if kind == "YAMLError" else kind)("line 1\n  of two")

    text = "'utf-8' codec.*: no" if kind is UnicodeDecodeError else "line 1 of two"
    with pytest.raises(og.FormatError, match=f"^a.yaml: {text}; expected YAML in UTF-8$"):
        parsed_yaml(monkeypatch, load)
