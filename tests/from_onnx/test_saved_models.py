"""Executables in folders and pickles: constants are shared, and changed files are refused."""

import json
import pickle
import subprocess
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.arrays.mapped_files import file_of
from onegraph.runtime import writer_version
from tests.conftest import SANITIZED

pytestmark = pytest.mark.library
W = np.arange(-40, 40, dtype=np.float32).reshape(8, 10) / 16
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


def graph(dtype=og.f32):
    g = og.Graph()
    x = g.input("x", dtype, (None, 8))
    y = g.matmul(x, g.constant(W.astype(dtype.numpy), name="w"))
    g.output("y", g.relu(y))
    return g


def constants(model):
    return [tensor.value for tensor in model._interface.graph._tensors if tensor.value is not None]


def test_loaded_model_computes_the_same(tmp_path):
    model = graph().compile(threads=1, fpmath_mode="bf16")
    model.cache_capacity = 3
    model.save(tmp_path / "model")
    again = og.load(tmp_path / "model")
    np.testing.assert_array_equal(again(X), model(X))
    np.testing.assert_allclose(again(X), np.maximum(X @ W, 0), rtol=2e-2, atol=2e-2)
    assert again._programs.options == model._programs.options
    assert again.cache_capacity == 3


@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16], ids=str)
def test_constants_lie_aligned_in_the_file(tmp_path, dtype):
    graph(dtype).compile().save(tmp_path)
    (array,) = constants(og.load(tmp_path))
    assert file_of(array) is not None
    assert array.ctypes.data % 64 == 0
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, W.astype(dtype.numpy))


def test_report_counts_what_is_mapped(tmp_path):
    model = graph().compile()
    model.save(tmp_path)
    assert model.report().memory["own"] == W.nbytes
    found = og.load(tmp_path).report().memory
    assert (found["mapped"], found["own"]) == (W.nbytes, 0)


def test_numpy_reads_the_file_of_constants(tmp_path):
    graph().compile().save(tmp_path)
    with np.load(tmp_path / "graph.npz") as archive:
        (name,) = archive.files
        np.testing.assert_array_equal(archive[name], W)


def test_load_takes_the_file_of_a_graph(tmp_path):
    graph().save(tmp_path / "g.json")
    loaded = og.load(tmp_path / "g.json")
    assert type(loaded) is og.Graph
    np.testing.assert_array_equal(loaded.compile()(X), graph().compile()(X))


def test_load_takes_the_wanted_kind_alone(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2,))))
    folder, file = tmp_path / "model", tmp_path / "graph.json"
    g.compile().save(folder)
    g.save(file)
    assert isinstance(og.load(folder, og.Executable), og.Executable)
    assert isinstance(og.load(file, og.Graph), og.Graph)
    with pytest.raises(og.ArgumentError, match=r"model' is a folder; expected the JSON file of a graph"):
        og.load(folder, og.Graph)
    with pytest.raises(og.ArgumentError, match=r"graph.json' is no folder; expected the folder of a saved executable"):
        og.load(file, kind=og.Executable)
    for kind in (int, "graph", g):
        with pytest.raises(og.ArgumentError, match=r"^kind: .*; expected onegraph.Executable or onegraph.Graph"):
            og.load(file, kind)


def test_variables_are_saved_with_their_present_values(tmp_path):
    g = og.Graph()
    total = g.variable("total", np.zeros(3, np.float32))
    g.assign(total, total + g.input("x", og.f32, (3,)))
    g.output("old", total)
    model = g.compile()
    model(np.float32([1, 2, 3]))
    model.save(tmp_path)
    again = og.load(tmp_path)
    again(np.float32([1, 1, 1]))
    assert again.variables["total"].tolist() == [2, 3, 4]
    assert og.load(tmp_path).variables["total"].tolist() == [1, 2, 3]


def test_threads_by_partition_are_kept(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    g.compile(threads={0: 1}).save(tmp_path)
    assert og.load(tmp_path)._programs.options.threads == {0: 1}


def test_model_without_constants(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    g.compile().save(tmp_path)
    assert og.load(tmp_path)(np.float32([-1, 0, 1, 2])).tolist() == [0, 0, 1, 2]


def test_saving_again_leaves_loaded_models_alone(tmp_path):
    graph().compile().save(tmp_path)
    first = og.load(tmp_path)
    g = og.Graph()
    g.output("y", g.input("x", og.f32, (8, 10)) + g.constant(W * 2))
    g.compile().save(tmp_path)
    np.testing.assert_array_equal(constants(first)[0], W)
    np.testing.assert_array_equal(constants(og.load(tmp_path))[0], W * 2)


# Files that are not as they were saved --------------------------------------------------------------------------------


def cut(name, keep):
    def damage(folder):
        place = folder / name
        place.write_bytes(place.read_bytes()[:keep])

    return damage


def flip(name, at):
    def damage(folder):
        contents = bytearray((folder / name).read_bytes())
        contents[at] ^= 1
        (folder / name).write_bytes(contents)

    return damage


def other_constants(folder):
    other = folder / "other"
    g = og.Graph()
    g.output("y", g.relu(g.matmul(g.input("x", og.f32, (None, 8)), g.constant(W + 1, name="w"))))
    g.compile().save(other)
    (other / "graph.npz").replace(folder / "graph.npz")


def edited(key, value):
    def damage(folder):
        whole = json.loads((folder / "model.json").read_text())
        place = whole
        for word in key[:-1]:
            place = place[word]
        place[key[-1]] = value
        (folder / "model.json").write_text(json.dumps(whole))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("graph.npz", 200), "graph.npz"),
        (cut("graph.npz", 0), "graph.npz"),
        (cut("graph.json", 100), "graph.json: other contents"),
        (cut("model.json", 20), "model.json"),
        (flip("graph.npz", 300), r"graph\.npz: t1: .*(CRC|other bytes)"),
        (flip("graph.json", 30), "graph.json: other contents"),
        (other_constants, "graph.npz: other contents; expected the file that was saved together with model.json"),
        (lambda folder: (folder / "graph.npz").unlink(), "graph.npz: No such file"),
        (lambda folder: (folder / "model.json").unlink(), "model.json: No such file"),
        (edited(["form"], 2), r"model.json: form: 2; expected at most 1; onegraph \S+ wrote this, install it"),
        (edited(["settings", "policy"], "fast"), "model.json: settings: policy: 'fast'"),
        (edited(["settings", "threads"], {"x": 1}), "model.json: settings: threads"),
        (edited(["settings", "cache_capacity"], 0), "cache_capacity"),
        (edited(["settings", "as_read"], "yes"), "as_read: 'yes'"),
        (edited(["settings", "roundings"], "x"), "model.json: settings: roundings: 'x'"),
        (edited(["settings", "roundings"], [1]), "model.json: settings: roundings: "),
        (edited(["settings", "cache_capacity"], 2**31), "model.json: settings: cache_capacity: 2147483648"),
        (edited(["settings"], 3), "model.json: settings"),
        (edited(["checksums"], {}), "checksums"),
    ],
)
def test_damaged_folder_is_refused(tmp_path, damage, message):
    graph().compile().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(og.FormatError, match=message):
        og.load(tmp_path)


def test_truncated_array_is_refused(tmp_path):
    """The archive is whole, and one array in it has a byte less than its header says."""
    graph().compile().save(tmp_path)
    with zipfile.ZipFile(tmp_path / "graph.npz") as archive:
        (name,) = archive.namelist()
        contents = archive.read(name)
    with zipfile.ZipFile(tmp_path / "graph.npz", "w") as archive:
        archive.writestr(name, contents[:-1])
        crc = archive.getinfo(name).CRC
    from onegraph.serialize.npz import contents_of

    with zipfile.ZipFile(tmp_path / "graph.npz") as archive:
        edited(["checksums", "graph.npz"], contents_of(archive))(tmp_path)
    assert crc
    with pytest.raises(og.FormatError, match=rf"{W.nbytes - 1} bytes; expected {W.nbytes}"):
        og.load(tmp_path)


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(og.FormatError, match="missing"):
        og.load(tmp_path / "missing")
    with pytest.raises(og.FormatError, match=r"model\.json"):
        og.load(tmp_path)
    with pytest.raises(og.ArgumentError, match="expected the path of a graph file"):
        og.load(3)


def test_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(og.FormatError, match="file"):
        graph().compile().save(tmp_path / "file")


# Pickles --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [og.f32, og.bf16], ids=str)
def test_constants_are_out_of_band(dtype):
    model, buffers = graph(dtype).compile(), []
    text = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == W.astype(dtype.numpy).nbytes
    assert len(text) < 2000
    again = pickle.loads(text, buffers=buffers)
    assert np.shares_memory(constants(again)[0], constants(model)[0])
    x = X.astype(dtype.numpy)
    np.testing.assert_array_equal(again(x), model(x))


def test_buffers_may_lie_anywhere():
    """The library needs aligned memory, and gets a copy if a buffer is not."""
    model, buffers = graph().compile(), []
    text = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    moved = memoryview(b"12345" + buffers[0].raw().tobytes())[5:]
    np.testing.assert_array_equal(pickle.loads(text, buffers=[moved])(X), model(X))


def test_pickle_of_another_version_is_refused(monkeypatch):
    text = pickle.dumps(graph().compile())
    monkeypatch.setattr(writer_version, "__version__", "0.0.1")
    with pytest.raises(og.FormatError, match=r"written by onegraph \S+, and read by onegraph 0.0.1"):
        pickle.loads(text)


# Other processors -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(SANITIZED, reason="starts Python processes without the sanitizer")
def test_model_is_compiled_for_the_processor_that_loads(tmp_path):
    """A process whose library may use AVX2 alone computes the same numbers from the folder and from the pickle."""
    model = graph(og.bf16).compile()
    model.save(tmp_path / "model")
    (tmp_path / "pickle").write_bytes(pickle.dumps(model))
    code = f"""
import pickle, numpy as np, ml_dtypes, onegraph as og
x = np.load({str(tmp_path / "x.npy")!r}).view(ml_dtypes.bfloat16)
for model in (og.load({str(tmp_path / "model")!r}), pickle.load(open({str(tmp_path / "pickle")!r}, "rb"))):
    print(model(x).astype(np.float32).tolist())
"""
    x = X.astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x.view(np.uint16))
    command = ["env", "ONEDNN_MAX_CPU_ISA=AVX2", sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = np.maximum(x.astype(np.float32) @ W.astype(ml_dtypes.bfloat16).astype(np.float32), 0)
    assert len(found) == 2
    for line in found:
        np.testing.assert_allclose(json.loads(line), wanted, rtol=1e-2, atol=1e-2)
