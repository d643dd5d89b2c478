"""Host ops: every record has a function and a case, and executables compute what the cases say."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
import onegraph.capi
from onegraph import reference
from onegraph.builder.op_pages import to_dict
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import EDITIONS, edition
from onegraph.reference.host import host_function
from onegraph.runtime.op_by_op import SMALL
from onegraph.testing.tolerance import compare
from onegraph.tools.verify import verify
from tests.helpers.host_cases import HostCase, cases, graph_of

CASES = [*cases()]
HOST = edition("host")
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 9


def equal(found, wanted):
    assert found.shape == wanted.shape
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@grouped("case", CASES)
def test_computes_the_case(case):
    g, arrays = graph_of(case)
    model = g.compile()
    found = model(**arrays)
    for array, wanted in zip(found if isinstance(found, tuple) else (found,), case.results, strict=True):
        equal(array, wanted)
    for array, wanted in zip(reference.run(g, arrays).values(), case.results, strict=True):
        equal(array, wanted)


@grouped("case", CASES)
def test_infers_the_shapes_and_types_of_the_case(case):
    g, _ = graph_of(case)
    for tensor, wanted in zip(g.outputs.values(), case.results, strict=True):
        if case.kind not in ("NonZero", "NonMaxSuppression", "Compress"):
            assert tensor.shape == wanted.shape
        if case.dtype is None and wanted.dtype.kind not in "iu":
            assert tensor.dtype.numpy == wanted.dtype


# tests/from_onnx/test_onnx_load.py and tests/machines/test_averaging.py have the cases of these.
ELSEWHERE = {"OnnxNode", "AllReduceStart", "AllReduceDone"}


def test_every_host_op_has_a_case():
    assert {case.kind for case in CASES} == HOST.schemas.keys() - ELSEWHERE


@grouped("schema", HOST.schemas.values(), key=lambda schema: schema.category, label=lambda schema: schema.kind)
def test_every_host_op_has_a_function(schema):
    assert callable(host_function(schema))


@pytest.mark.parametrize("name", EDITIONS)
def test_no_edition_contains_a_host_op_of_its_own_kind(name):
    found = og.check_op("GatherND", {}, [("f32", (2, 3)), ("s64", (2, 1))], edition=name)
    assert [one.rule for one in found] == ["unknown_op"]


def vector(g, *numbers):
    return g.constant(np.array(numbers, np.int64), dtype=og.s64)


def built(add, *arrays, shapes=None):
    g = og.Graph()
    shapes = shapes or [array.shape for array in arrays]
    inputs = [
        g.input(f"x{n}", OF_NUMPY[array.dtype], shape)
        for n, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
    ]
    g.output("y", add(g, lambda kind, ins, attrs=None, **more: g.op(kind, ins, attrs, edition="host", **more), *inputs))
    return g


def kinds_of(model, executor):
    return [kind for part in model.report().partitions if part.executor == executor for kind in part.kinds]


VIEWED = {
    "a slice": lambda g, h, x: h("Slice", [x, vector(g, 1), vector(g, 3), vector(g, 1)]),
    "a slice of a slice": lambda g, h, x: h(
        "Slice", [h("Slice", [x, vector(g, 1), vector(g, 3), vector(g, 1)]), vector(g, 1), vector(g, 4), vector(g, 2)]
    ),
    "a reversed axis": lambda g, h, x: h("Slice", [x, vector(g, -1), vector(g, -9), vector(g, 2), vector(g, -1)]),
    "every other element": lambda g, h, x: h("Slice", [x, vector(g, 0), vector(g, 9), vector(g, 2), vector(g, 2)]),
    "an expansion": lambda g, h, x: h("Expand", [x, vector(g, 5, 2, 3, 4)]),
    "a new axis": lambda g, h, x: h("Unsqueeze", [x], {"axes": [1]}),
    "a reshape": lambda g, h, x: h("Reshape", [x, vector(g, 6, -1)]),
    "a transpose": lambda g, h, x: h("Transpose", [x], {"order": [2, 0, 1]}),
}


# Of the readers, the library runs one, kernels of the package run one, and both run the last one.
READERS = {
    "Square": lambda g, x: g.square(x),
    "Exp": lambda g, x: g.exp(x),
    "SoftMax": lambda g, x: g.softmax(x, axis=-1),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("add", VIEWED.values(), ids=VIEWED)
def test_parts_of_a_tensor_are_views(add, read):
    g = built(lambda g, h, x: read(g, add(g, h, g.tanh(x))), X / 9)
    model = g.compile()
    assert kinds_of(model, "view")
    assert not kinds_of(model, "host")
    np.testing.assert_allclose(model(X / 9), reference.run(g, {"x0": X / 9})["y"], rtol=1e-5)


@pytest.mark.parametrize("add", VIEWED.values(), ids=VIEWED)
def test_views_are_returned_as_arrays_of_their_own(add):
    g = built(add, X)
    found = g.compile()(X)
    np.testing.assert_array_equal(found, reference.run(g, {"x0": X})["y"])
    assert found.flags.owndata or found.base is not X


def test_the_reshape_of_a_slice_begins_at_its_output():
    def add(g, h, x):
        part = h("Slice", [x, vector(g, 1), vector(g, 2), vector(g, 2)])
        return g.static_reshape(part, shape=[6], special_zero=False)

    found = built(add, X).compile()(X)
    np.testing.assert_array_equal(found, X[:, :, 1].reshape(-1))


def test_two_slices_of_one_tensor_are_not_written_over():
    def add(g, h, x):
        y = g.tanh(x)
        parts = [h("Slice", [y, vector(g, n), vector(g, n + 1), vector(g, 1)]) for n in range(3)]
        return g.exp(parts[0]) + g.exp(parts[1]) * g.exp(parts[2]) + g.sigmoid(parts[0])

    g = built(add, X / 9)
    np.testing.assert_allclose(g.compile()(X / 9), reference.run(g, {"x0": X / 9})["y"], rtol=1e-5)


def test_shape_chains_of_dynamic_inputs_are_computed_at_compilation():
    def add(g, h, x):
        rows = h("Slice", [h("Shape", [x]), vector(g, 0), vector(g, 1)])
        return g.relu(h("Reshape", [x, h("Concat", [rows, vector(g, -1)], {"axis": 0})]))

    model = built(add, X, shapes=[(None, 3, None)]).compile()
    for rows in (2, 1):
        np.testing.assert_array_equal(model(X[:rows]), np.maximum(X[:rows].reshape(rows, -1), 0))
        assert not kinds_of(model, "host")


def test_a_vector_input_may_set_a_shape_through_other_ops():
    def add(g, h, x, n):
        return g.relu(h("Reshape", [x, h("Concat", [n, vector(g, -1)], {"axis": 0})]))

    model = built(add, X, np.int64([4]), shapes=[X.shape, (1,)])
    model = model.compile()
    assert model(X, np.int64([4])).shape == (4, 6)
    assert model(X, np.int64([8])).shape == (8, 3)
    with pytest.raises(og.SpecError, match="a shape of 24 elements"):
        model(X, np.int64([7]))


def test_ops_around_an_unknown_shape_do_not_fall_back():
    wide = np.random.default_rng(5).standard_normal((27, 27, 27), np.float32)
    assert wide.size > SMALL  # too many elements to run op by op
    g = built(lambda g, h, x: g.exp(h("Cast", [h("NonZero", [g.relu(x)])], dtype=og.f32)), wide)
    model = g.compile()
    for array in (wide, -wide):
        np.testing.assert_allclose(model(array), np.exp(np.array(np.nonzero(array > 0), np.float32)), rtol=1e-5)
    assert kinds_of(model, "kernel") == ["ReLU", "Cast", "Exp"]
    model = g.compile(finite_math=True)
    np.testing.assert_allclose(model(wide), g.compile()(wide), rtol=1e-5)
    assert kinds_of(model, "oneDNN") == ["ReLU", "Exp"]
    with pytest.raises(og.UnsupportedError, match="shape or an axis depends"):
        g.compile(fallback=False)


def test_an_index_out_of_range_names_the_op():
    model = built(lambda g, h, x, i: h("Gather", [x, i], {"axis": 1}, name="rows"), X, np.int64([0])).compile()
    with pytest.raises(og.ArgumentError, match=r"Gather 'rows': index 3 at \[0\] of indices is out of range"):
        model(X, np.int64([3]))


BAD = {
    "too many elements": (lambda g, h, x: h("Reshape", [x, vector(g, 5, 5)]), "a shape of 24 elements"),
    "an axis that is not 1": (lambda g, h, x: h("Squeeze", [x], {"axes": [0]}), "axes of size 1"),
    "an axis out of range": (lambda g, h, x: h("Gather", [x, vector(g, 0)], {"axis": 3}), "axis: 3"),
    "a step of 0": (
        lambda g, h, x: h("Slice", [x, vector(g, 0), vector(g, 1), vector(g, 0), vector(g, 0)]),
        "steps other than 0",
    ),
    "shapes that do not broadcast": (lambda g, h, x: h("Expand", [x, vector(g, 5)]), "broadcasts with"),
    "a data type": (lambda g, h, x: h("Not", [x]), "expected boolean"),
    "k beyond the axis": (lambda g, h, x: h("TopK", [x, vector(g, 9)]), "0 to 4"),
}


@pytest.mark.parametrize(("add", "text"), BAD.values(), ids=BAD)
def test_a_wrong_host_op_is_refused(add, text):
    with pytest.raises(og.SpecError, match=text):
        built(add, X)


def test_the_error_function_is_that_of_the_c_library():
    array = np.concatenate([np.linspace(-7, 7, 2001), [1e-300, np.inf, -np.inf, 0.0]])
    g = og.Graph()
    g.output("y", g.op("Erf", [g.input("x", OF_NUMPY[array.dtype], array.shape)], edition="host"))
    np.testing.assert_allclose(g.compile()(array), [math.erf(x) for x in array], rtol=1e-15, atol=0)


@pytest.mark.parametrize(("shape", "axis"), [((1, 40, 40, 32), 3), ((2, 64, 30, 20), 1), ((4, 70, 90), -2)])
def test_a_large_concat_is_copied_into_its_parts(shape, axis):
    arrays = [np.random.default_rng(n).standard_normal(shape).astype(np.float32) for n in range(3)]
    g = built(lambda g, h, x, y, z: g.concat(g.tanh(x), y, g.tanh(z), axis=axis), *arrays)
    model = g.compile()
    expected = np.concatenate([np.tanh(arrays[0]), arrays[1], np.tanh(arrays[2])], axis)
    np.testing.assert_allclose(model(*arrays), expected, rtol=1e-4, atol=1e-6)
    assert kinds_of(model, "copy") == ["Concat"]


def test_a_reshape_of_a_view_copies_nothing_where_strides_allow_it():
    def add(g, h, x):
        part = h("Slice", [g.tanh(x), vector(g, 1), vector(g, 3), vector(g, 1)])  # strides (12, 4, 1)
        return g.exp(g.static_reshape(part, shape=[2, 2, 2, 2], special_zero=False))

    model = built(add, X / 9).compile()
    np.testing.assert_allclose(model(X / 9), np.exp(np.tanh(X / 9)[:, 1:3].reshape(2, 2, 2, 2)), rtol=1e-5)
    assert kinds_of(model, "view") == ["Slice", "StaticReshape"]
    assert not kinds_of(model, "copy")


def whole(g, value, dtype=np.int64):
    array = np.array(value, dtype)
    return g.constant(array, dtype=OF_NUMPY[array.dtype])


# Contents and shapes that decide the shape of a result, and that no result has.
UNFIT = {
    "Expand to -1": lambda g, h, x: h("Expand", [whole(g, 4), whole(g, [-1])]),
    "Expand to a scalar": lambda g, h, x: h("Expand", [x, whole(g, 4)]),
    "Tile by -1": lambda g, h, x: h("Tile", [x, whole(g, [1, -1, 1])]),
    "Pad by a matrix": lambda g, h, x: h("Pad", [x, whole(g, [[0, 0, 0, 0, 0, 0]])]),
    "Pad by a scalar": lambda g, h, x: h("Pad", [x, whole(g, 1)]),
    "Pad that cuts too much": lambda g, h, x: h("Pad", [x, whole(g, [-3, 0, 0, 2, 0, 0])]),
    "Pad that repeats nothing": lambda g, h, x: h(
        "Pad", [g.input("none", "f32", (2, 0)), whole(g, [0, 0, 0, 1])], {"mode": "edge"}
    ),
    "GatherElements of more rows": lambda g, h, x: h(
        "GatherElements", [x, g.input("places", og.s64, (9, 1, 1))], {"axis": 1}
    ),
    "ScatterElements of more columns": lambda g, h, x: h(
        "ScatterElements", [x, *(g.input(name, dtype, (1, 1, 9)) for name, dtype in (("i", og.s64), ("u", og.f32)))]
    ),
    "OneHot of depth -1": lambda g, h, x: h("OneHot", [h("Cast", [x], dtype=og.s64), whole(g, -1), whole(g, [0, 1])]),
    "OneHot on axis 9": lambda g, h, x: h(
        "OneHot", [h("Cast", [x], dtype=og.s64), whole(g, 3), whole(g, [0, 1])], {"axis": 9}
    ),
    "OneHot of values in rows": lambda g, h, x: h(
        "OneHot", [h("Cast", [x], dtype=og.s64), whole(g, 3), whole(g, [[0, 1]])]
    ),
    "TopK of -1": lambda g, h, x: h("TopK", [x, whole(g, -1)])[0],
    "TopK of two numbers": lambda g, h, x: h("TopK", [x, whole(g, [1, 2])])[0],
    "Range to infinity": lambda g, h, x: h("Range", [whole(g, n, np.float32) for n in (0, np.inf, 1)]),
    "Range by nan": lambda g, h, x: h("Range", [whole(g, n, np.float32) for n in (0, 3, np.nan)]),
    "Range of none": lambda g, h, x: h("Range", [whole(g, []), whole(g, 3), whole(g, 1)]),
    "GatherND of other batches": lambda g, h, x: h("GatherND", [x, whole(g, [[0], [1], [1]])], {"batch_dims": 1}),
    "GatherND of batches alone": lambda g, h, x: h("GatherND", [x, whole(g, [0, 1])], {"batch_dims": 1}),
    "WeightedGather by a vector": lambda g, h, x: shares(g, h, x, [0, 1], [1, 1]),
    "WeightedGather by fewer weights": lambda g, h, x: shares(g, h, x, [[0, 1]], [[1]]),
    "WeightedGather beyond the axis": lambda g, h, x: shares(g, h, x, [[0, 9]], [[1, 1]]),
}


def shares(g, h, x, indices, weights):
    return h("WeightedGather", [x, whole(g, indices), whole(g, weights, np.float32)], {"axis": 1})


@pytest.mark.parametrize("add", UNFIT.values(), ids=UNFIT)
def test_contents_that_fit_no_shape_are_refused(add):
    with pytest.raises(og.SpecError):
        built(add, X)


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [((0, 6), (0, -1, 2), (0, 3, 2)), ((0, 6), (0, 6, -1), (0, 6, 1)), ((3, 0), (-1, 2), (0, 2))],
)
def test_dims_of_the_source_say_nothing_beside_a_batch_of_0(shape, wanted, expected):
    g = built(lambda g, h, x: h("Reshape", [x, vector(g, *wanted)]), np.empty(shape, np.float32))
    assert g.outputs["y"].shape == expected
    assert g.compile()(np.empty(shape, np.float32)).shape == expected


def test_a_weighted_gather_of_any_rank_has_any_shape():
    g = og.Graph()
    x = g.input("x", "f32", None)
    assert shares(g, lambda *a: g.op(*a, edition="host"), x, [[0, 1]], [[1, 1]]).shape is None


def test_a_range_of_inputs_refuses_nan():
    g = built(lambda g, h, *ends: h("Range", [*ends]), *[np.float32(n) for n in (0, 3, 1)])
    np.testing.assert_array_equal(g.compile()(*map(np.float32, (0, 3, 1))), [0, 1, 2])
    with pytest.raises(og.SpecError, match="finite"):
        g.compile()(*map(np.float32, (0, 3, np.nan)))


def test_a_range_counts_integers_exactly():
    top = np.iinfo(np.int32).max
    g = built(lambda g, h, x: h("Range", [whole(g, n, np.int32) for n in (-top, top, top)]), X)
    assert g.outputs["y"].shape == (2,)
    np.testing.assert_array_equal(g.compile()(X), [-top, 0])


def test_tuples_without_numbers_select_all():
    g = built(lambda g, h, x: h("GatherND", [x, whole(g, np.empty((5, 0)))]), X)
    np.testing.assert_array_equal(g.compile()(X), np.broadcast_to(X, (5, 2, 3, 4)))


def test_a_bound_shape_cannot_change():
    shape = np.array([4, 6], np.int64)
    g = built(lambda g, h, x, shape: h("Reshape", [g.tanh(x), shape]), X, shape)
    run = g.compile().bind(X, shape)
    np.testing.assert_allclose(run(), np.tanh(X).reshape(4, 6), rtol=1e-5)
    shape[:] = 6, 4
    with pytest.raises(og.StateError, match="'x1' set a shape"):
        run()


def test_memory_that_is_missing_is_one_error():
    g = built(lambda g, h, x: h("Expand", [x, whole(g, [2**45])]), np.float32(1))
    with pytest.raises(og.OutOfMemoryError):
        reference.run(g, {"x0": np.float32(1)})


@pytest.mark.parametrize("model", ["junk", "AAAA", "é"])
def test_a_model_that_is_none_is_one_error(model):
    attrs = {"model": model, "nodes": "Det", "shapes": [0]}
    g = built(lambda g, h, x: h("OnnxNode", [x], attrs, dtype="f32", outputs=[]), X)
    with pytest.raises(og.ArgumentError, match="OnnxNode"):
        g.compile()(X)


STAGED = {
    "stages": lambda g, h, x: g.exp(h("Cast", [h("NonZero", [g.relu(x)])], dtype=og.f32)),
    "a host op first": lambda g, h, x: g.exp(h("Cast", [h("NonZero", [x])], dtype=og.f32)),
    "host ops alone": lambda g, h, x: h("NonZero", [x]),
    "three stages": lambda g, h, x: h("NonZero", [g.exp(h("Cast", [h("NonZero", [g.relu(x)])], dtype=og.f32))]),
}


@pytest.mark.parametrize("add", STAGED.values(), ids=STAGED)
def test_a_profile_has_the_partitions_of_all_stages(add):
    model = built(add, X).compile()
    profile = model.profile(X, runs=2)
    reports = model.report().partitions
    executed = [one.index for one in reports if one.executor not in ("view", "constant")]
    assert [row.index for row in profile.rows] == executed
    assert [row.ops for row in profile.rows] == [reports[index].ops for index in executed]
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.to_chrome_trace()


@pytest.mark.parametrize("add", STAGED.values(), ids=STAGED)
def test_graphs_in_stages_are_verified(add):
    assert verify(built(add, X), {"x0": X}).agrees


def test_a_change_that_moves_indices_is_noticed():
    def add(g, h, x):
        places = h("Cast", [g.relu(x)], dtype=og.s64)
        return h("Gather", [whole(g, range(24)), places], {"axis": 0})

    found = verify(built(add, X), {"x0": X + 9})  # the indices 0 to 23, which are too large by 10 %
    assert found.proven


def test_results_of_another_shape_disagree():
    three, two = np.ones(3, np.float32), np.ones(2, np.float32)
    assert not compare("y", two, three, three, og.f32, rounded=False).agrees


def test_every_host_op_has_a_page():
    for schema in HOST.schemas.values():
        assert all(rule["doc"] for rule in to_dict(HOST, schema)["rules"])


def test_slices_at_equal_places_are_added():
    g = og.Graph()
    src, places = g.input("src", "f32", (9, 4, 8)), g.input("places", "s64", (2, 5, 1))
    updates = g.input("updates", "f32", (2, 5, 4, 8))
    g.output("dst", g.op("ScatterND", [src, places, updates], {"reduction": "add"}, edition="host"))
    rng = np.random.default_rng(0)
    given = {name: rng.integers(-9, 9, g.inputs[name].shape).astype(np.float32) for name in ("src", "updates")}
    numbers = np.array([[3, 0, 3, -1, 8], [5, 3, 0, -9, 3]])
    expected = given["src"].copy()
    for place in np.ndindex(2, 5):
        expected[numbers[place]] += given["updates"][place]
    np.testing.assert_array_equal(g.compile()(**given, places=numbers[..., None]), expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(8, 50, 9), (200, 8, 64), (8, 8, 20000)], ids=str)
def test_few_of_many_elements_come_as_from_a_sort(shape, axis, largest):
    rng = np.random.default_rng(0)
    src = rng.integers(-3, 4, shape).astype(np.float32)
    src.flat[::7], src.flat[::11], src.flat[1::13], src.flat[2::17] = -0.0, np.nan, np.inf, -np.inf
    g = og.Graph()
    attrs = {"axis": axis, "largest": largest}
    y, places = g.op("TopK", [g.input("x", "f32", shape), vector(g, 2)], attrs, edition="host")
    g.output("y", y)
    g.output("places", places)
    found = g.compile()(src)
    order = np.where(np.isnan(src), np.inf, src).astype(np.float64)
    order[np.isnan(src)] = 1e300  # beyond infinity as a finite key
    order[np.isposinf(src)], order[np.isneginf(src)] = 1e200, -1e200
    wanted = np.argsort(-order if largest else order, axis=axis, kind="stable").take([0, 1], axis=axis)
    np.testing.assert_array_equal(found.places, wanted)
    np.testing.assert_array_equal(found.y, np.take_along_axis(src, wanted, axis))


@pytest.mark.library
@pytest.mark.parametrize("kind", ["Exp", "Log", "Tanh", "Sqrt", "Sin", "Floor"])
def test_numbers_of_float64_are_written_where_the_plan_wants_them(kind):
    """Without a warning of numpy, and for a source with strides."""
    g = og.Graph()
    turned = g.op(
        "Transpose", [g.input("x", OF_NUMPY[np.dtype(np.float64)], (2, 3))], {"order": (1, 0)}, edition="host"
    )
    g.output("y", g.op(kind, [turned], edition="host"))
    x = np.array([[-1, 0, np.inf], [np.nan, 800, 0.5]])
    with np.errstate(all="ignore"):
        wanted = getattr(np, kind.lower())(x.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(g.compile()(x), wanted)


# Cases that other runtimes compute in other ways.
OWN = [
    ("NonZero", [np.int64(5)], [np.empty((0, 1), np.int64)], {}),
    ("NonZero", [np.float32(0)], [np.empty((0, 0), np.int64)], {}),
    (
        "Classify",
        [np.float32([[np.nan, -np.inf, np.nan], [np.nan, np.nan, np.nan]]), np.int64([7, 9, 4])],
        [np.int64([9, 7]), np.float32([[0, -np.inf, 0], [0, 0, 0]])],
        {"absent": True},
    ),
]


@pytest.mark.parametrize(("kind", "inputs", "results", "attrs"), OWN, ids=[str(one[0]) for one in OWN])
def test_own_meanings(kind, inputs, results, attrs):
    g, given = graph_of(HostCase(kind, inputs, results, attrs))
    for found, wanted in zip(reference.run(g, given).values(), results, strict=True):
        np.testing.assert_array_equal(found, wanted)


F16, BF16, F8 = np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
NONE = np.zeros((2, 0))
# By kind: inputs, attributes, the data type of the result, and the result. Forms that have no case of their own.
FORMS = [
    ("Pow", [np.int32([2, 3, 4]), np.int32([-1, 2, 0])], {}, None, np.int32([0, 9, 1])),
    ("Pow", [np.int64([4, 9]), np.float32([0.5, 1.5])], {}, None, np.int64([2, 27])),
    ("Pow", [F16([2, 3]), np.int32([3, 2])], {}, None, F16([8, 9])),
    ("Pow", [np.float32([2, 3]), np.int32([-1, 2])], {}, None, np.float32([0.5, 9])),
    ("MatMul", [np.float32([1, 2]), np.float32([[1, 2], [3, 4]])], {"transpose_a": True}, None, np.float32([7, 10])),
    ("MatMul", [np.float32([[1, 2], [3, 4]]), np.float32([1, 2])], {"transpose_b": True}, None, np.float32([5, 11])),
    (
        "MatMul",
        [np.float32([[1, 2], [3, 4]]), np.eye(2, dtype="f")],
        {"transpose_a": True},
        None,
        np.float32([[1, 3], [2, 4]]),
    ),
    ("ReduceMax", [np.array([[False, True], [False, False]])], {"axes": [1]}, None, np.array([True, False])),
    ("ReduceMin", [np.array([[False, True], [True, True]])], {"axes": [1]}, None, np.array([False, True])),
    ("ReduceMax", [NONE.astype(bool)], {"axes": [1]}, None, np.array([False, False])),
    ("ReduceMin", [NONE.astype(bool)], {"axes": [1]}, None, np.array([True, True])),
    ("ReduceMax", [NONE.astype(np.int32)], {"axes": [1]}, None, np.int32([-(2**31)] * 2)),
    ("ReduceMin", [NONE.astype(np.int32)], {"axes": [1]}, None, np.int32([2**31 - 1] * 2)),
    ("ReduceMax", [NONE.astype(np.float32)], {"axes": [1]}, None, np.float32([-np.inf] * 2)),
    ("ReduceMin", [NONE.astype(np.float32)], {"axes": [1]}, None, np.float32([np.inf] * 2)),
    ("Cast", [np.float32([1000, -1000, 3])], {"saturate": True}, og.f8_e4m3, np.array([448, -448, 3], F8)),
    ("Cast", [np.float32([1000, 3])], {"saturate": False}, og.f8_e4m3, np.array([np.nan, 3], F8)),
    ("Cast", [np.array([1.5, -2.5], BF16)], {"saturate": True}, og.s32, np.int32([1, -2])),
    ("Cast", [np.float32([1.5])], {"saturate": True}, og.f32, np.float32([1.5])),
    ("Divide", [np.int32([7, -7, 6, 5, -6]), np.int32([2, 2, -3, 0, 3])], {}, None, np.int32([3, -3, -2, 5, -2])),
]


@pytest.mark.parametrize(("kind", "inputs", "attrs", "dtype", "wanted"), FORMS)
def test_forms_without_a_case(kind, inputs, attrs, dtype, wanted):
    attrs = {"keep_dims": False, **attrs} if kind.startswith("Reduce") else attrs
    case = HostCase(kind, inputs, [wanted], attrs, dtype=dtype)
    (found,) = reference.run(*graph_of(case)).values()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))


def test_codes_of_zeros_have_a_scale_of_one():
    case = HostCase("DynamicQuantizeLinear", [np.zeros(3, np.float32)], [], dtype=og.u8)
    codes, scale, zero = reference.run(*graph_of(case)).values()
    assert (codes.tolist(), scale.tolist(), zero.tolist()) == ([0, 0, 0], 1.0, 0)
