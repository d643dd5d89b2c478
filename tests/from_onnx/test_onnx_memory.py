"""The memory of models with large weights: mapped from the file, and given back once the library has its own copy."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import onegraph as og

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.arrays.mapped_files import LEAST_BYTES, file_of  # noqa: E402
from onegraph.frontends.onnx.wire import cut  # noqa: E402

RNG = np.random.default_rng(1)
X = RNG.standard_normal((1, 16, 8, 8), np.float32)
KERNEL = RNG.standard_normal((128, 16, 3, 3), np.float32)
PRODUCT = RNG.standard_normal((128, 256), np.float32)
ROWS = RNG.standard_normal((512, 256), np.float32)
pytestmark = pytest.mark.library


def saved(folder, shift=0):
    """A model that reads large weights in a convolution, a product, a sum, a transposed product and a Gather."""
    weights = {"kernel": KERNEL, "product": PRODUCT, "rows": ROWS}
    assert all(array.nbytes >= LEAST_BYTES for array in weights.values())
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "kernel"], ["image"]),
        node("GlobalAveragePool", ["image"], ["mean"]),
        node("Flatten", ["mean"], ["row"]),
        node("MatMul", ["row", "product"], ["short"]),
        node("Add", ["short", "rows"], ["all"]),
        node("Gemm", ["all", "rows"], ["scores"], transB=1),
        node("Gather", ["rows", "index"], ["found"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, X.shape), info("index", TensorProto.INT64, (3,))]
    outputs = [info("scores", TensorProto.FLOAT, (512, 512)), info("found", TensorProto.FLOAT, (3, 256))]
    made = helper.make_graph(nodes, "g" * (1 + shift), inputs, outputs, [*map(named, weights.items())])
    path = folder / "m.onnx"
    # The name comes first in the file, so its length moves the weights.
    path.write_bytes(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    return path


def named(item):
    return numpy_helper.from_array(item[1], item[0])


INDEX = np.array([3, 0, 511])


def expected():
    windows = np.lib.stride_tricks.sliding_window_view(X[0].astype(np.float64), (3, 3), (1, 2))
    row = np.einsum("cyxkl,ockl->oyx", windows, KERNEL).mean((1, 2))
    scores = (row @ PRODUCT + ROWS) @ ROWS.T.astype(np.float64)
    return scores, ROWS[INDEX]


def large_constants(graph):
    found = {id(one): one.value for op in graph.ops for one in op.inputs if one is not None and one.constant}
    return [array for array in found.values() if array.nbytes >= LEAST_BYTES]


@pytest.mark.parametrize("shift", range(4))
def test_weights_at_any_place_of_the_file_give_the_same_numbers(shift, tmp_path):
    graph = onegraph.onnx.load(path := saved(tmp_path, shift))
    assert [file_of(array).path for array in large_constants(graph)] == [str(path)] * 3
    model = graph.compile()
    for _ in range(2):  # the pages were given back after the first run
        scores, found = model(x=X, index=INDEX)
        np.testing.assert_allclose(scores, expected()[0], rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(found, expected()[1])


@pytest.mark.parametrize(("axis", "places"), [(0, [[3, -1]]), (1, 2), (-1, [4, 0]), (1, [])])
def test_rows_are_gathered_from_any_place_of_a_file(axis, places, tmp_path):
    table = np.arange(2 * 4 * 6000, dtype=np.float32).reshape(4, 2400, 5) if axis else ROWS
    nodes = [helper.make_node("Gather", ["table", "places"], ["y"], axis=axis)]
    index = helper.make_tensor_value_info("places", TensorProto.INT64, np.shape(places))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [index], [result], [numpy_helper.from_array(table, "table")])
    )
    for shift in range(4):
        proto.doc_string = " " * shift
        onnx.save(proto, tmp_path / f"{shift}.onnx")
        model = onegraph.onnx.load(tmp_path / f"{shift}.onnx").compile()
        given = np.array(places, np.int64)
        np.testing.assert_array_equal(model(places=given), np.take(table, given, axis=axis))
        constants = model._programs.only_program().placement.constants.values()
        assert [file_of(one) is not None for one in constants if one.nbytes >= LEAST_BYTES] == [True]
        if given.size:
            for place in (9999, -9999):
                with pytest.raises(og.ArgumentError, match=rf"Gather .*index {place} .*is out of (bounds|range)"):
                    model(places=np.full_like(given, place))


def resident(path):
    """The bytes of a file that are in the memory of this process."""
    found, name = 0, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            name = line.split()[-1]
        elif line.startswith("Rss:") and name == str(path):
            found += int(line.split()[1]) * 1024
    return found


def packed_product(path, shift=0):
    """A file with a product by codes of 4 bits, and the codes and scales; the number of rows is open."""
    depth = columns = 1024
    weights = {
        "codes": RNG.integers(0, 256, (columns, depth // 32, 16), np.uint8),
        "scales": RNG.standard_normal((columns, depth // 32), np.float32),
    }
    assert all(array.nbytes >= LEAST_BYTES for array in weights.values())
    attrs = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", **attrs)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("rows", depth)) for name in "xy"]
    made = helper.make_graph([node], "g" * (1 + shift), ends[:1], ends[1:], [*map(named, weights.items())])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(made, opset_imports=opsets), path)
    return weights


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a mapping as Linux states it")
def test_weights_that_kernels_read_in_each_run_stay(tmp_path):
    weights = packed_product(path := tmp_path / "m.onnx")
    model = onegraph.onnx.load(path).compile()
    for rows in (1, 2, 3):
        model(np.ones((rows, 1024), np.float32))
        assert resident(path) >= weights["codes"].nbytes


def test_packed_weights_are_read_where_they_lie(tmp_path):
    copied = 0
    for shift in range(4):  # codes may begin at any byte, and scales at each fourth one
        packed_product(path := tmp_path / f"{shift}.onnx", shift)
        model = onegraph.onnx.load(path, shapes={"x": (1, 1024)}).compile()
        model(np.ones((1, 1024), np.float32))
        constants = model._programs.only_program().placement.constants.values()
        copied += sum(file_of(one) is None for one in constants if one.nbytes >= LEAST_BYTES)
    assert copied == 3


def test_bytes_are_copied(tmp_path):
    data = bytearray(saved(tmp_path).read_bytes())
    graph = onegraph.onnx.load(data)
    data[:] = bytes(len(data))
    assert not any(file_of(array) for array in large_constants(graph))
    np.testing.assert_allclose(graph.compile()(x=X, index=INDEX)[0], expected()[0], rtol=1e-4, atol=1e-3)


def test_a_file_may_be_deleted_or_replaced(tmp_path):
    graph = onegraph.onnx.load(path := saved(tmp_path))
    (tmp_path / "other").write_bytes(b"another file")
    os.replace(tmp_path / "other", path)
    np.testing.assert_allclose(graph.compile()(x=X, index=INDEX)[0], expected()[0], rtol=1e-4, atol=1e-3)


def test_a_file_that_was_cut_is_refused(tmp_path):
    graph = onegraph.onnx.load(path := saved(tmp_path))
    os.truncate(path, 5000)
    with pytest.raises(og.FormatError, match=r"m\.onnx: a file that became shorter"):
        graph.compile()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux states it")
def test_peak_memory_has_the_weights_once(tmp_path):
    layers, size = 16, 1024
    names = [f"w{number}" for number in range(layers)]
    ends = ["x", *(f"y{number}" for number in range(layers))]
    nodes = []
    for number, name in enumerate(names):
        nodes.append(helper.make_node("MatMul", [ends[number], name], [f"p{number}"]))
        # The library has no fusion with a Sin, so each product is a partition of its own.
        nodes.append(helper.make_node("Sin", [f"p{number}"], [ends[number + 1]]))
    info = helper.make_tensor_value_info
    weights = [named((name, RNG.standard_normal((size, size), np.float32))) for name in names]
    shape = TensorProto.FLOAT, (64, size)
    made = helper.make_graph(nodes, "g", [info("x", *shape)], [info(ends[-1], *shape)], weights)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    code = f"""
        import numpy as np, onegraph.onnx
        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
        small = onegraph.Graph()
        x = small.input("x", onegraph.f32, (64, {size}))
        small.output("y", small.matmul(x, small.constant(np.ones(({size}, 8), np.float32))))
        small.compile()(np.zeros((64, {size}), np.float32))
        before = peak()
        model = onegraph.onnx.load({str(path)!r}).compile()
        for _ in range(2):
            model(np.zeros((64, {size}), np.float32))
        print(peak() - before)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=300
    )
    megabytes = layers * size * size * 4 / 2**20
    assert float(found.stdout) < 1.4 * megabytes  # 2 and more with the numbers of the file in memory


def model_with(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


def in_branches(depth, **constant):
    """A graph in a branch in a branch, which has a large tensor as an initializer or as an attribute."""
    tensor = numpy_helper.from_array(np.ones(2048, np.float32), "w")
    nodes = [helper.make_node("Constant", [], ["y"], value=tensor)] if constant else []
    graph = helper.make_graph(nodes, "g", [], [], [] if constant else [tensor])
    for _ in range(depth):
        graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=graph)], "g", [], [])
    return memoryview(model_with(graph))


def test_messages_of_any_length_are_cut():
    for length in range(60, 110):  # the number of bytes of a tensor without its contents has one byte, and then two
        tensor = numpy_helper.from_array(np.ones(2048, np.float32), "w" * length)
        pieces = cut(memoryview(model_with(helper.make_graph([], "g", [], [], [tensor]))))
        (found,) = onnx.ModelProto.FromString(pieces.structure).graph.initializer
        assert (found.name, [size for _, size in pieces.chunks]) == ("w" * length, [8192])
        assert pieces.chunk(found.raw_data) == pieces.chunks[0]
        assert pieces.chunk(b"") is None


def test_messages_deep_in_others_stay():
    assert len(cut(in_branches(20, is_constant=True)).chunks) == 1
    assert not cut(in_branches(21)).chunks


@pytest.mark.parametrize(("bytes_of_number", "count"), [(9, 1), (10, 1), (11, 0)])
def test_numbers_have_ten_bytes_at_most(bytes_of_number, count):
    number = b"\x08" + b"\xff" * (bytes_of_number - 1) + b"\x01"
    assert len(cut(memoryview(number + bytes(in_branches(0)))).chunks) == count


def test_large_texts_of_nodes_stay():
    graph = helper.make_graph([helper.make_node("X", [], ["y"], words=[b"a" * 5000], word="b" * 5000)], "g", [], [])
    data = model_with(graph)
    assert cut(memoryview(data)).structure == data


@pytest.mark.parametrize(
    ("dims", "text"), [([2**46 + 1], "a tensor that fits into memory"), ([2**46], "bytes"), ([2**25, 2**21], "bytes")]
)
def test_more_elements_than_memory_has_are_refused(dims, text):
    tensor = TensorProto(name="w", dims=dims, data_type=TensorProto.UINT8, raw_data=b"1")
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(helper.make_model(helper.make_graph([], "g", [], [], [tensor])))
