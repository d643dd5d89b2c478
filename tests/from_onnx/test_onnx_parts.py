"""Parts of the front end for ONNX on both sides of their conditions."""

from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx
from onegraph.arrays.packed_codes import packed
from onegraph.frontends.onnx.deferred import _agreed, _coded, _tensor_type
from onegraph.frontends.onnx.packed_nodes import PART, Codes, PackedNodes, _attributes, turned
from onegraph.frontends.onnx.precision import _constant, _exact, _pools_images
from onegraph.frontends.onnx.save import Exporter
from onegraph.frontends.onnx.saving.files import _externally, _length
from onegraph.frontends.onnx.saving.quantization import has_wide_zero_points
from onegraph.frontends.onnx.tables import selection
from onegraph.frontends.onnx.tables.indexing import _box
from onegraph.frontends.onnx.tables.packed import _table_form
from onegraph.ir.op import schema_of
from onegraph.lowering.emitter import NotLowered
from onegraph.opset.editions.registry import HOST
from onegraph.opset.schema import Call

F32 = np.float32
NO_AXES = {"noop_with_empty_axes": 1}
FLOAT, HALF, INT8, INT4, UINT4 = (getattr(TensorProto, name) for name in ("FLOAT", "FLOAT16", "INT8", "INT4", "UINT4"))


@pytest.mark.parametrize("shape", [(2, 2), (6, 4), (4, 2 * PART + 6)])
def test_codes_of_columns_become_codes_of_rows(shape):
    codes = np.random.default_rng(0).integers(0, 16, shape).astype(np.uint8)
    rows = packed(codes, 4)[:, : shape[1] // 2]
    assert np.array_equal(turned(rows), packed(np.ascontiguousarray(codes.T), 4)[:, : shape[0] // 2])


def proto(kind, *dims):
    return TensorProto(name="t", data_type=kind, dims=dims)


# Dims of codes and of scales, the axis and size of blocks, and whether the codes fit products along each axis.
FITTING = [
    ((32, 4), (), 1, 0, (True, True)),
    ((32, 4), (1,), 0, 0, (True, True)),
    ((32, 4), (4,), 1, 0, (True, False)),
    ((32, 4), (32,), 0, 0, (False, True)),
    ((32, 4), (2,), 1, 0, (False, False)),
    ((32, 3), (), 1, 0, (False, False)),
    ((31, 4), (), 1, 0, (False, True)),
    ((0, 4), (), 1, 0, (False, False)),
    ((32, 4), (2, 4), 0, 16, (True, False)),
    ((4, 32), (4, 2), 1, 16, (False, True)),
    ((32, 4), (4, 4), 0, 8, (False, False)),
    ((8, 4), (1, 4), 0, 8, (True, False)),
    ((40, 4), (3, 4), 0, 16, (True, False)),
    ((40, 4), (2, 4), 0, 16, (False, False)),
    ((32, 4), (4, 2), 0, 16, (False, False)),
    ((32, 32), (32, 2), 0, 16, (False, False)),
    ((32, 32), (2, 32), 1, 16, (False, False)),
    ((4, 0), (), 1, 0, (False, False)),
]


@pytest.mark.parametrize(("dims", "parts", "axis", "block", "fits"), FITTING)
def test_scales_of_groups_along_an_axis_fit(dims, parts, axis, block, fits):
    codes = Codes("d", proto(INT4, *dims), proto(FLOAT, *parts), None, axis, block)
    assert (codes.fits(0), codes.fits(1)) == fits


# What a DequantizeLinear has instead of s4 codes (32, 4) with scales (2, 4) and zero points of blocks of 16 rows.
OTHERS = [
    ({}, {"axis": 0, "block_size": 16}, (0, 16)),
    ({}, {"axis": -2, "block_size": 16}, (0, 16)),
    ({}, {"axis": -1}, (1, 0)),
    ({}, {}, (1, 0)),
    ({}, {"axis": 2}, None),
    ({}, {"axis": -3}, None),
    ({}, {"block_size": -1}, None),
    ({"z": None}, {}, (1, 0)),
    ({"w": proto(INT8, 32, 4)}, {}, None),
    ({"w": proto(INT4, 32, 4, 1)}, {}, None),
    ({"w": proto(INT4, 32)}, {}, None),
    ({"w": proto(UINT4, 32, 4)}, {}, None),
    ({"w": proto(UINT4, 32, 4), "z": proto(UINT4, 2, 4)}, {}, (1, 0)),
    ({"s": proto(HALF, 2, 4)}, {}, (1, 0)),
    ({"s": proto(TensorProto.DOUBLE, 2, 4)}, {}, None),
    ({"z": proto(INT4, 2, 5)}, {}, None),
    ({"w": None}, {}, None),
    ({"s": None}, {}, None),
]


@pytest.mark.parametrize(("others", "attrs", "found"), OTHERS)
def test_codes_that_stand_for_a_matrix(others, attrs, found):
    held = {"w": proto(INT4, 32, 4), "s": proto(FLOAT, 2, 4), "z": proto(INT4, 2, 4)} | others
    nodes = object.__new__(PackedNodes)
    nodes._tensors = {name: one for name, one in held.items() if one is not None}
    names = [name for name, one in held.items() if one is not None or name != "z"]
    codes = nodes._codes(helper.make_node("DequantizeLinear", names, ["d"]), attrs)
    assert (codes and (codes.axis, codes.block)) == found


@pytest.mark.parametrize(
    ("names", "is_found"),
    [
        (["w"], False),
        (["w", "s"], True),
        (["w", "s", ""], True),
        (["w", "s", "x"], False),
        (["w", "s", "z", "z"], False),
    ],
)
def test_codes_have_known_zero_points_or_none(names, is_found):
    nodes = object.__new__(PackedNodes)
    nodes._tensors = {"w": proto(INT4, 32, 4), "s": proto(FLOAT, 2, 4), "z": proto(INT4, 2, 4)}
    assert (nodes._codes(helper.make_node("DequantizeLinear", names, ["d"]), {}) is not None) is is_found


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, None),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2])), None),
        (helper.make_tensor_type_proto(FLOAT, [2, "n", None]), (og.f32, [2, None, None])),
        (helper.make_tensor_type_proto(FLOAT, []), (og.f32, [])),
        (helper.make_tensor_type_proto(FLOAT, None), (og.f32, None)),
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), None),
        (helper.make_tensor_type_proto(TensorProto.INT64, [0]), (og.s64, [0])),
    ],
)
def test_types_of_results_that_are_tensors(kind, found):
    assert _tensor_type(kind) == found


@pytest.mark.parametrize(
    ("shape", "tried", "agreed"),
    [(None, (2,), None), ((2,), (2, 1), None), ((2, None, 3), (2, 1, 4), [2, None, None]), ((), (), [])],
)
def test_dims_that_a_trial_agrees_with(shape, tried, agreed):
    assert _agreed(shape, tried) == agreed


@pytest.mark.parametrize(("shape", "codes"), [(None, [-1]), ((), [0]), ((2, None), [2, 2, -1])])
def test_shapes_as_numbers(shape, codes):
    assert _coded(shape) == codes


@pytest.mark.parametrize(
    ("kind", "shape", "axes", "pools"),
    [
        ("ReduceMean", (2, 4, 4, 3), (1, 2), True),
        ("ReduceMean", (2, 4, 4, 3), (-2, 1), True),
        ("ReduceMean", (2, 4, 4, 4, 3), (1, 2, 3), True),
        ("ReduceMean", (2, 4, 4, 4, 3), (1, 2), False),
        ("ReduceMean", (2, 4, 4, 3), (2, 3), False),
        ("ReduceMean", (2, 4, 4, 3), (0, 1, 2), False),
        ("ReduceMean", (2, 4, 3), (1,), False),
        ("ReduceMax", (2, 4, 4, 3), (1, 2), False),
    ],
)
def test_means_of_whole_images_are_pools(kind, shape, axes, pools):
    graph = og.Graph()
    graph.op(kind, [graph.input("x", "f32", shape)], {"axes": list(axes)})
    assert _pools_images(graph.ops[0]) is pools


def shaped(graph, x, *shape):
    return graph.static_reshape(x, shape=shape, special_zero=False)


def places(graph, x, y):
    return graph.op("Range", [graph.constant(F32(0)), y, graph.constant(F32(1))], edition=HOST)


# What is added behind y = add(x, x), and whether x and y are exact then.
EXACT = {
    "nothing": (lambda g, x, y: y, set()),
    "places": (places, {"x", "y"}),
    "places of a product": (
        lambda g, x, y: places(g, x, squares(g, y)),
        set(),
    ),
    "a comparison": (lambda g, x, y: g.op("Greater", [y, x], edition=HOST), {"x", "y"}),
    "a shape": (lambda g, x, y: g.op("Shape", [y], edition=HOST), set()),
    "NaN": (lambda g, x, y: g.op("IsNaN", [y], edition=HOST), set()),
    "angles": (lambda g, x, y: g.op("Sin", [y], edition=HOST), {"x", "y"}),
    "angles of an activation": (lambda g, x, y: g.op("Sin", [g.sigmoid(y)], edition=HOST), set()),
    "angles of a square": (lambda g, x, y: g.op("Sin", [g.square(y)], edition=HOST), {"x", "y"}),
    "angles of outer products": (lambda g, x, y: outer(g, x, y, 1), {"x", "y"}),
    "angles of sums of products": (lambda g, x, y: outer(g, x, y, 2), set()),
    "angles of turned outer products": (lambda g, x, y: outer(g, x, y, 1, transpose_a=True), {"x", "y"}),
}


def squares(g, y):
    return shaped(g, g.matmul(*(g.op("Concat", [y, y], {"axis": axis}) for axis in (1, 0))))


def outer(g, x, y, depth, **attrs):
    row = g.op("Concat", [y] * depth, {"axis": 0}) if depth > 1 else y
    row = shaped(g, row, *((depth, -1) if attrs else (-1, depth)))
    return g.op("Sin", [g.op("MatMul", [row, g.constant(np.ones((depth, 3), F32))], attrs)], edition=HOST)


@pytest.mark.parametrize("form", EXACT)
def test_what_places_and_angles_are_computed_of_is_exact(form):
    graph = og.Graph(strict=False)
    x = graph.input("x", "f32", () if "place" in form else (2,))
    x = shaped(graph, x, 1, 1) if form == "places of a product" else x
    y = graph.add(x, x)
    make, wanted = EXACT[form]
    graph.output("z", make(graph, x, y))
    exact = _exact(graph)
    assert {name for name, one in (("x", x), ("y", y)) if one.id in exact} == wanted


LARGEST = float(np.finfo(F32).max)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_known_numbers_stay_finite(dtype):
    array = np.array([1.5, -LARGEST, LARGEST, np.inf, -np.inf, np.nan], F32)
    made = _constant(array.copy(), og.DataType.of(dtype)).astype(np.float64)
    assert np.array_equal(np.isfinite(made), [True, True, True, False, False, False])
    assert np.array_equal(made[3:], array[3:], equal_nan=True)
    assert made[0] == 1.5
    assert 3.3e38 < made[2] == -made[1] < LARGEST
    plain = np.array([1.5, -2], F32)
    assert _constant(plain, og.f32) is plain


@pytest.mark.parametrize(
    ("dtype", "points", "wide"),
    [
        ("u8", (0, 255), False),
        ("u8", (-1,), True),
        ("u8", (256,), True),
        ("s8", (-128, 127), False),
        ("s8", (-129,), True),
        ("s8", (0, 128), True),
        ("s8", None, False),
        ("f8_e4m3", (0,), False),
    ],
)
def test_zero_points_beyond_their_data_type(dtype, points, wide):
    graph = og.Graph()
    attrs = {"scales": [0.5], "qtype": "per_tensor"} | ({} if points is None else {"zps": list(points[:1])})
    graph.op("Quantize", [graph.input("x", "f32", (2,))], attrs, dtype="u8")
    op = graph.ops[0]
    attrs = dict(op.attrs) | ({} if points is None else {"zps": tuple(points)})
    call = Call(schema_of(op), attrs, [tensor.type for tensor in op.inputs], 1, [og.u8])
    assert has_wide_zero_points(call, og.DataType.of(dtype)) is wide


class Stream:
    def __init__(self):
        self.data = b""

    def tell(self):
        return len(self.data)

    def write(self, data):
        self.data += data


def test_constants_begin_at_pages_of_their_file():
    arrays = {"a": np.arange(3, dtype=F32), "b": np.ones(1024, F32), "c": np.arange(2, dtype=np.int64)}
    model, stream = helper.make_model(helper.make_graph([], "g", [], [])), Stream()
    _externally(model, arrays, "file")(stream)
    entries = [{one.key: one.value for one in tensor.external_data} for tensor in model.graph.initializer]
    assert [(entry["offset"], entry["length"]) for entry in entries] == [("0", "12"), ("4096", "4096"), ("8192", "16")]
    for entry, array in zip(entries, arrays.values(), strict=True):
        start = int(entry["offset"])
        assert stream.data[start : start + int(entry["length"])] == array.tobytes()
    assert len(stream.data) == 8192 + 16


@pytest.mark.parametrize(
    ("kind", "count", "length"),
    [(INT4, 3, 2), (UINT4, 4, 2), (INT8, 3, 3), (TensorProto.FLOAT4E2M1, 3, 2), (TensorProto.FLOAT8E4M3FN, 3, 3)],
)
def test_small_elements_share_bytes(kind, count, length):
    assert _length(np.zeros(count, np.int8), kind) == length


# By form of packed weights: depth, group, coding, what zero is, zero points, and the inputs of the node; 0 for others.
SAVED = [
    (96, 16, "s4", 0, None, 3),
    (96, 32, "s4", 0, None, 3),
    (96, 48, "s4", 0, None, 0),
    (96, 8, "s4", 0, None, 0),
    (24, 0, "s4", 0, None, 3),
    (96, 32, "u4", 8, None, 3),
    (96, 32, "u4", 7, None, 4),
    (96, 32, "u4", 15, None, 4),
    (96, 32, "u4", 0, None, 4),
    (96, 32, "u4", 0, np.uint8, 4),
    (96, 32, "s4", 0, np.int8, 4),
    (96, 32, "u8", 128, None, 3),
]


@pytest.mark.parametrize(("depth", "group", "coding", "zero", "points", "inputs"), SAVED)
def test_packed_weights_become_a_node_of_the_runtime(depth, group, coding, zero, points, inputs):
    graph, blocks = og.Graph(), -(-depth // (group or depth))
    rows = np.zeros((3, depth if coding.endswith("8") else depth // 2), np.uint8)
    ends = [graph.input("x", "f32", (2, depth)), graph.constant(rows), graph.constant(np.ones((3, blocks), F32))]
    ends += [] if points is None else [graph.constant(np.ones((3, blocks), points))]
    attrs = {"coding": coding, "group": group, "zero": zero}
    graph.output("y", graph.op("PackedMatMul", ends, attrs, edition=HOST))
    nodes = [one for one in Exporter(graph).model()[0].graph.node if one.op_type == "MatMulNBits"]
    assert [len(one.input) for one in nodes] == [inputs] * bool(inputs)


class MalformedError(Exception):
    pass


# What a node has instead of codes (4, 16) of uint8 with scales (4, 1) in blocks of 16, and bits and block or the error.
TABLES = [
    ({}, {}, (4, 16)),
    ({}, {"bits": 2}, (2, 16)),
    ({}, {"bits": 8}, (8, 16)),
    ({}, {"bits": 3}, MalformedError),
    ({}, {"block_size": 8}, MalformedError),
    ({}, {"block_size": 32}, (4, 32)),
    ({}, {"block_size": 48}, MalformedError),
    ({"data": np.zeros((4, 16), np.int16)}, {}, NotLowered),
    ({"scales": np.zeros((4, 1), np.int8)}, {}, MalformedError),
    ({"data": np.zeros((4, 16), og.s4.numpy)}, {}, (4, 16)),
    ({"data": np.zeros((4, 16), og.u4.numpy)}, {"bits": 8}, MalformedError),
    ({}, {"gather_axis": -2, "quantize_axis": -1}, (4, 16)),
    ({}, {"gather_axis": 1}, NotLowered),
    ({}, {"quantize_axis": 0}, NotLowered),
    ({}, {"gather_axis": 2}, MalformedError),
    ({}, {"quantize_axis": -3}, MalformedError),
    ({"data": np.zeros(4, np.uint8), "scales": np.zeros(1, F32)}, {"quantize_axis": 0}, MalformedError),
    ({"scales": np.zeros(4, F32)}, {}, MalformedError),
    ({"data": np.zeros((2, 4, 16), np.uint8), "scales": np.zeros((2, 4, 1), F32)}, {}, NotLowered),
]


@pytest.mark.parametrize(("others", "attrs", "found"), TABLES)
def test_tables_of_codes_have_one_form(others, attrs, found):
    class Node:
        def attr(self, name, default):
            return {"block_size": 16, **attrs}.get(name, default)

        def invalid(self, *text):
            return MalformedError(*text)

    given = {"data": np.zeros((4, 16), np.uint8), "scales": np.zeros((4, 1), F32), **others}
    if isinstance(found, tuple):
        assert _table_form(Node(), **given) == found
    else:
        with pytest.raises(found):
            _table_form(Node(), **given)


@pytest.mark.parametrize(("size", "kind"), [(1000, "Cast"), ((1 << 24) + 1, "OnnxNode"), (2**31 - 1, "OnnxNode")])
def test_no_constant_numbers_the_places_of_a_huge_axis(size, kind):
    ends = [helper.make_tensor_value_info(name, FLOAT, (size,)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Hardmax", ["x"], ["y"])], "m", ends[:1], ends[1:])
    assert onegraph.onnx.load(helper.make_model(graph)).ops[-1].kind == kind


@pytest.mark.parametrize(("shape", "attrs"), [((1,), {}), ((2,), {}), ((None,), {}), ((0,), {}), ((1,), NO_AXES)])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceL1", "ReduceL2"])
def test_reductions_along_axes_of_a_run_are_host_ops(kind, shape, attrs):
    x, axes = (helper.make_tensor_value_info(*one) for one in (("x", FLOAT, (2, 3)), ("a", TensorProto.INT64, shape)))
    node, end = helper.make_node(kind, ["x", "a"], ["y"], **attrs), helper.make_tensor_value_info("y", FLOAT, None)
    (op,) = onegraph.onnx.load(helper.make_model(helper.make_graph([node], "m", [x, axes], [end]))).ops
    is_op = not attrs and shape in ((1,), (2,)) and kind not in ("ReduceL1", "ReduceL2")
    assert (op.kind, op.edition) == (kind if is_op else "OnnxNode", "host")


def box_by_definition(indices, dims):
    """The places along each axis, at equal distances, whose combinations the tuples name in order; else None."""
    whole = np.where(indices < 0, indices + np.array(dims)[: indices.shape[-1]], indices)
    places = [list(dict.fromkeys(whole[..., axis].ravel().tolist())) for axis in range(indices.shape[-1])]
    steps = [np.unique(np.diff(one)) for one in places]
    inside = all(min(one) >= 0 and max(one) < dim for one, dim in zip(places, dims, strict=False))
    if not inside or any(len(one) > 1 or (one < 1).any() for one in steps):
        return None
    every = np.stack(np.meshgrid(*places, indexing="ij"), -1)
    return places if every.shape == whole.shape and (every == whole).all() else None


def test_tuples_of_indices_that_are_a_box_are_found():
    rng, found = np.random.default_rng(0), Counter()
    for _ in range(200):
        dims = rng.integers(1, 6, rng.integers(1, 4)).tolist()
        starts = [int(rng.integers(dim)) for dim in dims[: rng.integers(1, len(dims) + 1)]]
        places = [np.arange(start, dim, rng.integers(1, 3)) for start, dim in zip(starts, dims, strict=False)]
        places = [one[: rng.integers(1, len(one) + 1)] for one in places]
        indices = np.stack(np.meshgrid(*places, indexing="ij"), -1)
        if rng.random() < 0.5:
            indices -= rng.integers(0, 2, indices.shape) * np.array(dims)[: len(places)]
        if rng.random() < 0.5:
            indices.ravel()[rng.integers(indices.size)] += rng.choice((-1, 1))
        elif rng.random() < 0.3:
            indices = np.flip(indices, rng.integers(len(places)))
        box, wanted = _box(indices, dims), box_by_definition(indices, dims)
        assert (None if box is None else [[*one] for one in box]) == wanted, (dims, indices.tolist())
        found[wanted is None] += 1
    assert min(found.values()) > 50


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "?"])
@pytest.mark.parametrize("kernels", [False, True])
def test_elements_are_found_once_with_their_places(dtype, kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr(selection, "_kernels", lambda: None)
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 7, 40):
        src = rng.integers(0, 4, size).astype(dtype)
        if dtype[0] == "f":
            src[rng.random(size) < 0.4] = np.nan
            src[rng.random(size) < 0.2] = -0.0
        for found, wanted in zip(selection._distinct(src), np.unique(src, True, True, True), strict=True):
            np.testing.assert_array_equal(found, wanted)


def scattered(starts, mode="linear"):
    """Two updates of a cache of four rows."""
    names, arrays = ("cache", "update"), (np.zeros((2, 4, 3), np.float32), np.ones((2, 2, 3), np.float32))
    constants = [numpy_helper.from_array(array, name) for name, array in zip(names, arrays, strict=True)]
    constants.append(numpy_helper.from_array(np.array(starts), "starts"))
    node = helper.make_node("TensorScatter", [*names, "starts"], ["y"], axis=1, mode=mode)
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4, 3))
    graph = helper.make_graph([node], "g", [], [end], constants)
    value = og.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])).compile()()
    return value[:, :, 0].tolist()


def test_updates_of_a_cache_stay_inside():
    assert scattered([2, 0]) == [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert scattered([3, -1], "circular") == [[1, 0, 0, 1]] * 2
    for starts in ([3, 0], [0, 3], [-1, 0], [0, -1]):
        with pytest.raises(og.FormatError, match=r"write_indices .* places in a cache of 4"):
            scattered(starts)


@pytest.mark.parametrize(
    ("known", "attrs", "text"),
    [
        ({"s": F32([1, 1, 2])}, {}, "3 scales; expected 4 for 4 axes"),
        ({"s": F32([2, 2, 2])}, {"axes": [2, 3]}, "3 scales; expected 2 for 2 axes"),
        ({"d": np.array([1, 2, 8])}, {}, "3 sizes; expected 4 for 4 axes"),
        ({"d": np.array([8])}, {"axes": [2, 3]}, "1 size; expected 2 for 2 axes"),
        ({"s": F32([1, 1, 2, 2]), "b": F32([0, 1])}, {}, "2 bounds; expected 8 for 4 axes"),
        ({"s": F32([1, 1, 2, 2]), "b": F32([])}, {}, ""),
        ({"s": F32([2, 2]), "b": F32([0, 0, 1, 1])}, {"axes": [-2, -1]}, ""),
    ],
)
def test_images_are_resized_by_a_number_for_each_axis(known, attrs, text):
    places = [name if name in known else "" for name in ("b", "s", "d")]
    node = helper.make_node(
        "Resize", ["x", *places], ["y"], coordinate_transformation_mode="tf_crop_and_resize", **attrs
    )
    ends = [helper.make_tensor_value_info("x", FLOAT, (1, 2, 4, 4))], [helper.make_empty_tensor_value_info("y")]
    held = [numpy_helper.from_array(one, name) for name, one in known.items()]
    model = helper.make_model(
        helper.make_graph([node], "g", *ends, held), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    if not text:
        assert onegraph.onnx.load(model, strict=True).outputs["y"].shape == (1, 2, 8, 8)
        return
    with pytest.raises(og.FormatError) as refused:
        onegraph.onnx.load(model, strict=True)
    assert str(refused.value).endswith(text)


@pytest.mark.parametrize(
    ("attrs", "reference", "found"),
    [
        ({}, "", {}),
        ({"perm": [1, 0]}, "", {"perm": [1, 0]}),
        ({"perm": [1, 0]}, "order", None),
        ({"perm": 1}, "", None),
        ({"perm": [1, 0], "other": 1}, "", None),
    ],
)
def test_attributes_that_are_known_here(attrs, reference, found):
    node = helper.make_node("Transpose", ["x"], ["y"], **attrs)
    for one in node.attribute:
        one.ref_attr_name = reference
    made = _attributes(node)
    assert made == found if found is None else {name: [*one] for name, one in made.items()} == found
