"""Files that are rejected: no graphs, no JSON, broken or missing parts, and mutated files."""

import copy
import gzip
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from helpers.json_files import (
    UNKNOWN,
    assert_library_reads,
    assert_same,
    file,
    load,
    op,
    relu,
    small,
    tensor,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.serialize import json_text


def changed(*path_and_value):
    """A file of two ops with one value changed."""
    *path, last, value = path_and_value
    whole = file(relu(0, 1, 0), {**relu(1, 2, 1), "kind": "Elu", "attrs": {"alpha": {"type": "f32", "value": 1}}})
    place = whole
    for key in path:
        place = place[key]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return whole


NAMED = {"inputs": [{"id": 0, "name": "x"}]}


def laid_out(stride):
    return {"outputs": [{"id": 2, "name": "y", "stride": stride}]}


@pytest.mark.parametrize(
    ("whole", "where", "expected"),
    [
        ([], "text", "an object"),
        (3, "text", "an object"),
        ({}, "graph", "the array of ops"),
        (changed("graph", {}), "graph", "an array"),
        (changed("version", 3), "version", "a string"),
        (changed("engine_kind", "tpu"), "engine_kind", "one of cpu, gpu, any"),
        (changed("fpmath_mode", None), "fpmath_mode", "one of strict"),
        (changed("fpmath_mode_apply_to_int", "maybe"), "fpmath_mode_apply_to_int", "'true' or 'false'"),
        (changed("fpmath_mode_apply_to_int", 2), "fpmath_mode_apply_to_int", "'true' or 'false'"),
        (changed("input_ports", 0), "input_ports", "an array"),
        (changed("input_ports", [0, -1]), "input_ports[1]", "2**64 - 1"),
        (changed("graph", 1, []), "graph[1]", "an object"),
        (changed("graph", 1, "id", KeyError), "graph[1].id", "a value"),
        (changed("graph", 1, "id", 2**64), "graph[1].id", "2**64 - 1"),
        (changed("graph", 1, "id", True), "graph[1].id", "an id"),
        (changed("graph", 1, "id", 1.5), "graph[1].id", "an id"),
        (changed("graph", 1, "id", 0), "graph[1].id", "graph[0]"),
        (changed("graph", 1, "name", []), "graph[1].name", "a string"),
        (changed("graph", 1, "kind", None), "graph[1].kind", "a string"),
        (changed("graph", 1, "kind", "Relu"), "graph[1].kind", "did you mean 'ReLU'"),
        (changed("graph", 1, "attrs", []), "graph[1].attrs", "an object"),
        (changed("graph", 1, "attrs", "alpha", 1), "graph[1].attrs.alpha", "an object"),
        (changed("graph", 1, "attrs", "alpha", "type", "f64"), "graph[1].attrs.alpha.type", "one of f32"),
        (changed("graph", 1, "attrs", "alpha", "value", KeyError), "graph[1].attrs.alpha.value", "a value"),
        (changed("graph", 1, "attrs", "alpha", "value", "1"), "graph[1].attrs.alpha.value", "a number"),
        (changed("graph", 1, "attrs", "alpha", "value", 1e39), "graph[1].attrs.alpha.value", "32-bit"),
        (
            changed("graph", 1, "attrs", "alpha", {"type": "s64[]", "value": [1, 2**63]}),
            "graph[1].attrs.alpha.value[1]",
            "64",
        ),
        (changed("graph", 1, "attrs", "alpha", {"type": "bool", "value": 2}), "graph[1].attrs.alpha.value", "0 or 1"),
        (changed("graph", 1, "inputs", None), "graph[1].inputs", "an array"),
        (changed("graph", 1, "inputs", [1]), "graph[1].inputs[0]", "an object"),
        (changed("graph", 1, "inputs", 0, "dtype", "f64"), "graph[1].inputs[0].dtype", "f32"),
        (changed("graph", 1, "inputs", 0, "dtype", "f16"), "graph[1].inputs[0].dtype", "f32, as graph[0].outputs[0]"),
        (changed("graph", 1, "inputs", 0, "shape", 6), "graph[1].inputs[0].shape", "an array"),
        (changed("graph", 1, "inputs", 0, "shape", [2, -3]), "graph[1].inputs[0].shape[1]", "a dim"),
        (changed("graph", 1, "inputs", 0, "shape", [2, 3.0]), "graph[1].inputs[0].shape[1]", "a dim"),
        (changed("graph", 1, "inputs", 0, "shape", [1] * 13), "graph[1].inputs[0].shape", "at most 12"),
        (changed("graph", 1, "inputs", 0, "shape", [2**31, 2**31]), "graph[1].inputs[0].shape", "2**60"),
        (changed("graph", 1, "inputs", 0, "stride", [1]), "graph[1].inputs[0].stride", "2 strides"),
        (changed("graph", 1, "inputs", 0, "stride", [3, -1]), "graph[1].inputs[0].stride[1]", "a number of elements"),
        (changed("graph", 1, "inputs", 0, "layout_type", "dense"), "graph[1].inputs[0].layout_type", "strided"),
        (changed("graph", 1, "inputs", 0, "property_type", 0), "graph[1].inputs[0].property_type", "constant"),
        (changed("graph", 1, "outputs", 0, "id", 1), "graph[1].outputs[0].id", "graph[0] produces"),
        (changed("graph", 0, "inputs", 0, "id", 2), "graph[0].inputs", "a cycle among graph[0], graph[1]"),
        (changed("graph", 0, "inputs", 0, "dtype", "undef"), "graph[0].inputs[0].dtype", "a data type"),
        (changed("onegraph", 1), "onegraph", "an object"),
        (changed("onegraph", {"form": 2}), "onegraph.form", "a newer onegraph"),
        (changed("onegraph", {"edition": "1"}), "onegraph.edition", "legacy-1"),
        (changed("onegraph", {"inputs": [{"id": 0}]}), "onegraph.inputs[0].name", "a string"),
        (
            changed("onegraph", {"inputs": [{"id": 0, "name": "out"}]}),
            "onegraph.inputs[0].name",
            "keyword",
        ),
        (
            changed("onegraph", {"inputs": [{"id": 1, "name": "x"}]}),
            "onegraph.inputs[0]",
            "none produces",
        ),
        (
            changed("onegraph", {**NAMED, "outputs": [{"id": 2, "name": "x"}]}),
            "onegraph.outputs[0]",
            "each name once",
        ),
        (
            changed("onegraph", {"outputs": [{"id": 5, "name": "y"}]}),
            "onegraph.outputs[0]",
            "a tensor of an op",
        ),
        (changed("onegraph", laid_out([1])), "onegraph.outputs[0].stride", "2 strides"),
        (changed("onegraph", laid_out([3, -1])), "onegraph.outputs[0].stride[1]", "a number of elements"),
        (changed("onegraph", laid_out("3x1")), "onegraph.outputs[0].stride", "an array"),
        (changed("onegraph", {"ops": {"x": {}}}), "onegraph.ops", "ids of ops"),
        (changed("onegraph", {"ops": {"1": {"attrs": {"alpha": 1}}}}), "onegraph.ops.1.attrs.alpha", "inf"),
        (changed("onegraph", {"tensors": [{"id": 0}]}), "onegraph.tensors[0].dtype", "a value"),
        (changed("onegraph", {"data": "../x.npz"}), "onegraph.data", "beside this one"),
    ],
)
def test_rejects_json_that_is_not_a_graph(whole, where, expected):
    with pytest.raises(og.FormatError) as caught:
        load(whole)
    assert caught.value.where == where
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (changed("graph", 1, "attrs", "beta", {"type": "f32", "value": 1}), "graph[1]: Elu.*beta"),
        (changed("graph", 1, "attrs", {}), "graph[1]: Elu.*alpha: missing"),
        (changed("graph", 1, "attrs", "alpha", {"type": "string", "value": "1"}), "graph[1]: Elu.*alpha"),
        (changed("graph", 1, "attrs", "alpha", "value", -1), "graph[1]: Elu.*alpha"),
        (changed("graph", 1, "inputs", []), "graph[1]: Elu.*inputs"),
        (changed("graph", 1, "outputs", 0, "dtype", "bf16"), "graph[1]: Elu.*dst"),
    ],
)
def test_rejects_ops_that_the_library_rejects(whole, expected):
    with pytest.raises(og.SpecError, match=expected.replace("[", r"\[").replace("]", r"\]")):
        load(whole)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1 column 1"),
        ('{"graph": [\n  {"id": 0 1}]}', "line 2 column 12"),
        ('{"graph": [], "graph": []}', "text"),
        ('{"graph": [{"id": 0, "id": 1}]}', "graph[0]"),
        ('{"graph": []} x', "line 1 column 15"),
        ("[" * 100_000, "line 1 column 65"),
        ('{"graph":\n' * 100 + "[]" + "}" * 100, "line 65 column 1"),
        ('{"graph": ' + "9" * 5000 + "}", "line 1 column 11"),
        ('{"1e999": "1e999",\n"graph": 1e999}', "line 2 column 10"),
        (b"\xff\xfe{}", "text"),
        (b"\0" * 100, "line 1 column 1"),
        (None, "text"),
        (7, "text"),
    ],
)
def test_rejects_text_that_is_not_json(text, where):
    with pytest.raises(og.FormatError) as caught:
        og.Graph.from_json(text)
    assert caught.value.where == where
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (gzip.compress(b'{"graph": []}', mtime=0), "packed by gzip"),
        ('{"graph": []}'.encode("utf-16"), "text in UTF-16"),
        ('{"graph": []}'.encode("utf-16-le"), "text in UTF-16"),
        ('{"graph": []}'.encode("utf-16-be"), "text in UTF-16"),
    ],
)
def test_rejects_compressed_and_reencoded_text(text, what):
    with pytest.raises(og.FormatError, match=f"^text: {what}; expected JSON in UTF-8$"):
        og.Graph.from_json(text)


def test_messages_show_the_place_after_infinities():
    with pytest.raises(og.FormatError, match=r"'oops\]'; expected JSON"):
        og.Graph.from_json('{"graph": [inf, -inf, inf, oops]')


def test_messages_name_json_types_and_choices():
    with pytest.raises(og.FormatError, match=r"shape: null; expected an array"):
        load(changed("graph", 1, "inputs", 0, "shape", None))
    with pytest.raises(og.FormatError, match=r"id: true; expected an id"):
        load(changed("graph", 1, "id", True))
    with pytest.raises(og.FormatError, match=r"dtype: 'f64'; expected one of f32, ") as caught:
        load(changed("graph", 1, "inputs", 0, "dtype", "f64"))
    assert "undef" not in str(caught.value)


def test_rejects_text_that_is_too_large(monkeypatch, tmp_path):
    monkeypatch.setattr(json_text, "MAX_BYTES", 100)
    for text in (" " * 101, b" " * 101):
        with pytest.raises(og.FormatError, match="at most 100"):
            og.Graph.from_json(text)


def test_messages_shorten_long_keys():
    whole = changed("graph", 1, "attrs", "a" * 10**6, {"type": "f32", "value": ""})
    with pytest.raises(og.FormatError, match=r"^graph\[1\]\.attrs: ") as caught:
        load(whole)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("value", "where", "expected"),
    [
        (1e39, "", "one of inf, -inf"),
        ([1.0, 1e39, 0.5], "[1]", "a number that a 32-bit float holds"),
        ([1.0, "nan", 0.5], "[1]", "one of inf, -inf"),
        ([None, 1.0, 0.5], "[0]", "a number"),
    ],
)
def test_rejects_numbers_that_attributes_cannot_hold(value, where, expected):
    g = og.Graph()
    scales = {"scales": [float("inf"), 1.0, 0.5], "zps": [0, 0, 0], "qtype": "per_channel", "axis": 1}
    g.quantize(g.input("x", og.f32, (2, 3)), dtype=og.s8, **scales)
    form = json.loads(g.to_json())
    form["onegraph"]["ops"]["0"]["attrs"]["scales"] = value
    with pytest.raises(og.FormatError) as caught:
        load(form)
    assert (caught.value.where, caught.value.expected) == (f"onegraph.ops.0.attrs.scales{where}", expected)


def test_failure_names_the_option():
    with pytest.raises(og.ArgumentError, match="strict"):
        og.Graph.from_json("{}", strict=1)


# Saving and loading ---------------------------------------------------------------------------------------------------


def without_names(named):
    """Many inputs beside many names of outputs."""
    count, names = 250, 25_000
    ops = [relu(n, count + n, n) for n in range(count)]
    inputs = [{"id": n, "name": f"x{n}"} for n in range(count * named)]
    outputs = [{"id": count, "name": f"y{n}"} for n in range(names)]
    return file(*ops, onegraph={"inputs": inputs, "outputs": outputs})


def variables(following):
    """Many variables, each with the name of its next value or without."""
    count = 6000
    ids = [{"id": n, "name": f"x{n}"} for n in range(count)]
    entries = [{"id": n, **({"next": f"y{n}"} if following else {})} for n in range(count)]
    outputs = [{"id": count, "name": f"y{n}"} for n in range(count)]
    return file(relu(0, count), onegraph={"inputs": ids, "outputs": outputs, "variables": entries})


def axes(kind):
    """An op with more axes than a tensor can have."""
    shapes = tensor(0, "f32", [1, 2]), tensor(1, "f32", [UNKNOWN])
    one = op(0, kind, [shapes[0]], [shapes[1]], {"axes": [*range(6000)]})
    return file(one, onegraph={"ops": {"0": {"edition": "host"}}})


@pytest.mark.parametrize(
    ("whole", "like"),
    [
        (without_names(named=False), without_names(named=True)),
        (variables(following=True), variables(following=False)),
        (axes("Squeeze"), axes("Unsqueeze")),
    ],
    ids=["inputs without names", "variables", "axes"],
)
def test_time_grows_with_the_size_alone(whole, like):
    times = []
    for text in (json.dumps(like), json.dumps(whole)):
        begin = time.process_time()
        with suppress(og.FormatError, og.SpecError):
            og.Graph.from_json(text)
        times.append(time.process_time() - begin)
    assert times[1] < 2 * times[0] + 0.03


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("other", ["", "0" * 300])  # many digits in a text are no number
def test_refuses_numbers_of_many_digits(sign, other):
    digits = sign + "9" * (256 - len(sign))
    assert json_text.decode(f'{{"a": "{other}", "b": {digits}}}') == {"a": other, "b": int(digits)}
    with pytest.raises(og.FormatError, match="at most 256") as caught:
        json_text.decode(f'{{"a": "{other}", "b": {digits}9}}')
    assert caught.value.where == f"line 1 column {16 + len(other)}"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "small.json"
    small().save(path)
    return path


def test_rejects_unreadable_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "missing", "pipe", "missing/file"):
        with pytest.raises(og.FormatError) as caught:
            og.Graph.load(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)
    for path in (None, 3, "", "a\0b", "graph.npz"):
        with pytest.raises(og.ArgumentError, match="path"):
            og.Graph.load(path)


def test_rejects_unwritable_files(tmp_path):
    with pytest.raises(og.FormatError, match="can be written"):
        small().save(tmp_path / "missing" / "graph.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(og.FormatError, match="can be written"):
        small().save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_failed_write_keeps_the_old_file(saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.parent.iterdir()}

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(og.FormatError, match=r"small\.npz: No space left on device; expected a path"):
        small().save(saved)
    assert {path.name: path.read_bytes() for path in saved.parent.iterdir()} == before


LARGER = """
import resource, signal, sys
import numpy as np
import onegraph as og

g = og.Graph()
t = g.multiply(g.input("x", og.f32, (4,)), g.constant(np.full(4, 9, "f4")))
for _ in range(100):
    t = g.relu(t)
g.output("y", t)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))  # enough for the constants, and not for the JSON
try:
    g.save(sys.argv[1])
except og.FormatError as error:
    assert "graph.json: File too large" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.skipif(os.name == "nt", reason="no limits on files")
def test_failed_write_keeps_both_files(tmp_path):
    path = tmp_path / "graph.json"
    small().save(path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == {"graph.json", "graph.npz"}
    done = subprocess.run([sys.executable, "-c", LARGER, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_rejects_constants_without_their_file(saved):
    text = saved.read_text()
    saved.with_suffix(".npz").unlink()
    with pytest.raises(og.FormatError, match=r"small\.npz.*beside the JSON file"):
        og.Graph.load(saved)
    g = og.Graph.from_json(text)
    assert list(g.inputs) == ["src", "t1"]
    assert json.loads(g.to_json())["graph"] == json.loads(text)["graph"]


def rewritten(saved, **arrays):
    np.savez(saved.with_suffix(".npz"), **arrays)


GOOD = np.zeros((4, 3), np.float32)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({}, "missing"),
        ({"t1": GOOD.T}, "shape"),
        ({"t1": GOOD.astype(np.float64)}, "float64"),
        ({"t1": GOOD.astype(">f4")}, ">f4"),
        ({"t1": np.asfortranarray(GOOD)}, "C order"),
        ({"t1": np.full((4, 3), None)}, "object"),
    ],
)
def test_rejects_mismatching_constants(saved, arrays, expected):
    rewritten(saved, **arrays)
    with pytest.raises(og.FormatError, match=expected):
        og.Graph.load(saved)


def test_rejects_broken_archives(saved):
    archive = saved.with_suffix(".npz")
    whole = archive.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    misnamed = bytearray(whole)  # a name that is marked as UTF-8, but is not
    misnamed[directory + 9] |= 8
    misnamed[directory + 46] = 0xFF
    for broken in (b"", b"PK", whole[:-30], whole[:40], b"\x80\x04." * 50, misnamed):
        archive.write_bytes(broken)
        with pytest.raises(og.FormatError, match=r"archive|array"):
            og.Graph.load(saved)
    np.savez_compressed(archive, t1=GOOD)
    with pytest.raises(og.FormatError, match="compressed"):
        og.Graph.load(saved)
    with zipfile.ZipFile(archive, "w") as file_:
        file_.writestr("t1.npy", b"\x93NUMPY\x01\x00\x76\x00" + b"{" * 118)
    with pytest.raises(og.FormatError, match=r"numpy\.save"):
        og.Graph.load(saved)
    with zipfile.ZipFile(archive, "w") as file_:
        file_.writestr("t1.npy", whole[whole.index(b"\x93NUMPY") :][:140])
    with pytest.raises(og.FormatError, match="bytes"):
        og.Graph.load(saved)


# Mutated files --------------------------------------------------------------------------------------------------------


JUNK = [
    *(None, True, 0, 1, -1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**30, 1.5, float("inf"), float("nan")),
    *("", "x", "f32", "\ud800", "\0", "a" * 70000),
    *([], [[]], [1], [-(2**63)], ["a"], [2**40] * 3, list(range(20)), {}, [{}], {"id": 0}),
    *({"type": "s64", "value": 1}, {"type": "f32[]", "value": [1, 2.5]}),
]


def seeds():
    """Small files of several sorts."""
    yield small().to_json()
    yield json.dumps(file(relu(1, 2, 5), relu(2, 3, 1), relu(0, 1, 9), input_ports=[0], output_ports=[3]))
    window = {"strides": [2, 1], "pads_begin": [0, 1], "pads_end": [0, 0], "kernel": [2, 2], "auto_pad": "None"}
    yield json.dumps(file(op(0, "MaxPool", [tensor(0, "f32", [1, 8, 8, 2])], [tensor(1, "f32", [1, 4, 8, 2])], window)))
    scales = {"scales": [0.5], "zps": [3], "qtype": "per_tensor", "axis": 1}
    yield json.dumps(file(op(0, "Quantize", [tensor(0, "f32", [2, 2])], [tensor(1, "u8", [2, 2])], scales)))


SEEDS = tuple(seeds())


def places(value, found):
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found.append((value, key))
        places(value[key], found)
    return found


def mutated(text, rng):
    kind = rng.random()
    if kind < 0.1:
        return text[: rng.randrange(len(text))]
    if kind < 0.2:
        at = rng.randrange(len(text))
        return (
            text[:at]
            + rng.choice(["{", "[", '"', "\\", ",", "}", "\0", "inf", "1e999"])
            + text[at + rng.randrange(3) :]
        )
    whole = json.loads(text)
    for _ in range(rng.randrange(1, 4)):
        slots = places(whole, [])
        if not slots:
            break
        holder, key = rng.choice(slots)
        if kind < 0.7:
            holder[key] = copy.deepcopy(rng.choice(JUNK))
        elif kind < 0.85:
            del holder[key]
        else:
            other, name = rng.choice(slots)
            holder[key] = copy.deepcopy(other[name])
    return json.dumps(whole)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_mutated_files_raise_package_errors_only(text, seed):
    text = mutated(text, random.Random(seed))
    try:
        g = og.Graph.from_json(text)
    except og.OneGraphError:
        return
    og.check_graph(g)
    again = og.Graph.from_json(g.to_json())
    assert_same(g, again)
    assert again.to_json() == g.to_json()
    if g.ops:
        with suppress(og.UnsupportedError):  # names of another edition
            assert_library_reads(g, for_version="3.13")


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"\x08\x0a\x12\x07pytorch\x1a\x032.9", "a model of ONNX, which onegraph.onnx.load reads"),
        (b"\x08\x07:\x02\x0a\x00", "a model of ONNX, which onegraph.onnx.load reads"),
        (b"PK\x03\x04\x00\x00", "a zip archive, such as PyTorch's torch.save writes"),
        (b"\x80\x02\x8a\x0al", "a pickle, such as older versions of torch.save write"),
        (b"\x93NUMPY\x01\x00", "a numpy array"),
        (b"\x89HDF\r\n", "an HDF5 file, such as Keras writes"),
    ],
)
def test_names_the_format_of_a_model_of_others(start, what):
    with pytest.raises(og.FormatError) as caught:
        og.Graph.from_json(start)
    assert str(caught.value) == f"text: {what}; expected JSON in UTF-8"
