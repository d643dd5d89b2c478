"""Graphs as Python code: the code builds the same graph."""

import json

import numpy as np
import pytest
from conftest import SHARED, draws
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.opset.editions.registry import EDITIONS
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.tools.python_code import load_python, save_python, to_python, unsaid

FILES = sorted((SHARED / "data" / "benchdnn-3.2").rglob("*.json"))


def plain(graph):
    """The JSON of a graph without additional facts of its file."""
    copy = graph.copy()
    copy._file = None
    return copy.to_json()


def assert_same(graph, other):
    assert plain(other) == plain(graph)
    for one, two in zip(graph._tensors, other._tensors, strict=True):
        assert one.strides == two.strides
        if one.constant:
            assert one.value.dtype == two.value.dtype
            assert one.value.tobytes() == two.value.tobytes()


def round_trip(graph, folder):
    save_python(graph, folder / "graph.py")
    other = load_python(folder / "graph.py")
    assert_same(graph, other)
    return (folder / "graph.py").read_text()


@given(st.integers(0, 10**6), st.sampled_from(EDITIONS))
@settings(max_examples=40, deadline=None)
def test_random_graphs_round_trip(tmp_path_factory, seed, name):
    round_trip(random_graph(seed, 8, edition=name), tmp_path_factory.mktemp("code"))


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_cases_round_trip(kind, tmp_path):
    for case in [case for case in CASES if case.kind == kind][:8]:
        graph = og.Graph()
        inputs = [
            graph.constant(array)
            if array.dtype == np.int32
            else graph.input(f"x{index}", og.s64 if array.dtype == np.int64 else array.dtype, array.shape)
            for index, array in enumerate(case.inputs)
        ]
        result = graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
        for index, tensor in enumerate(result if isinstance(result, tuple) else [result]):
            graph.output(f"y{index}", tensor)
        round_trip(graph, tmp_path)


@pytest.mark.skipif(not FILES, reason="the graphs of oneDNN are not beside this checkout")
def test_library_files_round_trip(tmp_path):
    lenient = 0
    for path in draws(FILES[::3], FILES):
        graph = og.Graph.load(path)
        errors = [one for one in og.check_graph(graph) if one.severity == "error"]
        assert ("og.Graph(strict=False)" in round_trip(graph, tmp_path)) == bool(errors)
        lenient += bool(errors)
    assert lenient == draws(4, 14)


def test_code_is_idiomatic(tmp_path):
    g = og.Graph()
    src = g.input("src", og.f32, (8, 32, 32, 3))
    weights = g.constant(np.ones((3, 3, 3, 2), np.float32), name="weights")
    conv = g.convolution(src, weights, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])
    norm = g.layer_norm(conv, g.constant(np.ones(2, np.float32)), g.constant(np.zeros(2, np.float32)))
    small = g.quantize(g.clamp(norm.dst, min=-float("inf"), max=6, name="relu6"), scales=[0.5], zps=[1], dtype=og.u8)
    g.output("dst", g.op("ReLU", [norm.mean], edition="legacy-1"))
    g.output("small", small)
    text = round_trip(g, tmp_path)
    body = text[text.index("g = ") :]
    assert (
        body
        == """g = og.Graph()
src = g.input("src", og.f32, (8, 32, 32, 3))
weights = g.constant(constants["weights"], name="weights")
convolution_0 = g.convolution(src, weights, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])
constant_3 = g.constant(np.array([1.0, 1.0], np.float32))
constant_4 = g.constant(np.array([0.0, 0.0], np.float32))
layer_norm_1 = g.layer_norm(convolution_0, constant_3, constant_4)
relu6 = g.clamp(layer_norm_1.dst, min=-inf, max=6.0, name="relu6")
quantize_3 = g.quantize(relu6, scales=[0.5], zps=[1], dtype=og.u8)
relu_4 = g.op("ReLU", [layer_norm_1.mean], edition="legacy-1")
g.output("dst", relu_4)
g.output("small", quantize_3)
"""
    )
    assert 'inf = float("inf")' in text


@given(st.text(max_size=8), st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_names_are_never_executed(tmp_path_factory, first, second, third):
    g = og.Graph()
    names = [f"{first}a", f"{second}b"]
    x = g.input(names[0], og.f32, (2,))
    w = g.constant(np.ones(3, np.float16), name=third)
    g.output(names[1], g.relu(x, name=third))
    g.output("c", g.relu(w, name=f"{third}_"))
    round_trip(g, tmp_path_factory.mktemp("code"))


@pytest.mark.parametrize(
    "name", ["import os", "g", "og", "None", "class", '"""', "a\n", "\\", "x'\"", "é", "\ud800", "1", "inf"]
)
def test_hostile_names(name, tmp_path):
    g = og.Graph()
    x = g.input(name, og.f32, (2,))
    g.output("y", g.relu(x, name=name))
    if name == "\ud800":  # no file holds half of a surrogate pair
        assert "\\ud800" in to_python(g)[0]
    else:
        round_trip(g, tmp_path)


def test_json_files_round_trip_byte_for_byte(tmp_path):
    for seed in range(6):
        (tmp_path / "one").mkdir(exist_ok=True)
        (tmp_path / "two").mkdir(exist_ok=True)
        random_graph(seed, 8).save(tmp_path / "one" / "g.json")
        save_python(og.Graph.load(tmp_path / "one" / "g.json"), tmp_path / "g.py")
        load_python(tmp_path / "g.py").save(tmp_path / "two" / "g.json")
        assert (tmp_path / "one" / "g.json").read_bytes() == (tmp_path / "two" / "g.json").read_bytes()


def test_lenient_graphs_round_trip(tmp_path):
    g = og.Graph("onednn-3.2", strict=False)
    x, y, z = g.input("x", og.f32, (1, 4, 4, 1)), g.input("y", og.f32, (2,)), g.input("z", og.bf16, (2,))
    pool = g.op("MaxPool", [x], {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [-1, -1]})
    g.output("pool", pool)
    g.output("ratio", g.op("Divide", [y, z], dtype=og.f16))
    text = round_trip(g, tmp_path)
    assert 'og.Graph("onednn-3.2", strict=False)' in text
    assert "dtype=og.f16" in text
    assert "strict" not in to_python(graph_of_one_pool())[0]


def graph_of_one_pool():
    g = og.Graph(strict=False)
    x = g.input("x", og.f32, (1, 4, 4, 1))
    g.output("y", g.max_pool(x, strides=[2, 2], kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0]))
    return g


def test_writes_dtypes_that_cannot_be_inferred(tmp_path):
    g = og.Graph()
    norm = g.layer_norm(g.input("x", og.bf16, (2, 3)), use_affine=False, dtype=og.f32)
    assert [tensor.dtype for tensor in norm] == [og.bf16, og.f32, og.f32]
    g.output("y", norm.dst)
    assert "dtype=og.f32" in round_trip(g, tmp_path)


def test_rejects_shapes_that_no_call_gives():
    ins = [{"id": number, "dtype": "f32", "shape": [-(2**63)]} for number in (0, 1)]
    out = {"id": 2, "dtype": "f32", "shape": [2, 3]}
    form = {"version": "3.2.0", "graph": [{"id": 0, "name": "add", "kind": "Add", "inputs": ins, "outputs": [out]}]}
    with pytest.raises(og.UnsupportedError, match="Add 'add': no call of the builder gives"):
        to_python(og.Graph.from_json(json.dumps(form)))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "no graph"),
        ("import onegraph as og\na = og.Graph()\nb = og.Graph()", "the graphs a, b"),
        ("1/0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
    ],
)
def test_rejects_code_without_a_graph(code, message, tmp_path):
    (tmp_path / "x.py").write_text(code)
    with pytest.raises(og.FormatError, match=message):
        load_python(tmp_path / "x.py")
    with pytest.raises(og.FormatError, match="absent"):
        load_python(tmp_path / "absent.py")


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_memory_error_and_interrupt_pass_through(kind, tmp_path):
    (tmp_path / "x.py").write_text(f"raise {kind.__name__}")
    with pytest.raises(kind):
        load_python(tmp_path / "x.py")


def test_writes_code_and_arrays_only(tmp_path):
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 8)), g.constant(np.ones((8, 8), np.float32))))
    save_python(g, tmp_path / "g.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.py", "g.py.npz"]


def test_lists_facts_that_code_drops():
    g = og.Graph()
    g.output("y", g.divide(g.input("x", og.f32, (2,)), g.input("z", og.f32, ())))
    form = json.loads(g.to_json())
    assert unsaid(g) == unsaid(og.Graph.from_json(json.dumps(form))) == ""
    form.update(fpmath_mode="bf16", engine_kind="gpu", fpmath_mode_apply_to_int="true")
    form["graph"][0]["inputs"][1]["property_type"] = "host_scalar"
    expected = "fpmath_mode bf16, engine_kind gpu, fpmath_mode_apply_to_int, host_scalar of tensors 1"
    assert unsaid(og.Graph.from_json(json.dumps(form))) == expected


def test_finds_the_only_graph(tmp_path):
    (tmp_path / "x.py").write_text("import onegraph as og\nmodel = og.Graph()\nmodel.input('x', 'f32', (2,))")
    assert list(load_python(tmp_path / "x.py").inputs) == ["x"]
