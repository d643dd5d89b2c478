"""Details of graph files that no round trip of a whole graph shows."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph._util.mapped_file import SourceFiles
from onegraph.ir.op import LogicalTensor
from onegraph.serialize import with_known
from onegraph.serialize.files import explained_archive, open_part
from onegraph.serialize.model_folder import CONSTANTS, GRAPH, MODEL, read_settings
from onegraph.serialize.names import Names
from onegraph.serialize.npz import names_to_read
from onegraph.serialize.tensor_uses import UNKNOWN, _fits
from onegraph.serialize.words import as_word, of_word

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


def test_contents_of_unknown_inputs_are_refused():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", "f32", (2,))))
    with pytest.raises(og.ArgumentError, match="'z'"):
        with_known(g, {"z": np.ones(2, np.float32)})


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
