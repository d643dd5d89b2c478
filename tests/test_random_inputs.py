"""Random inputs in the domain of the ops that read them, and arrays in .npz files."""

import json
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.serialize.npz import read_inputs, write_arrays
from onegraph.testing.random_inputs import random_inputs


def graph(shape=(4, 8), dtype=og.f32):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", dtype, shape)))
    return g


# Domains --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("add", "holds"),
    [
        (lambda g, x: g.sqrt(x), lambda x: x.min() > 0),
        (lambda g, x: g.log(x), lambda x: x.min() > 0),
        (lambda g, x: g.reciprocal(x), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.pow(x, beta=-1), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.pow(x, beta=0.5), lambda x: x.min() > 0),
        (lambda g, x: g.pow(x, beta=2), lambda x: x.min() < 0),
        (lambda g, x: g.sqrt(g.static_reshape(x, shape=[-1], special_zero=False)), lambda x: x.min() > 0),
        (lambda g, x: g.divide(x, x), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.exp(x), lambda x: x.min() < 0 < x.max() <= 2),
        (lambda g, x: g.reduce_prod(x, axes=[0]), lambda x: abs(x).min() >= 0.9),
        (lambda g, x: g.elu_backward(x, x, alpha=0.5), lambda x: -0.5 < x.min() < 0),
        (lambda g, x: g.elu_backward(x, x, alpha=float("inf")), lambda x: -2 <= x.min() < x.max() <= 2),
        (lambda g, x: g.sigmoid_backward(x, x), lambda x: 0 < x.min() < x.max() < 1),
        (lambda g, x: g.add(g.sqrt(x), g.sigmoid_backward(x, x)), lambda x: 0.25 <= x.min() < x.max() < 1),
    ],
)
def test_the_ops_that_read_an_input_choose_its_domain(add, holds):
    g = og.Graph()
    g.output("y", add(g, g.input("x", og.f32, (50, 40))))
    assert holds(random_inputs(g)["x"])


def test_batch_norm_has_a_positive_variance():
    g = og.Graph()
    sizes = {"src": (2, 8, 8, 3), "gamma": (3,), "beta": (3,), "mean": (3,), "variance": (3,)}
    g.output("y", g.batch_norm_inference(*(g.input(name, og.f32, dims) for name, dims in sizes.items()), epsilon=0.001))
    inputs = random_inputs(g)
    assert inputs["variance"].min() > 0
    assert np.isfinite(og.reference.run(g, inputs)["y"]).all()


@pytest.mark.parametrize(
    ("edition", "kind", "shape"),
    [("onednn-3.13", "ReduceSum", (2,)), ("legacy-1", "DynamicTranspose", (4,)), ("legacy-1", "Index", (7,))],
)
def test_contents_that_shapes_hang_on_fit_the_graph(edition, kind, shape):
    g = og.Graph(edition)
    g.output("y", g.op(kind, [g.input("x", og.f32, (2, 3, 4, 5)), g.input("contents", og.s32, shape)]))
    assert np.isfinite(og.reference.run(g, random_inputs(g))["y"]).all()


def test_a_size_that_follows_from_nothing_is_asked_for():
    g = og.Graph()
    x, sizes = g.input("x", og.f32, (2, 3, 4, 5)), g.input("sizes", og.s32, (2,))
    g.output("y", g.interpolate(x, sizes, mode="nearest"))
    message = (
        r"input 'sizes': sizes of Interpolate 'interpolate_0' follows from nothing .*; give its contents \(--inputs\)"
    )
    with pytest.raises(og.ArgumentError, match=message):
        random_inputs(g)


def test_a_shape_tensor_follows_from_the_output_that_a_file_declares():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 5, 7, 2))
    weights = g.input("weights", og.f32, (3, 3, 4, 2))
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    g.output("y", g.convolution_backward_data(x, weights, g.input("dst_shape", og.s32, (4,)), **attrs))
    form = json.loads(g.to_json())
    output = form["graph"][0]["outputs"][0]
    output["shape"], output["stride"] = [1, 7, 9, 4], [252, 36, 4, 1]
    declared = og.Graph.from_json(json.dumps({"graph": form["graph"]}))
    inputs = list(random_inputs(declared).values())
    assert inputs[2].tolist() == [1, 7, 9, 4]


def test_the_class_of_data_types_takes_what_means_one():
    assert og.DataType("bf16") is og.DataType(ml_dtypes.bfloat16) is og.bf16
    with pytest.raises(og.ArgumentError, match="'fp32' is not a data type; did you mean 'f32'"):
        og.DataType("fp32")


@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16, og.s8, og.u8, og.s32, og.boolean])
def test_every_data_type_has_small_numbers_of_its_own(dtype):
    g = og.Graph()
    x = g.input("x", dtype, (300,))
    g.output("x_again", x)
    values = random_inputs(g)["x"]
    assert values.dtype == dtype.numpy
    assert len(np.unique(values.astype(np.float32))) > 1
    assert abs(values.astype(np.float32)).max() <= 100


def test_the_same_seed_gives_the_same_numbers_and_names_have_their_own():
    g = og.Graph()
    g.output("y", g.add(g.input("a", og.f32, (9,)), g.input("b", og.f32, (9,))))
    first, again, other = random_inputs(g, 1), random_inputs(g, 1), random_inputs(g, 2)
    assert all(np.array_equal(first[name], again[name]) for name in "ab")
    assert not np.array_equal(first["a"], other["a"])
    assert not np.array_equal(first["a"], first["b"])


def test_declared_strides_are_kept_and_memory_is_aligned():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (3, 4), strides=(1, 3))))
    values = random_inputs(g)["x"]
    assert values.strides == (4, 12)
    assert values.ctypes.data % 64 == 0
    g.compile().bind(x=values)  # which takes the declared layout alone


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((None, 4), r"input 'x': shape \[\?, 4\]; expected known dims"),
        ((2**20, 2**20, 2**10), "the tensors of the graph take .* GiB; expected no more than the memory"),
    ],
)
def test_what_cannot_be_made_is_refused(shape, message):
    with pytest.raises(og.ArgumentError, match=message):
        random_inputs(graph(shape))


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, lambda path, **arrays: write_arrays(path, arrays)])
def test_arrays_come_back(tmp_path, save):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    save(tmp_path / "x.npz", x=x)
    assert np.array_equal(read_inputs(tmp_path / "x.npz", graph())["x"], x)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_layouts_and_byte_orders_of_numpy_are_read(tmp_path, order, dtype):
    x = np.asarray(np.arange(32).reshape(4, 8), dtype=dtype, order=order)
    np.savez(tmp_path / "x.npz", x=x)
    found = read_inputs(tmp_path / "x.npz", graph())["x"]
    assert found.dtype == np.float32
    assert np.array_equal(found, x)


@pytest.mark.parametrize("view", [None, "u2"])
def test_bf16_is_read_as_numpy_stores_it_and_as_integers(tmp_path, view):
    x = np.arange(32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "x.npz", x=x if view is None else x.view(view))
    found = read_inputs(tmp_path / "x.npz", graph(dtype=og.bf16))["x"]
    assert found.dtype == ml_dtypes.bfloat16
    assert np.array_equal(found, x)


def test_bf16_is_written_as_integers_that_numpy_loads(tmp_path):
    x = np.float32([1, -2, 3]).astype(ml_dtypes.bfloat16)
    write_arrays(tmp_path / "y.npz", {"file": x, "a/b": np.float32(2)})
    with np.load(tmp_path / "y.npz", allow_pickle=False) as found:
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
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(og.FormatError, match=message):
        read_inputs(tmp_path / "x.npz", graph())


@pytest.mark.parametrize("content", [b"", b"\x00" * 99, b"PK\x03\x04", np.random.default_rng(0).bytes(5000)])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(og.FormatError, match=r"expected an archive as numpy\.savez writes it"):
        read_inputs(tmp_path / "x.npz", graph())


def test_a_damaged_archive_is_refused_wherever_it_is_damaged(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(32, dtype=np.float32).reshape(4, 8))
    whole = (tmp_path / "x.npz").read_bytes()
    for place in range(0, len(whole), 3):
        (tmp_path / "y.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            found = read_inputs(tmp_path / "y.npz", graph())["x"]
        except og.FormatError:
            continue
        assert found.shape == (4, 8)  # in parts that do not matter, such as dates


@pytest.mark.parametrize("shape", ["(1152921504606846975,)", "(True, 4)", "(-1, 4)"])
def test_an_array_that_claims_to_be_of_another_shape(shape, tmp_path):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 16)
    with pytest.raises(og.FormatError, match="x: "):
        read_inputs(tmp_path / "x.npz", graph((None,) * (shape.count(",") + (shape[-2] != ","))))


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 65532], ids=["NUL", "surrogate", "long"])
def test_names_that_no_archive_holds_are_refused(name, tmp_path):
    with pytest.raises(og.ArgumentError, match=r"array '.*: expected a name of at most 65531 bytes of UTF-8"):
        write_arrays(tmp_path / "y.npz", {"x": np.zeros(3), name: np.zeros(3)})
    assert list(tmp_path.iterdir()) == []
    write_arrays(tmp_path / "y.npz", {"n" * 65531: np.zeros(3)})
    with np.load(tmp_path / "y.npz") as found:
        assert found["n" * 65531].shape == (3,)


def test_files_that_cannot_be_read_or_written_are_refused(tmp_path):
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
def test_what_comes_in_the_midst_of_an_archive_is_not_taken_for_another_error(kind, tmp_path, monkeypatch):
    def fail(*_):
        raise kind

    monkeypatch.setattr(zipfile, "_get_compressor", fail)  # of a member, which its archive holds for open by then
    with pytest.raises(kind):
        write_arrays(tmp_path / "y.npz", {"x": np.zeros(3)})
    assert list(tmp_path.iterdir()) == []
