"""Graphs as JSON files: the structure, lossless round trips, constants."""

import json
import pickle
import threading

import numpy as np
import pytest
from conftest import draws
from helpers.json_files import (
    UNKNOWN,
    assert_library_reads,
    assert_same,
    file,
    load,
    op,
    small,
    tensor,
)

import onegraph as og
from onegraph.serialize import OTHER_ENDINGS, with_constants
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.tools.harness import rewrite
from onegraph.tools.python_code import load_python, save_python
from onegraph.transform import rebuild
from onegraph.transform.translate_graph import translate_graph

# Writing --------------------------------------------------------------------------------------------------------------


def test_json_structure():
    assert json.loads(small().to_json()) == {
        "version": "3.13.0",
        "engine_kind": "cpu",
        "fpmath_mode": "strict",
        "input_ports": [0],
        "output_ports": [3],
        "graph": [
            {
                "id": 0,
                "name": "product",
                "kind": "MatMul",
                "attrs": {},
                "inputs": [
                    tensor(0, "f32", [UNKNOWN, 4]),
                    {**tensor(1, "f32", [4, 3], [3, 1]), "property_type": "constant"},
                ],
                "outputs": [tensor(2, "f32", [UNKNOWN, 3])],
            },
            {
                "id": 1,
                "name": "clamp_1",
                "kind": "Clamp",
                "attrs": {
                    "min": {"type": "f32", "value": 0.0},
                    "max": {"type": "f32", "value": 3.4028234663852886e38},
                },
                "inputs": [tensor(2, "f32", [UNKNOWN, 3])],
                "outputs": [tensor(3, "f32", [UNKNOWN, 3])],
            },
        ],
        "onegraph": {
            "form": 1,
            "edition": "onednn-3.13",
            "inputs": [{"id": 0, "name": "src"}],
            "outputs": [{"id": 3, "name": "dst"}],
            "constants": [{"id": 1, "name": "weights"}],
            "ops": {"1": {"attrs": {"max": "inf"}}},
        },
    }


def test_writes_the_words_of_the_library():
    g = og.Graph()
    src = g.input("src", og.f32, (1, 8, 8, 3))
    g.max_pool(src, strides=[2, 2], kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], auto_pad="same_upper")
    attrs = json.loads(g.to_json())["graph"][0]["attrs"]
    assert attrs["auto_pad"] == {"type": "string", "value": "SAME_UPPER"}
    g.batch_norm_inference(src, *(g.input(name, og.f32, (3,)) for name in "abcd"), epsilon=1e-5)
    g.matmul(src, g.input("w", og.f32, (3, 5)), transpose_b=False)
    attrs = [op["attrs"] for op in json.loads(g.to_json())["graph"]]
    assert attrs[1] == {"epsilon": {"type": "f32", "value": 1e-05}}
    assert attrs[2] == {"transpose_b": {"type": "bool", "value": 0}}
    assert type(attrs[2]["transpose_b"]["value"]) is int
    assert_library_reads(g)


def test_escapes_text_that_the_library_cannot_read():
    g = og.Graph()
    name = 'é "quoted" \\ \x01 \ud800 \n'
    g.output(name, g.relu(g.input("\ud83d", og.f32, (2,)), name=name))
    assert_library_reads(g)
    h = og.Graph.from_json(g.to_json())
    assert (*h.inputs, *h.outputs, h.ops[0].name) == ("\ud83d", name, name)
    assert og.Graph.from_json(g.to_json().encode()).ops[0].name == name


def test_keeps_tensors_without_an_op():
    g = og.Graph()
    x = g.input("x", og.bf16, (None,))
    g.output("same", x)
    g.output("again", x)
    h = og.Graph.from_json(g.to_json())
    assert json.loads(h.to_json()) == json.loads(g.to_json())
    assert (h.inputs["x"].shape, h.inputs["x"].dtype) == ((None,), og.bf16)
    assert h.outputs["same"] is h.outputs["again"] is h.inputs["x"]
    empty = og.Graph.from_json(og.Graph("legacy-1").to_json())
    assert (empty.edition, empty.ops) == ("legacy-1", ())


@pytest.mark.parametrize("shape", [None, (None,), (None, 3), (), (0,), (2, 3)])
def test_shapes(shape):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, shape)))
    h = og.Graph.from_json(g.to_json())
    assert (h.inputs["x"].shape, h.outputs["y"].shape) == (shape, shape)
    assert_library_reads(g)


def test_declared_strides():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 3), strides=(1, 2))))
    assert json.loads(g.to_json())["graph"][0]["inputs"][0]["stride"] == [1, 2]
    assert og.Graph.from_json(g.to_json()).inputs["x"].strides == (1, 2)


# Round trips ----------------------------------------------------------------------------------------------------------


def graph_of(case, constants=False):
    g = og.Graph()
    inputs = []
    for index, array in enumerate(case.inputs):
        if constants and index % 2 and array.dtype != np.int64:
            inputs.append(g.constant(array))
        else:
            dtype = og.s64 if array.dtype == np.int64 else array.dtype
            inputs.append(g.input(f"input_{index}", dtype, array.shape))
    results = g.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    for index, result in enumerate([results] if isinstance(results, og.LogicalTensor) else results):
        g.output(f"output_{index}", result)
    return g


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_every_op_round_trips(kind):
    for case in [case for case in CASES if case.kind == kind][:: draws(2, 1)]:
        g = graph_of(case)
        text = g.to_json()
        h = og.Graph.from_json(text, strict=True)
        assert_same(g, h)
        assert json.loads(h.to_json()) == json.loads(text), str(case)
        assert_library_reads(g)


def test_constants_round_trip(tmp_path):
    path = tmp_path / "graph.json"
    for case in CASES[::9]:
        g = graph_of(case, constants=True)
        g.save(path)
        h = og.Graph.load(path, strict=True)
        assert_same(g, h)
        h.save(path)
        assert_same(g, og.Graph.load(path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["graph.json", "graph.npz"]


@pytest.mark.parametrize("ending", OTHER_ENDINGS)
def test_name_of_another_kind_of_file_is_refused(ending, tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (2,)) + np.ones(2, np.float32)))
    with pytest.raises(og.ArgumentError, match=f"expected the path of a JSON file; {OTHER_ENDINGS[ending]}"):
        g.save(tmp_path / f"graph{ending}")
    assert not [*tmp_path.iterdir()]
    g.save(tmp_path / "graph")
    assert repr(og.Graph.load(tmp_path / "graph")) == repr(g)


@pytest.mark.library
def test_saved_graph_gives_the_same_results(tmp_path):
    g = small()
    g.save(tmp_path / "small.json")
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    assert np.array_equal(og.Graph.load(tmp_path / "small.json").compile()(src=x), g.compile()(src=x))


def test_edition_round_trips():
    g = og.Graph("legacy-1")
    src, delta = g.input("src", og.f32, (1, 8, 8, 4)), g.input("delta", og.f32, (1, 8, 8, 6))
    attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "filter_format": "OIX"}
    attrs["filter_shape"] = [6, 4, 3, 3]
    g.output("filter", g.op("ConvolutionBackpropFilters", [src, delta], attrs))
    g.output("dst", g.op("ReLU", [src], edition="oneapi-1.2"))
    h = og.Graph.from_json(g.to_json())
    assert_same(g, h)
    assert [one.edition for one in h.ops] == ["legacy-1", "oneapi-1.2"]


# Constants ------------------------------------------------------------------------------------------------------------


def test_constant_inputs_are_kept(tmp_path):
    g = og.Graph()
    x, w = g.input("x", og.f32, (2, 3)), g.input("w", og.f32, (3, 4), constant=True)
    g.output("y", g.matmul(x, w))
    source = tmp_path / "graph.py"
    save_python(g, source)
    loaded = og.Graph.from_json(g.to_json())
    for other in (
        g,
        g.copy(),
        pickle.loads(pickle.dumps(g)),
        loaded,
        og.Graph.from_json(loaded.to_json()),
        load_python(source),
        g.specialise({}),
        translate_graph(g, "oneapi-1.2"),
        rebuild.rebuild(g, rebuild.Change()),
    ):
        assert other.constant_inputs == ("w",)
    assert g.with_constants({"w": np.ones((3, 4), np.float32)}).constant_inputs == ()
    with pytest.raises(og.ArgumentError, match="constant: 1; expected True or False"):
        g.input("z", og.f32, (1,), constant=1)
    assert "z" not in g.inputs


@pytest.mark.library
def test_constants_without_contents_become_inputs():
    matmul = op(0, "MatMul", [tensor(0, "f32", [2, 3]), tensor(1, "f32", [3, 4])], [tensor(2, "f32", [2, 4])])
    matmul["inputs"][1]["property_type"] = "constant"
    g = load(file(matmul))
    assert (list(g.inputs), g.constant_inputs) == (["t0", "t1"], ("t1",))
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    fixed = with_constants(g, {"t1": weights})
    assert (list(fixed.inputs), list(fixed.outputs), list(g.inputs)) == (["t0"], ["t2"], ["t0", "t1"])
    kept = fixed.ops[0].inputs[1]
    assert np.array_equal(kept.value, weights)
    assert not kept.value.flags.writeable
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(fixed.compile()(t0=x), x @ weights)
    # beside other constants, and with an unknown shape
    again = with_constants(small(), {"src": np.ones((5, 4), np.float32)})
    assert (list(again.inputs), again.outputs["dst"].shape) == ([], (5, 3))


def dumped():
    """A MatMul with constant weights, as the library writes it."""
    matmul = op(0, "MatMul", [tensor(0, "f32", [2, 3]), tensor(1, "f32", [3, 4])], [tensor(2, "f32", [2, 4])])
    matmul["inputs"][1]["property_type"] = "constant"
    return load(file(matmul))


@pytest.mark.library
def test_constants_get_contents_later(tmp_path):
    g = dumped()
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert g.constant_inputs == ("t1",)
    fixed = g.with_constants({"t1": weights})
    weights_then = weights.copy()
    weights[:] = 0  # the contents were copied
    assert (list(fixed.inputs), fixed.constant_inputs, g.constant_inputs) == (["t0"], (), ("t1",))
    fixed.save(tmp_path / "fixed.json")
    back = og.Graph.load(tmp_path / "fixed.json")
    assert list(back.inputs) == ["t0"]
    assert np.array_equal(back.ops[0].inputs[1].value, weights_then)
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(back.compile()(t0=x), x @ weights_then)
    assert [use["id"] for use in json.loads(back.to_json())["graph"][0]["inputs"]] == [0, 1]


def test_unread_input_keeps_strides_and_property():
    g = og.Graph()
    g.output("y", g.input("x", og.f32, (2, 3), strides=[1, 2], constant=True), strides=[4, 1])
    back = og.Graph.from_json(g.to_json())
    assert (back.constant_inputs, back.inputs["x"].strides) == (("x",), (1, 2))


def test_each_output_has_strides_of_its_own():
    g = og.Graph()
    x, c = g.input("x", og.f32, (2, 3), strides=[1, 2]), g.constant(np.ones((2, 3), np.float32))
    y = g.add(x, c)
    laid_out = {"dense": (y, None), "turned": (y, (1, 2)), "same": (x, (1, 2)), "x_dense": (x, None), "c": (c, (1, 2))}
    for name, (value, strides) in laid_out.items():
        g.output(name, value, strides=strides)
    back = og.Graph.from_json(g.to_json())
    assert {name: tensor.strides for name, tensor in back.outputs.items()} == {
        name: strides for name, (_, strides) in laid_out.items()
    }
    back.output("more", back.outputs["dense"], strides=[1, 2])
    again = og.Graph.from_json(back.to_json())
    assert [tensor.strides for tensor in again.outputs.values()] == [*(s for _, s in laid_out.values()), (1, 2)]


def test_strides_are_optional():
    ends = [{"id": number, "dtype": "f32", "shape": [2, 3]} for number in (0, 1)]
    op = {"id": 0, "kind": "ReLU", "inputs": ends[:1], "outputs": ends[1:]}
    g = og.Graph.from_json(json.dumps({"graph": [op], "onegraph": {"outputs": [{"id": 1, "name": "y"}]}}))
    g.output("turned", g.outputs["y"], strides=[1, 2])
    back = og.Graph.from_json(g.to_json())
    assert [tensor.strides for tensor in back.outputs.values()] == [None, (1, 2)]


def test_outputs_keep_their_strides_beside_constants():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3), strides=[6, 2])
    g.output("y", g.add(x, g.input("w", og.f32, (3,))), strides=[4, 1])
    g.output("z", x, strides=[8, 2])
    fixed = g.with_constants({"w": np.ones(3, np.float32)})
    assert [tensor.strides for tensor in fixed.outputs.values()] == [(4, 1), (8, 2)]
    assert fixed.inputs["x"].strides == (6, 2)


def test_any_input_can_become_a_constant():
    g = og.Graph()
    x, y = g.input("x", og.f32, (2,)), g.input("y", og.f32, (None,))
    g.output("z", g.add(x, y))
    fixed = g.with_constants({"y": np.ones(2, np.float32)})
    assert (list(fixed.inputs), fixed.outputs["z"].shape, g.outputs["z"].shape) == (["x"], (2,), (2,))
    assert fixed.ops[0].inputs[1].name == "y"
    assert og.Graph.from_json(fixed.to_json()).constant_inputs == ("t1",)
    assert g.with_constants({}).to_json() == g.to_json()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (None, "constants: None; expected a dictionary"),
        ({"t9": np.zeros(2, np.float32)}, "^'t9' is no input; the inputs are t0, t1$"),
        ({"t1": 1.0}, r"constant 't1': 1\.0; expected a numpy array, f32 \[3, 4\]"),
        ({"t1": np.zeros((3, 4))}, r"'t1': float64 .*expected .*f32 .*astype\(og\.f32\.numpy\)"),
        ({"t1": np.zeros((4, 3), np.float32)}, r"'t1': float32 \[4, 3\]; expected a numpy array, f32 \[3, 4\]"),
        ({"t1": np.float32(3)}, r"'t1': float32 \[\]; expected"),
    ],
)
def test_rejects_mismatching_contents(arrays, message):
    with pytest.raises(og.ArgumentError, match=message):
        dumped().with_constants(arrays)


def test_keeps_unread_constants(tmp_path):
    g = small()
    g.constant(np.ones(5, np.float32), name="unread")
    g.output("kept", g.constant(np.ones(6, np.float32), name="kept"))
    g.save(tmp_path / "graph.json")
    loaded = og.Graph.load(tmp_path / "graph.json")
    assert list(loaded.inputs) == ["src"]
    assert {tensor.name for tensor in loaded._tensors if tensor.constant} == {"weights", "unread", "kept"}
    bare = og.Graph.from_json(g.to_json())
    assert len(bare.inputs) == 3  # src, the weights, and the constant that is an output
    assert bare.to_json() == g.to_json()


def test_constant_named_like_an_input():
    g = og.Graph()
    g.output("t1", g.add(g.input("t1_", og.f32, (2,)), g.constant(np.zeros(2, np.float32))))
    assert list(og.Graph.from_json(g.to_json()).inputs) == ["t1_", "t1__"]


# Files and names ------------------------------------------------------------------------------------------------------


def test_keeps_file_mode_with_concurrent_writers(tmp_path):
    graph, path = random_graph(1, 3), tmp_path / ("g" * 240 + ".json")
    graph.save(path)
    path.chmod(0o600)
    failures = []

    def write():
        try:
            graph.save(path)
        except og.OneGraphError as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.stem for file in tmp_path.iterdir()} == {path.stem}  # no temporary files


def test_names_have_any_length():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,)), name="r" * 2**17))
    assert og.Graph.from_json(g.to_json()).ops[0].name == "r" * 2**17


def test_lists_with_infinities_round_trip():
    g = og.Graph()
    scales = [float("inf"), 1.0, 0.5]
    attrs = {"scales": scales, "zps": [0, 0, 0], "qtype": "per_channel", "axis": 1}
    g.output("y", g.quantize(g.input("x", og.f32, (2, 3)), dtype=og.s8, **attrs))
    text = g.to_json()
    assert json.loads(text)["graph"][0]["attrs"]["scales"]["value"] == [3.4028234663852886e38, 1.0, 0.5]
    read = og.Graph.from_json(text)
    assert read.ops[0].attrs["scales"] == tuple(scales)
    assert read.to_json() == text
    wider = rewrite(read, in_shapes={"x": (2, 4)})
    assert wider.ops[0].attrs["scales"] == (*scales, float("inf"))
    assert og.Graph.from_json(wider.to_json()).ops[0].attrs["scales"] == (*scales, float("inf"))
