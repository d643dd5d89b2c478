"""Details of graph files that no round trip of a whole graph shows."""

import hashlib
import json
import math
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util.mapped_file import SourceFiles
from onegraph.ir.op import LogicalTensor
from onegraph.opset.editions.registry import NEWEST
from onegraph.serialize import files, json_text, with_constants, with_known
from onegraph.serialize.document import (
    F32_LIMIT,
    MAX_KEY,
    MAX_RANK,
    _scalar,
    json_identifier,
    json_object,
    json_real,
    json_strides,
    tensor_form,
)
from onegraph.serialize.files import explained_archive, open_part
from onegraph.serialize.model_folder import CONSTANTS, GRAPH, MODEL, read_model, read_settings, write_model
from onegraph.serialize.names import Names, read_names
from onegraph.serialize.npz import names_to_read, read_inputs, write_arrays
from onegraph.serialize.structure import MAX_STRIDE, useful_strides
from onegraph.serialize.tensor_uses import UNKNOWN, _fits
from onegraph.serialize.variables import write_variables
from onegraph.serialize.words import as_word, of_word
from onegraph.serialize.writer import LARGEST, MAX_ID, _free, _infinite, _number

LAST = MAX_ID - 2**32  # the largest number behind which there are ids enough
VECTORS = Names(vectors=frozenset([1]))


@pytest.mark.parametrize(
    ("number", "shape", "expected"),
    [(1, None, (None,)), (2, None, None), (1, (3,), (3,)), (1, (), ()), (2, (3,), (3,))],
)
def test_only_vectors_without_a_shape_get_one_dim(number, shape, expected):
    assert VECTORS.shape(number, shape) == expected


@pytest.mark.parametrize(
    ("dims", "shape", "fits"),
    [
        ([UNKNOWN], (2, 3), True),  # nothing is known
        ([2, UNKNOWN], (2, 3), True),
        ([2, 3], (2, 3), True),
        ([3, UNKNOWN], (2, 3), False),
        ([UNKNOWN, UNKNOWN], (2,), False),
        ([2, UNKNOWN, 3], (2, 3), False),
    ],
)
def test_known_dims_decide_whether_a_use_fits(dims, shape, fits):
    assert _fits(dims, LogicalTensor(0, og.f32, shape, None, "t")) == fits


def test_uses_of_one_type_keep_their_layouts():
    """Where uses of a tensor differ in type, the others get the type of the tensor, and the layout of its first use."""
    uses = [tensor((2, 3), 1, stride=[3, 1]), tensor([UNKNOWN] * 2, 1), tensor((2, 3), 1, stride=[1, 2])]
    ops = [
        {**relu(number=number), "inputs": [use], "outputs": [tensor((2, 3), number + 2)]}
        for number, use in enumerate(uses)
    ]
    written = json.loads(og.Graph.from_json(json.dumps(whole(ops))).to_json(for_version="3.2"))
    found = [op["inputs"][0] for op in written["graph"]]
    assert [use["shape"] for use in found] == [[2, 3]] * 3
    assert [use["stride"] for use in found] == [[3, 1], [3, 1], [1, 2]]


TENSORS = {name: LogicalTensor(0, og.f32, (2,), None, name) for name in "ab"}


@pytest.mark.parametrize(
    ("found", "tensors", "whole", "expected"),
    [
        ("ab", "ab", True, ["a", "b"]),
        ("a", "ab", False, ["a"]),
        ("ac", "ab", False, ["a"]),
        ("", "", True, []),
        ("", "", False, []),
        ("a", "ab", True, "missing"),
        ("abc", "ab", True, "unknown array"),
        ("", "ab", False, "no array of the graph; expected one of a, b at least"),
        ("c", "", False, "expected a graph that has arrays"),
    ],
)
def test_files_have_all_tensors_or_one_at_least(found, tensors, whole, expected):
    chosen = {name: TENSORS[name] for name in tensors}
    if isinstance(expected, list):
        assert names_to_read(found, chosen, Path("f.npz"), "array", whole=whole) == expected
        return
    with pytest.raises(og.FormatError, match=expected):
        names_to_read(found, chosen, Path("f.npz"), "array", whole=whole)


def test_types_that_safetensors_has_not_are_refused(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    said = r"^variable 'z': complex64; safetensors has no such type, \.npz files have it$"
    with pytest.raises(og.ArgumentError, match=said):
        write_variables(tmp_path / "w.safetensors", {"w": np.ones(2, np.float32), "z": np.ones(2, np.complex64)})
    assert list(tmp_path.iterdir()) == []


def test_unknown_dims_beside_known_ones_are_read(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (None, 3))))
    g.save(tmp_path / "g.json")
    assert og.Graph.load(tmp_path / "g.json").inputs["x"].shape == (None, 3)


def test_a_variable_is_read_as_one(tmp_path):
    g = og.Graph()
    g.output("y", g.add(g.input("x", "f32", (2,)), g.variable("w", np.float32([1, 2]))))
    g.save(tmp_path / "g.json")
    again = og.Graph.load(tmp_path / "g.json")
    assert ([*again.variables], [*again.inputs]) == (["w"], ["x"])


def test_a_word_holds_a_graph_with_its_constants():
    g = og.Graph()
    g.output("y", g.add(g.input("x", "f32", (2,)), g.constant(np.float32([1, 2]))))
    again = of_word(as_word(g))
    (constant,) = [tensor.value for tensor in again._tensors if tensor.value is not None]
    assert (constant.dtype, constant.tolist()) == (np.float32, [1, 2])
    assert [op.kind for op in again.ops] == ["Add"]
    assert not again._is_as_read()
    g._n_read = 1
    assert of_word(as_word(g))._is_as_read()


def test_contents_of_unknown_inputs_are_refused():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (2,))))
    with pytest.raises(og.ArgumentError, match="'z'"):
        with_known(g, {"z": np.ones(2, np.float32)})


def test_variables_stay_where_inputs_become_constants():
    g = og.Graph()
    total = g.variable("total", np.ones(2, np.float32))
    y = g.add(g.input("x", "f32", (2,), constant=True), total)
    g.output("y", y)
    g.assign(total, y)
    made, left = with_known(g, {"x": np.ones(2, np.float32)})
    assert not left
    assert [[*named] for named in (made.inputs, made.variables, made.assignments, made.outputs)] == [
        [], ["total"], ["total"], ["y"],
    ]  # fmt: skip


def test_errors_of_an_archive_name_it():
    with pytest.raises(og.FormatError, match=r"f\.npz: No space left"), explained_archive(Path("f.npz")):
        raise OSError(28, "No space left")


def test_a_part_of_a_folder_is_a_file(tmp_path):
    os.mkfifo(tmp_path / "part")
    with pytest.raises(og.FormatError, match="not a regular file"):
        open_part(SourceFiles(), tmp_path / "part", None, str)


@pytest.mark.parametrize("is_changed", [False, True])
def test_other_keys_of_a_file_stay(is_changed, tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (2,))))
    g.save(tmp_path / "g.json")
    form = json.loads((tmp_path / "g.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**form, "author": "someone"}))
    again = og.Graph.load(tmp_path / "other.json")
    if is_changed:
        again.output("z", again.tanh(again.tensor("x")))
    again.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["author"] == "someone"


@pytest.mark.parametrize("checksum", [0, 2**32 - 1, 2**32, -1, None])
def test_checksums_of_a_model_have_32_bits(checksum, tmp_path):
    sums = {GRAPH: 0, CONSTANTS: checksum}
    (tmp_path / MODEL).write_text(json.dumps({"form": 1, "settings": {}, "checksums": sums}))
    if checksum in (0, 2**32 - 1):
        assert read_settings(tmp_path, SourceFiles()).sums == sums
        return
    with pytest.raises(og.FormatError, match=rf"checksums\.{CONSTANTS}: .*expected a checksum"):
        read_settings(tmp_path, SourceFiles())


def tensor(shape=(2,), number=0, **more):
    return {"id": number, "dtype": "f32", "shape": [*shape], **more}


def named(**keys):
    return {"onegraph": {"inputs": [{"id": 0, "name": "x"}], "outputs": [{"id": 1, "name": "y"}], **keys}}


BELOW_LIMIT = math.nextafter(F32_LIMIT, 0)
# What reads a value, on both sides of its bounds; and the place that the message names, or None for what is right.
VALUES = [
    (json_object, ({"k" * MAX_KEY: 1}, "w"), None),
    (json_object, ({"k" * (MAX_KEY + 1): 1}, "w"), "w"),
    (json_real, (1, "w"), None),
    (json_real, (True, "w"), "w"),
    *((json_real, (number, "w"), None) for number in (BELOW_LIMIT, -BELOW_LIMIT, math.inf, -math.inf, math.nan)),
    *((json_real, (number, "w"), "w") for number in (F32_LIMIT, -F32_LIMIT)),
    *((_scalar, ("s64", number, "w"), None) for number in (2**63 - 1, -(2**63))),
    *((_scalar, ("s64", number, "w"), "w") for number in (2**63, -(2**63) - 1, 1.0, True)),
    *((json_identifier, (number, "w"), None) for number in (0, 2**64 - 1)),
    *((json_identifier, (number, "w"), "w") for number in (-1, 2**64, True)),
    (_scalar, ("bool", 1, "w"), None),
    (_scalar, ("bool", 1.0, "w"), "w"),
    (_scalar, ("bool", 2, "w"), "w"),
    (json_strides, ([1] * MAX_RANK, "w"), None),
    (json_strides, ([1] * (MAX_RANK + 1), "w"), "w"),
    (tensor_form, (tensor([1] * MAX_RANK), "w"), None),
    (tensor_form, (tensor([1] * (MAX_RANK + 1)), "w"), "w.shape"),
    (tensor_form, (tensor([UNKNOWN, 2]), "w"), None),
    (tensor_form, (tensor([float(UNKNOWN), 2]), "w"), "w.shape[0]"),
    (tensor_form, (tensor([2**30, 2**30 - 1, UNKNOWN]), "w"), None),
    (tensor_form, (tensor([2**30, 2**30, UNKNOWN]), "w"), "w.shape"),
    (read_names, (named(),), None),
    (read_names, (named(data="a"),), None),
    (read_names, (named(data="a/b"),), "onegraph.data"),
    (read_names, (named(data="a\\b"),), "onegraph.data"),
    *((read_names, (named(data=name),), "onegraph.data") for name in ("", ".", "..")),
    (read_names, (named(form=1),), None),
    *((read_names, (named(form=form),), "onegraph.form") for form in (0, 2, True)),
    (read_names, (named(inputs=[{"id": 0, "name": "out"}]),), "onegraph.inputs[0].name"),
    (read_names, (named(inputs=[{"id": 0, "name": ""}]),), "onegraph.inputs[0].name"),
    (read_names, (named(outputs=[{"id": 0, "name": "out"}]),), None),
    (read_names, (named(outputs=[{"id": 0, "name": ""}]),), "onegraph.outputs[0].name"),
    (read_names, (named(variables=[{"id": 0, "next": "y"}]),), None),
    (read_names, (named(variables=[{"id": 1}]),), "onegraph.variables[0].id"),
    (read_names, (named(variables=[{"id": 0}, {"id": 0}]),), "onegraph.variables[1].id"),
    (read_names, (named(variables=[{"id": 0, "next": "x"}]),), "onegraph.variables[0].next"),
    (
        read_names,
        (named(inputs=[{"id": 0, "name": "a"}, {"id": 2, "name": "b"}], variables=[{"id": 0}, {"id": 2}]),),
        None,
    ),
    (
        read_names,
        (
            named(
                inputs=[{"id": 0, "name": "a"}, {"id": 2, "name": "b"}],
                variables=[{"id": 0, "next": "y"}, {"id": 2, "next": "y"}],
            ),
        ),
        "onegraph.variables[1].next",
    ),
    (read_names, (named(ops={"9" * 20: {}}),), None),
    (read_names, (named(ops={"9" * 21: {}}),), "onegraph.ops"),
    (read_names, (named(ops={"\u00b2": {}}),), "onegraph.ops"),
    (read_names, (named(ops={"x": {}}),), "onegraph.ops"),
]


@pytest.mark.parametrize(("read", "arguments", "where"), VALUES)
def test_values_of_a_file_are_read_up_to_their_bounds(read, arguments, where):
    if where is None:
        read(*arguments)
        return
    with pytest.raises(og.FormatError) as raised:
        read(*arguments)
    assert raised.value.where == where


def whole(ops=(), **more):
    return {"version": "3.2.0", "engine_kind": "cpu", "fpmath_mode": "strict", "graph": [*ops], **more}


def relu(source=0, target=1, number=0, kind="ReLU", attrs=None):
    outputs = [tensor(number=target)] if kind != "End" else []
    return {
        "id": number,
        "name": f"op{number}",
        "kind": kind,
        "attrs": attrs or {},
        "inputs": [tensor(number=source)],
        "outputs": outputs,
    }


NAMED = {"inputs": [{"id": 0, "name": "x"}]}
# Files, and the names of the inputs and outputs of their graphs, or the place that the message names.
FILES = [
    (whole([relu()]), ["t0"], ["t1"]),
    (whole([relu(), relu(0, None, 1, "End")]), ["t0"], ["t1"]),
    (whole([relu(), relu(1, 2, 1), relu(1, None, 2, "End")]), ["t0"], ["t1", "t2"]),
    (whole([relu()], onegraph={"tensors": [tensor(number=5)]}), ["t0", "t5"], ["t1"]),
    (
        whole([relu()], onegraph={"tensors": [tensor(number=5)], "constants": [{"id": 5, "name": "c"}]}),
        ["t0"],
        ["t1"],
    ),
    (
        whole([relu()], onegraph={"outputs": [{"id": 1, "name": "y"}, {"id": 1, "name": "y"}]}),
        "onegraph.outputs[1]",
        None,
    ),
    (whole([relu()], onegraph={"outputs": [{"id": 1, "name": "t0"}]}), ["t0_"], ["t0"]),
    (whole([relu()], onegraph=NAMED | {"outputs": [{"id": 1, "name": "x"}]}), "onegraph.outputs[0]", None),
    (whole([relu()], onegraph={"inputs": [{"id": 0, "name": "t1"}]}), ["t1"], ["t1_out"]),
    (whole([relu()], input_ports=[9, 0], output_ports=[9, 1]), ["t0"], ["t1"]),
    (whole([relu(), relu(1, 2, 1)], output_ports=[1]), ["t0"], ["t1"]),
    (whole([relu(), relu(1, 2, 1)], output_ports=[9]), ["t0"], ["t2"]),
    (whole([relu(), relu(1, 2, 1), relu(2, None, 2, "End")], output_ports=[1]), ["t0"], ["t1", "t2"]),
    (whole([relu(0, 2), relu(1, 3, 1)], input_ports=[1, 0]), ["t1", "t0"], ["t2", "t3"]),
    (whole([relu()], onegraph={"inputs": [{"id": 1, "name": "x"}]}), "onegraph.inputs[0]", None),
    (whole([relu()], onegraph={"inputs": [{"id": 9, "name": "x"}]}), "onegraph.inputs[0]", None),
    (whole([relu()], onegraph={"outputs": [{"id": 9, "name": "y"}]}), "onegraph.outputs[0]", None),
    (whole([relu()], other={"a": 1, "b": [2, {"c": {}}]}), "other.b[1].c", None),
]


@pytest.mark.parametrize(("form", "inputs", "outputs"), FILES)
def test_graphs_of_files_have_these_ends(form, inputs, outputs):
    text = json.dumps(form).replace('"c": {}', '"c": {"k": 1, "k": 2}')
    if isinstance(inputs, str):
        with pytest.raises(og.FormatError) as raised:
            og.Graph.from_json(text)
        assert raised.value.where == inputs
    else:
        graph = og.Graph.from_json(text)
        assert ([*graph.inputs], [*graph.outputs]) == (inputs, outputs)


def test_a_cycle_names_its_first_ops():
    ops = [relu(number, (number + 1) % 9, number) for number in range(9)]
    with pytest.raises(og.FormatError) as raised:
        og.Graph.from_json(json.dumps(whole(ops)))
    assert raised.value.given == f"a cycle among {', '.join(f'graph[{number}]' for number in range(8))}"


@pytest.mark.parametrize("text", ['{"a": {"b": %s}}', "[[%s]]", '{"a": [%s]}'])
@pytest.mark.parametrize("depth", [62, 63])
def test_texts_are_nested_up_to_a_depth(text, depth):
    nested = text % ("[" * depth + "]" * depth)
    if depth == 62:
        assert json_text.decode(nested) is not None
        return
    with pytest.raises(og.FormatError, match="nested too deep; expected at most 64 levels") as raised:
        json_text.decode(nested)
    assert raised.value.where == f"line 1 column {text.index('%') + 63}"


def test_equal_ops_of_a_file_share_what_follows_from_their_inputs():
    first, second = og.Graph.from_json(json.dumps(whole([relu(), relu(0, 2, 1)]))).ops
    assert first.signature is second.signature is not None


@pytest.mark.parametrize("text", [" " * 98 + "{}", b" " * 98 + b"{}"])
def test_texts_and_files_have_most_bytes(text, monkeypatch, tmp_path):
    monkeypatch.setattr(json_text, "MAX_BYTES", 100)
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    (tmp_path / "f").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(og.FormatError, match="graph: missing"):
        og.Graph.from_json(text)
    with pytest.raises(og.FormatError, match="graph: missing"):
        og.Graph.load(tmp_path / "f")


@pytest.mark.parametrize(("minor", "is_right"), [(NEWEST[1], True), (NEWEST[1] + 1, False)])
def test_files_are_written_for_versions_up_to_the_newest(minor, is_right):
    graph = og.Graph.from_json(json.dumps(whole([relu()])))
    if is_right:
        assert json.loads(graph.to_json(for_version=f"3.{minor}"))["version"] == f"3.{minor}.0"
    else:
        with pytest.raises(og.ArgumentError, match="for_version"):
            graph.to_json(for_version=f"3.{minor}")


def test_a_graph_without_inputs_has_no_input_of_a_name():
    graph = og.Graph()
    graph.output("y", graph.relu(graph.constant(np.ones(2, np.float32))))
    with pytest.raises(og.ArgumentError, match="'z' is no input; the inputs are none"):
        with_constants(graph, {"z": np.ones(2, np.float32)})
    for number in range(13):
        graph.input(f"x{number}", "f32", (2,))
    with pytest.raises(og.ArgumentError, match=r"the inputs are x0, .*, x11, \.\.\.$"):
        with_constants(graph, {"z": np.ones(2, np.float32)})


@pytest.mark.parametrize("change", ["an End", "an output", "a constant", "nothing"])
def test_a_graph_that_was_changed_has_ports_of_its_own(change):
    form = whole([relu()], input_ports=[0, 0], output_ports=[1])
    graph = og.Graph.from_json(json.dumps(form))
    if change == "an End":
        graph.op("End", [graph.outputs["t1"]])
    elif change == "an output":
        graph.output("again", graph.outputs["t1"])
    elif change == "a constant":
        graph.constant(np.ones(2, np.float32))
    found = json.loads(graph.to_json())
    assert found["input_ports"] == ([0, 0] if change == "nothing" else [0])
    assert ("onegraph" in found) is (change != "nothing")


@pytest.mark.parametrize("version", [None, "3.2"])
def test_attributes_of_the_library_stay_unless_a_version_reads_the_file(version):
    attrs = {"partition_id": {"type": "string", "value": "3"}}
    graph = og.Graph.from_json(json.dumps(whole([relu(attrs=attrs)])))
    assert json.loads(graph.to_json(for_version=version))["graph"][0]["attrs"] == ({} if version else attrs)


@pytest.mark.parametrize("ports", [[0], [0, 2]])
def test_ports_of_a_file_may_lack_constants(ports, tmp_path):
    graph = og.Graph()
    graph.output("y", graph.add(graph.input("x", "f32", (2,)), graph.constant(np.ones(2, np.float32))))
    graph.save(tmp_path / "g.json")
    form = json.loads((tmp_path / "g.json").read_text())
    add = form["graph"][0]
    first, second = (use["id"] for use in add["inputs"])
    form["input_ports"] = [first, second] if len(ports) == 2 else [first]
    (tmp_path / "g.json").write_text(json.dumps(form))
    again = og.Graph.load(tmp_path / "g.json")
    assert json.loads(again.to_json(for_version="3.2"))["input_ports"] == form["input_ports"]


@pytest.mark.parametrize("kind", ["constants", "variables"])
def test_constants_and_variables_are_tensors_of_ops(kind, tmp_path):
    graph = og.Graph()
    w = graph.constant(np.ones(2, np.float32)) if kind == "constants" else graph.variable("w", np.ones(2, np.float32))
    graph.output("y", graph.relu(w))
    graph.save(tmp_path / "g.json")
    form = json.loads((tmp_path / "g.json").read_text())
    form["onegraph"][kind][0]["id"] = 77
    form["onegraph"]["inputs"] = [*form["onegraph"]["inputs"], {"id": 77, "name": "v"}]
    (tmp_path / "g.json").write_text(json.dumps(form))
    with pytest.raises(og.FormatError) as raised:
        og.Graph.load(tmp_path / "g.json")
    assert raised.value.where.endswith(f": onegraph.{kind}")


def test_constants_without_elements_are_read_from_models(tmp_path):
    graph = og.Graph()
    graph.output("y", graph.concat(graph.input("x", "f32", (2,)), graph.constant(np.ones(0, np.float32)), axis=0))
    graph.compile().save(tmp_path / "m")
    assert og.load(tmp_path / "m")(np.float32([1, 2])).tolist() == [1, 2]


@pytest.mark.parametrize("part", ["digest", "checksum", None])
def test_models_have_the_digest_and_the_checksum_of_their_graph(part, tmp_path):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
    graph.compile().save(tmp_path / "m")
    form = json.loads((tmp_path / "m" / MODEL).read_text())
    if part == "digest":
        form["digests"][GRAPH] = "0" * 32
    elif part == "checksum":
        form["checksums"][GRAPH] ^= 1
    (tmp_path / "m" / MODEL).write_text(json.dumps(form))
    if part is None:
        read_model(tmp_path / "m", SourceFiles())
    else:
        with pytest.raises(og.FormatError, match="other contents"):
            read_model(tmp_path / "m", SourceFiles())


def test_a_model_has_digests_and_checksums_of_its_files(tmp_path):
    graph, folder = og.Graph(), tmp_path / "models" / "m"
    graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
    write_model(folder, lambda digest: "a graph", {"w": np.float32([1, 2])}, {"policy": "fusion"})
    assert (folder / GRAPH).read_bytes() == b"a graph\n"
    with zipfile.ZipFile(folder / CONSTANTS) as archive:
        (member,) = archive.infolist()
    texts = repr([("w.npy", 136, member.CRC)]), repr([("w.npy", member.CRC)])
    head = {
        "form": 1,
        "onegraph": og.__version__,
        "settings": {"policy": "fusion"},
        "checksums": {CONSTANTS: zlib.crc32(texts[1].encode()), GRAPH: zlib.crc32(b"a graph\n")},
        "digests": {
            CONSTANTS: hashlib.blake2b(texts[0].encode(), digest_size=16).hexdigest(),
            GRAPH: hashlib.blake2b(b"a graph\n", digest_size=16).hexdigest(),
        },
    }
    assert (folder / MODEL).read_text() == json.dumps(head, indent=2) + "\n"


@pytest.mark.parametrize(
    "shapes", [{"a": (3,), "b" * 40: (2, 5), "\u00e4" * 7: ()}, {"c" * number: (number,) for number in range(1, 9)}]
)
def test_elements_of_an_archive_lie_at_aligned_places(shapes, tmp_path):
    """Each member has the least field of zeros that does this."""
    write_arrays(tmp_path / "a.npz", {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    contents = (tmp_path / "a.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        for member in archive.infolist():
            name, extra = struct.unpack("<HH", contents[member.header_offset + 26 : member.header_offset + 30])
            assert (member.header_offset + 30 + name + extra) % 64 == 0
            assert 24 <= extra < 24 + 64  # the sizes, and the head of the zeros


@pytest.mark.parametrize(
    ("array", "is_packed", "said"),
    [
        (np.ones((2, 3), np.float32), False, None),
        (np.ones((2, 3), np.float32), True, "compressed; expected an archive"),
        (
            np.ones((3, 2), np.float32),
            False,
            r"float32 of shape \(3, 2\); expected float32 of shape \(2, 3\) in C order",
        ),
        (np.ones((2, 3), np.int32), False, r"int32 of shape \(2, 3\); expected float32"),
        (np.asfortranarray(np.ones((2, 3), np.float32)), False, r"float32 of shape \(2, 3\); expected float32"),
        (None, False, "missing; expected the contents of a constant"),
    ],
)
def test_constants_of_a_file_are_those_that_it_names(array, is_packed, said, tmp_path):
    graph = og.Graph()
    w = graph.constant(np.zeros((2, 3), np.float32))
    graph.output("y", graph.add(graph.input("x", "f32", (2, 3)), w))
    graph.save(tmp_path / "g.json")
    form = json.loads((tmp_path / "g.json").read_text())
    del form["onegraph"]["digest"]
    (tmp_path / "g.json").write_text(json.dumps(form))
    (np.savez_compressed if is_packed else np.savez)(
        tmp_path / "g.npz", **{"other" if array is None else f"t{w.id}": np.ones(1) if array is None else array}
    )
    if said is None:
        (value,) = [one.value for one in og.Graph.load(tmp_path / "g.json")._tensors if one.value is not None]
        assert value.tolist() == array.tolist()
        assert not value.flags.writeable
    else:
        with pytest.raises(og.FormatError, match=f"g.npz: t{w.id}: {said}"):
            og.Graph.load(tmp_path / "g.json")


def test_names_of_a_file_that_ops_share_get_numbers():
    ops = [{**relu(0, number + 1, number), "name": name} for number, name in enumerate(["a", "a", "a_1", "a", ""])]
    assert [op.name for op in og.Graph.from_json(json.dumps(whole(ops))).ops] == ["a", "a_1", "a_1_1", "a_2", "relu_4"]


@pytest.mark.parametrize(
    ("value", "number", "word"),
    [
        (math.inf, LARGEST, "inf"),
        (-math.inf, -LARGEST, "-inf"),
        (2.5, 2.5, None),
        ((1.5, -math.inf), None, [1.5, "-inf"]),
        ((1.5, 2.5), None, None),
        ("inf", None, None),
        (3, 3.0, None),
        (2 * LARGEST, LARGEST, None),
    ],
)
def test_numbers_that_are_not_finite_are_words_beside_the_largest_ones(value, number, word):
    assert _infinite(value) == word
    if number is not None:
        assert _number("f32", value) == number
        assert type(_number("f32", value)) is float
    assert _number("f32", math.nan) == LARGEST
    assert repr(_number("s64", 3.0)) == "3"


PAIRS = np.zeros(2, [("a", "f4"), ("b", "f4")])


@pytest.mark.parametrize(
    ("array", "version", "dtype", "is_right"),
    [
        (np.ones(2, np.float32), (1, 0), "f32", True),
        (np.ones(2, np.float32), (2, 0), "f32", True),
        (PAIRS, (1, 0), "f32", False),
        (np.ones(2, np.float32), (1, 0), "bf16", False),
        (np.ones(2, np.uint16), (1, 0), "bf16", True),
        (np.ones(2, "V2"), (1, 0), "bf16", True),
        (np.ones(2, np.uint32), (1, 0), "f32", False),
    ],
)
def test_arrays_of_a_file_have_the_type_of_their_input(array, version, dtype, is_right, tmp_path):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", dtype, (2,))))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array(member, array, version)
    if is_right:
        assert read_inputs(tmp_path / "x.npz", graph)["x"].shape == (2,)
    else:
        with pytest.raises(og.FormatError, match="x: "):
            read_inputs(tmp_path / "x.npz", graph)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", ["xx", "axx", "xax"])
def test_members_that_are_stored_twice_are_refused(names, tmp_path):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.input("x", "f32", (2,))))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in names:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.ones(2, np.float32))
    with pytest.raises(og.FormatError, match="x: stored twice"):
        read_inputs(tmp_path / "x.npz", graph)


@pytest.mark.parametrize(("taken", "first"), [([], 0), ([5], 6), ([LAST - 1], LAST), ([LAST], 0), ([0, LAST], 1)])
def test_new_ids_of_a_file_are_free(taken, first):
    assert next(_free({*taken})) == first


@pytest.mark.parametrize(
    ("found", "noun", "hint"), [("abc", "variable", True), ("c", "variable", False), ("abc", "array", False)]
)
def test_other_arrays_may_be_left_out_where_some_are_variables(found, noun, hint):
    with pytest.raises(og.FormatError, match=f"unknown {noun}") as raised:
        names_to_read(found, TENSORS, Path("f.npz"), noun)
    assert ("strict=False" in str(raised.value)) is hint


@pytest.mark.parametrize(
    ("strides", "shape", "useful"),
    [
        ((MAX_STRIDE, 1), (2, 3), False),
        ((MAX_STRIDE - 1, 1), (2, 3), True),
        ((4, 1), (2, 3), True),
        ((3, 1), (2, 3), False),
        ((2, 1), (2, 3), False),
        (None, (2, 3), False),
        ((4, 1), None, False),
        ((4, 1), (2, None), False),
    ],
)
def test_strides_are_useful_if_elements_lie_apart(strides, shape, useful):
    assert useful_strides(strides, shape) == (strides if useful else None)


def test_keys_that_the_library_cannot_read_are_left_out():
    form = whole([relu()], **{"author": 1, "a\x01b": 2})
    again = json.loads(og.Graph.from_json(json.dumps(form)).to_json())
    assert ("author" in again, "a\x01b" in again) == (True, False)


@pytest.mark.parametrize("zps", [None, [3]])
def test_zero_points_that_are_given_stay(zps):
    graph = og.Graph()
    graph.output("y", graph.dequantize(graph.input("x", "s8", (2,)), scales=[0.5], **({"zps": zps} if zps else {})))
    attrs = json.loads(graph.to_json(for_version="3.0"))["graph"][0]["attrs"]
    assert attrs["zps"]["value"] == (zps or [0])


def test_constants_of_wildcards_have_the_type_f32(tmp_path):
    graph = og.Graph()
    graph.output("y", graph.relu(graph.constant(np.float32([1, 2]))))
    graph.save(tmp_path / "g.json")
    form = json.loads((tmp_path / "g.json").read_text())
    form["graph"][0].update(kind="Wildcard", attrs={})
    form["graph"][0]["inputs"][0]["dtype"] = "undef"
    (tmp_path / "g.json").write_text(json.dumps(form))
    again = og.Graph.load(tmp_path / "g.json", strict=False)
    assert [tensor.value.tolist() for tensor in again._tensors if tensor.value is not None] == [[1, 2]]
