"""Packed weights of GGUF files against the package gguf, whose numbers are the oracle."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph import reference

gguf = pytest.importorskip("gguf")
import onegraph.gguf  # noqa: E402

TYPES = gguf.GGMLQuantizationType
# The packed formats, with the places of the scales of a block; zero points of the second kind are rounded.
EXACT = {"Q4_0": [0], "Q8_0": [0], "Q6_K": [208], "Q5_0": [0], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0]}
MOVED = {"Q4_K": [0, 2], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q5_K": [0, 2], "Q2_K": [80, 82]}
PACKED = EXACT | MOVED


def blocks_of(kind, columns, depth, seed=0):
    """Random bytes of a format (columns, bytes of a column), whose scales are small numbers."""
    numbers, nbytes = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (columns * (depth // numbers), nbytes)).astype(np.uint8)
    for place in PACKED[kind]:
        scales = rng.uniform(-0.02, 0.02, len(data)).astype(np.float16)
        data[:, place : place + 2] = scales[:, None].view(np.uint8)
    return data.reshape(columns, -1)


def written(path, tensors):
    """A file of tensors: arrays, or bytes with the name of their format."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=None if kind is None else TYPES[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return onegraph.gguf.load_weights(path)


@pytest.mark.parametrize("kind", PACKED)
def test_numbers_are_those_of_the_file(kind, tmp_path):
    data = blocks_of(kind, 24, 512)
    weights = written(tmp_path / "x.gguf", {"w": (data, kind)})
    wanted = gguf.dequantize(data, TYPES[kind])
    assert (weights.formats(), len(weights), [*weights]) == ({"w": kind}, 1, ["w"])
    found = weights["w"]
    assert (found.name, found.format, found.shape) == ("w", kind, (24, 512))
    group = 16 if kind in ("Q2_K", "Q3_K", "Q6_K") else 32
    # A code takes 4 or 8 bits, and a scale or zero point those of f32.
    nbytes = 24 * 512 * {"u4": 4, "s8": 8, "u8": 8}[found.coding] // 8 + (1 + (kind in MOVED)) * 24 * 512 // group * 4
    assert (found.group, found.nbytes) == (group, nbytes)
    limit = 1e-6 * np.abs(wanted).max() if kind in MOVED else 0
    np.testing.assert_allclose(found.numbers(), wanted, rtol=0, atol=limit)


def test_groups_without_a_scale_keep_their_number(tmp_path):
    data = blocks_of("Q4_K", 2, 256)
    data[:, 4:12] &= 0xC0  # the first four groups have no scale, and the minima of the others stay
    data[:, 8:12] |= 5
    wanted = gguf.dequantize(data, TYPES.Q4_K)
    assert np.unique(wanted[0, :32]).size == 1
    found = written(tmp_path / "x.gguf", {"w": (data, "Q4_K")})["w"].numbers()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.library
@pytest.mark.parametrize("kind", PACKED)
def test_graphs_read_packed_weights(kind, tmp_path):
    data = blocks_of(kind, 40, 256)
    weights, numbers = written(tmp_path / "x.gguf", {"w": (data, kind)})["w"], gguf.dequantize(data, TYPES[kind])
    g = og.Graph()
    x, places = g.input("x", og.f32, (3, 256)), g.input("places", og.s32, (2,))
    g.output("y", weights.matmul(g, x))
    g.output("rows", weights.gather(g, places))
    model = g.compile()
    given = {"x": np.random.default_rng(1).standard_normal((3, 256), np.float32), "places": np.int32([7, 39])}
    exact = given["x"].astype(np.float64) @ numbers.T.astype(np.float64)
    for found in (model(**given), reference.run(g, given).values()):
        product, rows = found
        np.testing.assert_allclose(product, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
        np.testing.assert_allclose(rows, numbers[[7, 39]], rtol=0, atol=1e-6 * np.abs(numbers).max())
    assert "PackedMatMul" in [kind for part in model.report().partitions for kind in part.kinds]


def test_plain_tensors_are_arrays(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float16([[1.5, -2]])}
    halves = gguf.quantize(np.float32([[1, 2.5]]), TYPES.BF16)
    tensors = {name: (array, None) for name, array in arrays.items()} | {"c": (halves, "BF16")}
    weights = written(tmp_path / "x.gguf", tensors)
    assert [*weights] == ["a", "b", "c"]
    for name, wanted in arrays.items():
        np.testing.assert_array_equal(weights[name], wanted)
        assert weights[name].dtype == wanted.dtype
        assert weights[name].flags.writeable  # a copy of what the file contains
    assert weights["c"].astype(np.float32).tolist() == [[1, 2.5]]


def test_a_name_may_be_empty(tmp_path):
    assert written(tmp_path / "x.gguf", {"": (np.ones(3, np.float32), None)})[""].tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["IQ2_XXS", "IQ3_S", "TQ1_0", "MXFP4"])
def test_other_formats_are_named(kind, tmp_path):
    numbers, nbytes = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    data = np.zeros((2, 256 // numbers * nbytes), np.uint8)
    weights = written(tmp_path / "x.gguf", {"w": (data, kind), "v": (np.ones(3, np.float32), None)})
    with pytest.raises(og.UnsupportedError, match=f"tensor 'w': format {kind}; expected one of F32"):
        weights["w"]
    assert weights["v"].tolist() == [1, 1, 1]
    with pytest.raises(KeyError):
        weights["x"]


def test_malformed_files_are_refused(tmp_path):
    data = blocks_of("Q8_0", 2, 64)
    data[1, 34:36] = np.array([np.nan], np.float16).view(np.uint8)
    whole = tmp_path / "x.gguf"
    weights = written(whole, {"w": (data, "Q8_0")})
    with pytest.raises(og.FormatError, match="tensor 'w': a scale that is NaN"):
        weights["w"]
    for name, text in (("other", b"GGUF"), ("short", whole.read_bytes()[:90])):
        path = tmp_path / name
        path.write_bytes(text)
        with pytest.raises(og.FormatError, match="expected a GGUF file"):
            onegraph.gguf.load_weights(path)
    with pytest.raises(og.FormatError, match="expected a file that can be read"):
        onegraph.gguf.load_weights(tmp_path / "none")
    with pytest.raises(og.ArgumentError, match="path"):
        onegraph.gguf.load_weights(3)


def test_bytes_that_a_file_lacks_are_no_numbers(tmp_path):
    """The package reads an array of metadata element by element, also behind the end of the file."""
    writer, path = gguf.GGUFWriter(tmp_path / "x.gguf", "llama"), tmp_path / "x.gguf"
    writer.add_array("numbers", [1, 2])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    data = bytearray(path.read_bytes())
    place = data.index(b"numbers") + len("numbers") + 8  # behind the types of the value and its elements
    data[place : place + 8] = (1 << 21).to_bytes(8, "little")
    path.write_bytes(data)
    told = f"bytes {len(data)} to {len(data) + 4} of a file of {len(data)}; expected a GGUF file"
    with pytest.raises(og.FormatError, match=told):
        onegraph.gguf.load_weights(path)


@pytest.mark.parametrize("data", [blocks_of("Q8_0", 1, 256)[:0], blocks_of("Q8_0", 6, 64).reshape(2, 3, -1)], ids=str)
def test_other_shapes_than_matrices_are_refused(data, tmp_path):
    with pytest.raises(og.UnsupportedError, match="expected a matrix of packed weights"):
        written(tmp_path / "x.gguf", {"w": (data, "Q8_0")})["w"]


@pytest.mark.parametrize(("depth", "group"), [(32, 0), (64, 32)])
def test_one_group_of_a_column_is_no_group(depth, group, tmp_path):
    weights = written(tmp_path / "x.gguf", {"w": (blocks_of("Q8_0", 3, depth), "Q8_0")})["w"]
    graph = og.Graph()
    weights.matmul(graph, graph.input("x", og.f32, (2, depth)))
    assert graph.ops[-1].attrs["group"] == group


def test_a_minimum_that_is_no_number_is_refused(tmp_path):
    data = blocks_of("Q4_1", 2, 64)
    data[1, 2:4] = np.array([np.nan], np.float16).view(np.uint8)
    with pytest.raises(og.FormatError, match="a scale that is NaN"):
        written(tmp_path / "x.gguf", {"w": (data, "Q4_1")})["w"]


@pytest.mark.parametrize(
    ("shape", "text"), [((2, 33), "rows of 33 bytes"), ((2, 34), "numbers of shape"), ((2, 68), "")]
)
def test_bytes_of_other_blocks_are_refused(shape, text):
    tensor = SimpleNamespace(name="w", tensor_type=TYPES.Q8_0, shape=[64, 2], data=np.zeros(shape, np.uint8))
    weights = onegraph.gguf.Weights(SimpleNamespace(tensors=[tensor]))
    if not text:
        assert weights["w"].shape == (2, 64)
        return
    with pytest.raises(og.FormatError, match=text):
        weights["w"]
