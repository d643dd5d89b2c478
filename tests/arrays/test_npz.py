"""Arrays in .npz files: what is read, written and refused."""

import pickle
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.serialize.npz import read_inputs, write_arrays


def graph(shape=(4, 8), dtype=og.f32):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", dtype, shape)))
    return g


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, lambda path, **arrays: write_arrays(path, arrays)])
def test_arrays_round_trip(tmp_path, save):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    save(tmp_path / "x.npz", x=x)
    assert np.array_equal(read_inputs(tmp_path / "x.npz", graph())["x"], x)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_reads_layouts_and_byte_orders_of_numpy(tmp_path, order, dtype):
    x = np.asarray(np.arange(32).reshape(4, 8), dtype=dtype, order=order)
    np.savez(tmp_path / "x.npz", x=x)
    found = read_inputs(tmp_path / "x.npz", graph())["x"]
    assert found.dtype == np.float32
    assert np.array_equal(found, x)


@pytest.mark.parametrize("view", [None, "u2"])
def test_reads_bf16_as_raw_bytes_or_integers(tmp_path, view):
    x = np.arange(32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "x.npz", x=x if view is None else x.view(view))
    found = read_inputs(tmp_path / "x.npz", graph(dtype=og.bf16))["x"]
    assert found.dtype == ml_dtypes.bfloat16
    assert np.array_equal(found, x)


@pytest.mark.parametrize("dtype", ["f4", "i1", "?", "f8"])
def test_writes_unpickled_arrays(dtype, tmp_path):
    """numpy does not mark the data type of an unpickled array as its own."""
    array = pickle.loads(pickle.dumps(np.array([0, 1, 1], dtype)))
    write_arrays(tmp_path / "x.npz", {"x": array})
    with np.load(tmp_path / "x.npz") as found:
        assert found["x"].dtype == array.dtype
        assert found["x"].tolist() == [0, 1, 1]


def test_writes_bf16_as_integers(tmp_path):
    x = np.float32([1, -2, 3]).astype(ml_dtypes.bfloat16)
    write_arrays(tmp_path / "y.npz", {"file": x, "a/b": np.float32(2)})
    with np.load(tmp_path / "y.npz", allow_pickle=False) as found:
        assert found["file"].dtype == np.uint16
        assert np.array_equal(found["file"].view(ml_dtypes.bfloat16), x)
        assert found["a/b"] == 2


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "x: missing; expected an array for each input"),
        ({"x": np.zeros((4, 8), np.float32), "z": np.zeros(1)}, "z: unknown input; expected one of x"),
        ({"x": np.zeros((4, 9), np.float32)}, r"x: shape \[4, 9\]; expected \[4, 8\]"),
        ({"x": np.zeros((4, 8))}, "x: data type float64; expected f32, numpy's float32"),
        ({"x": np.zeros((4, 8), np.int32)}, "x: data type int32; expected f32"),
        ({"x": np.zeros((4, 8), "V4")}, r"x: data type \|V4; expected f32"),
        ({"x": np.array([Trap()], object)}, "x: .*data type object.*; expected an array of numbers"),
    ],
)
def test_rejects_mismatching_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(og.FormatError, match=message):
        read_inputs(tmp_path / "x.npz", graph())


@pytest.mark.parametrize("content", [b"", b"\x00" * 99, b"PK\x03\x04", np.random.default_rng(0).bytes(5000)])
def test_rejects_files_that_are_not_archives(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(og.FormatError, match=r"expected an archive as numpy\.savez writes it"):
        read_inputs(tmp_path / "x.npz", graph())


def test_rejects_damage_anywhere_in_the_archive(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(32, dtype=np.float32).reshape(4, 8))
    whole = (tmp_path / "x.npz").read_bytes()
    for place in range(0, len(whole), 3):
        (tmp_path / "y.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            found = read_inputs(tmp_path / "y.npz", graph())["x"]
        except og.FormatError:
            continue
        assert found.shape == (4, 8)  # damage to irrelevant parts, such as dates


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("(1152921504606846975,)", "16 bytes; expected 4611686018427387900"),
        ("(True, 4)", r"shape \(True, 4\)'; expected an array of numbers"),
        ("(-1, 4)", r"shape \(-1, 4\)'; expected an array of numbers"),
    ],
)
def test_rejects_a_false_shape_in_the_header(shape, said, tmp_path):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 16)
    with pytest.raises(og.FormatError, match=f"x: .*{said}"):
        read_inputs(tmp_path / "x.npz", graph((None,) * (shape.count(",") + (shape[-2] != ","))))


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 65532], ids=["NUL", "surrogate", "long"])
def test_rejects_names_that_archives_cannot_hold(name, tmp_path):
    with pytest.raises(og.ArgumentError, match=r"array '.*: expected a name of at most 65531 bytes of UTF-8"):
        write_arrays(tmp_path / "y.npz", {"x": np.zeros(3), name: np.zeros(3)})
    assert list(tmp_path.iterdir()) == []
    write_arrays(tmp_path / "y.npz", {"n" * 65531: np.zeros(3)})
    with np.load(tmp_path / "y.npz") as found:
        assert found["n" * 65531].shape == (3,)


def test_rejects_unreadable_and_unwritable_files(tmp_path):
    with pytest.raises(og.FormatError, match="No such file"):
        read_inputs(tmp_path / "none.npz", graph())
    with pytest.raises(og.FormatError, match="not a regular file"):
        read_inputs(tmp_path, graph())
    with pytest.raises(og.FormatError, match="expected a path that can be written"):
        write_arrays(tmp_path / "none" / "y.npz", {})
    with pytest.raises(og.FormatError, match="expected a path that can be written"):
        write_arrays(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_memory_error_and_interrupt_pass_through(kind, tmp_path, monkeypatch):
    def fail(*_):
        raise kind

    monkeypatch.setattr(zipfile, "_get_compressor", fail)  # fails while the archive has an open member
    with pytest.raises(kind):
        write_arrays(tmp_path / "y.npz", {"x": np.zeros(3)})
    assert list(tmp_path.iterdir()) == []


def test_rejects_an_array_that_is_stored_twice(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    write_arrays(first, {"x": np.zeros((2, 3), np.float32)})
    with zipfile.ZipFile(first) as archive, zipfile.ZipFile(second, "w") as other:
        other.writestr("x.npy", archive.read("x.npy"))
        with pytest.warns(UserWarning, match="Duplicate name"):
            other.writestr("x.npy", archive.read("x.npy"))
    with pytest.raises(og.FormatError, match=r"b\.npz: x: stored twice; expected one array of each name"):
        read_inputs(second, graph())


def test_saves_an_unpickled_graph(tmp_path):
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", og.f32, (2, 3)), g.constant(np.eye(3, dtype=np.float32))))
    pickle.loads(pickle.dumps(g)).save(tmp_path / "g.json")
    (weights,) = [tensor.value for tensor in og.Graph.load(tmp_path / "g.json")._tensors if tensor.constant]
    assert np.array_equal(weights, np.eye(3))
