"""The ops of legacy-1 without a successor, and whole graphs in that edition."""

import math

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.inference.translate_op import translate
from onegraph.opset.editions.legacy_ops import OPS
from onegraph.opset.editions.registry import BASE, base_of, edition
from onegraph.reference import reference_function, run

EDITION = "legacy-1"
RNG = np.random.default_rng(7)
A = RNG.normal(size=(2, 3)).astype(np.float32)
B = np.where(RNG.random((2, 3)) < 0.5, A, 0).astype(np.float32)
POSITIVE = RNG.uniform(0.5, 2, (2, 3)).astype(np.float32)
TRUE, FALSE = np.array([[True, False, True]]), np.array([[True], [False]])


def apply(kind, arrays, attrs=None, *, constant=()):
    """The op in a graph of its own, run on numpy; inputs in ``constant`` are known when the graph is built."""
    graph = og.Graph(edition=EDITION)
    tensors = [
        graph.constant(array) if i in constant else graph.input(f"in_{i}", array.dtype, array.shape)
        for i, array in enumerate(arrays)
    ]
    out = graph.op(kind, tensors, attrs)
    graph.output("out", out)
    result = run(graph, {f"in_{i}": array for i, array in enumerate(arrays) if i not in constant})["out"]
    known = out.shape is not None and None not in out.shape
    assert result.dtype == out.dtype.numpy
    assert not known or result.shape == out.shape
    return result


def rules(kind, inputs, attrs=None):
    found = og.check_op(kind, attrs, inputs, edition=EDITION)
    return [violation.rule for violation in found if violation.severity == "error"]


# The records ---------------------------------------------------------------------------------------------------------


def test_nineteen_ops_have_no_successor():
    schemas = edition(EDITION).schemas
    assert len(OPS) == 19
    assert {kind for kind, schema in schemas.items() if schema.dialect is None} == {schema.kind for schema in OPS}


@pytest.mark.parametrize("schema", OPS, ids=lambda schema: schema.kind)
def test_each_op_has_a_reference_of_its_own(schema):
    base = base_of(schema)
    assert base.kind == schema.page == f"{schema.kind}-1"
    assert base.kind not in BASE
    assert base.name not in {other.name for other in BASE.values()}
    assert reference_function(base).__module__.endswith("legacy_ops")


def test_both_meanings_of_pow():
    assert reference_function(BASE["Pow"]).__module__.endswith("elementwise")
    assert [port.name for port in edition(EDITION).schema("Pow").inputs] == ["input", "exponent"]
    assert [port.name for port in edition("onednn-3.2").schema("Pow").inputs] == ["src"]
    assert rules("Pow", [("f32", (2,))], {"beta": 2.0}) == ["unknown_attribute", "input_count"]


# Results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Equal", [[a == b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
        ("NotEqual", [[a != b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
        ("Greater", [[a > b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
        ("GreaterEqual", [[a >= b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
        ("Less", [[a < b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
        ("LessEqual", [[a <= b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]),
    ],
)
def test_comparison(kind, expected):
    found = apply(kind, [A, B])
    assert found.dtype == np.bool_
    assert found.tolist() == expected


def test_comparison_broadcasts():
    assert apply("Less", [np.float32([[1, 5]]), np.float32([[2], [9]])]).tolist() == [[True, False], [True, True]]
    assert rules("Less", [("f32", (1, 2)), ("f32", (2, 1))], {"auto_broadcast": "none"}) == ["broadcastable"]


def test_comparison_with_nan():
    nan = np.float32([math.nan])
    assert apply("Equal", [nan, nan]).tolist() == [False]
    assert apply("NotEqual", [nan, nan]).tolist() == [True]
    assert apply("LessEqual", [nan, nan]).tolist() == [False]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("LogicalAnd", [[True, False, True], [False, False, False]]),
        ("LogicalOr", [[True, True, True], [True, False, True]]),
        ("LogicalXor", [[False, True, False], [True, False, True]]),
    ],
)
def test_logical(kind, expected):
    assert apply(kind, [TRUE, FALSE]).tolist() == expected


def test_logical_not():
    assert apply("LogicalNot", [TRUE]).tolist() == [[False, True, False]]


@pytest.mark.parametrize(
    ("kind", "formula", "data"),
    [
        ("Erf", math.erf, A),
        ("Negative", lambda x: -x, A),
        ("Rsqrt", lambda x: 1 / math.sqrt(x), POSITIVE),
        ("Sign", lambda x: math.copysign(1, x) if x else 0, B),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_elementwise(kind, formula, data, dtype):
    data = data.astype(dtype)
    expected = np.array([[formula(float(x)) for x in row] for row in data]).astype(dtype)
    found = apply(kind, [data])
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-6)


def test_pow_of_two_tensors():
    exponent = np.float32([[2], [-0.5]])
    expected = [[float(x) ** float(e) for x in row] for row, (e,) in zip(POSITIVE, exponent, strict=True)]
    np.testing.assert_allclose(apply("Pow", [POSITIVE, exponent]), expected, rtol=1e-6)


@pytest.mark.parametrize("exponent_shape", [(2, 3), (3,), (2, 1), ()])
@pytest.mark.parametrize("source_shape", [(2, 3), (1, 3)])
def test_gradients_of_pow_match_finite_differences(source_shape, exponent_shape):
    source = RNG.uniform(0.5, 2, source_shape).astype(np.float32)
    exponent = RNG.uniform(-2, 2, exponent_shape).astype(np.float32)
    result = source.astype(np.float64) ** exponent
    delta = RNG.normal(size=result.shape).astype(np.float32)
    by_source = apply("PowBackprop", [source, delta, exponent])
    by_exponent = apply("PowBackpropExponent", [source, delta, result.astype(np.float32), exponent])
    np.testing.assert_allclose(by_source, slope(lambda x: x**exponent, source, delta), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_exponent, slope(lambda e: source**e, exponent, delta), rtol=1e-4, atol=1e-5)


def slope(function, at, delta, step=1e-6):
    """The gradient of ``sum(function(at) * delta)``, by central differences."""
    at = at.astype(np.float64)
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = ((function(up) - function(down)) * delta).sum() / (2 * step)
    return found


def test_gradients_of_pow_at_zero():
    zero, one = np.float32([0, 0, 0]), np.float32([1, 1, 1])
    exponent = np.float32([0, 1, 2])
    assert apply("PowBackprop", [zero, one, exponent]).tolist() == [0, 1, 0]
    assert apply("PowBackpropExponent", [zero, one, zero**exponent, exponent]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "shapes", "expected"),
    [
        ("PowBackprop", [(2, 3), (2, 3), (3,)], []),
        ("PowBackprop", [(2, 3), (2, 2), (3,)], ["gradient_fits"]),
        ("PowBackprop", [(2, 3), (2, 3), (2,)], ["gradient_fits"]),
        ("PowBackpropExponent", [(2, 3), (2, 3), (2, 3), (3,)], []),
        ("PowBackpropExponent", [(2, 3), (2, 3), (2, 4), (3,)], ["gradient_fits"]),
    ],
)
def test_gradient_rules_of_pow(kind, shapes, expected):
    assert rules(kind, [("f32", shape) for shape in shapes]) == expected


# Contents that decide shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [(), (1,)], ids=["at run time", "at build"])
@pytest.mark.parametrize(
    ("shape", "zero", "expected"),
    [([3, 2], False, (3, 2)), ([-1], False, (6,)), ([0, -1, 1], True, (2, 3, 1)), ([0, 0], True, (2, 3))],
)
def test_dynamic_reshape(shape, zero, expected, constant):
    found = apply("DynamicReshape", [A, np.array(shape, np.int32)], {"special_zero": zero}, constant=constant)
    assert found.shape == expected
    assert found.ravel().tolist() == A.ravel().tolist()


def test_dynamic_reshape_to_a_scalar():
    found = apply("DynamicReshape", [np.float32([[5]]), np.array([], np.int32)], {"special_zero": True})
    assert found.shape == ()


@pytest.mark.parametrize("constant", [(), (1,)], ids=["at run time", "at build"])
@pytest.mark.parametrize("order", [[1, 0, 2], [-1, 0, 1], [2, 1, 0], []])
def test_dynamic_transpose(order, constant):
    source = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    found = apply("DynamicTranspose", [source, np.array(order, np.int32)], constant=constant)
    axes = order or [2, 1, 0]
    for place in np.ndindex(found.shape):
        origin = [0, 0, 0]
        for axis, position in zip(axes, place, strict=True):
            origin[axis] = position
        assert found[place] == source[tuple(origin)]


@pytest.mark.parametrize("constant", [(), (1,)], ids=["at run time", "at build"])
@pytest.mark.parametrize("indices", [[1, 0, 1], [[-1], [0]], 1])
def test_index(indices, constant):
    found = apply("Index", [A, np.array(indices, np.int32)], constant=constant)
    expected = np.array([A[i].tolist() for i in np.ravel(indices)], np.float32).reshape(*np.shape(indices), 3)
    np.testing.assert_array_equal(found, expected)


def built(kind, parameter, attrs=None, shape=(2, 3)):
    graph = og.Graph(edition=EDITION)
    return graph.op(kind, [graph.input("x", og.f32, shape), graph.input("p", og.s32, parameter)], attrs).shape


def test_shapes_from_contents_are_unknown_at_build():
    assert built("DynamicReshape", (3,), {"special_zero": False}) == (None, None, None)
    assert built("DynamicReshape", (None,), {"special_zero": False}) is None
    assert built("DynamicTranspose", (2,)) == (None, None)
    assert built("DynamicTranspose", (2,), shape=None) == (None, None)
    assert built("DynamicTranspose", (0,)) == (3, 2)
    assert built("Index", (4, None)) == (4, None, 3)


@pytest.mark.parametrize(
    ("kind", "attrs", "parameter", "rule"),
    [
        ("DynamicReshape", {"special_zero": False}, [-1, -1], "one_open_dim"),
        ("DynamicReshape", {"special_zero": False}, [-2, 3], "shape_values"),
        ("DynamicReshape", {"special_zero": True}, [2, 3, 0], "zero_has_source"),
        ("DynamicReshape", {"special_zero": False}, [4], "element_count"),
        ("DynamicReshape", {"special_zero": False}, [[2, 3]], "parameter_vector"),
        ("DynamicTranspose", {}, [0, 0], "order_permutes"),
        ("DynamicTranspose", {}, [0, 2], "order_permutes"),
        ("Index", {}, [2], "indices_in_range"),
        ("Index", {}, [-3], "indices_in_range"),
    ],
)
def test_checks_contents_once_known(kind, attrs, parameter, rule):
    parameter = np.array(parameter, np.int32)
    with pytest.raises(og.SpecError) as caught:
        apply(kind, [A, parameter], attrs, constant=(1,))
    assert rule in [violation.rule for violation in caught.value.violations]
    assert " src" not in str(caught.value)
    if parameter.ndim == 1:
        with pytest.raises((og.SpecError, og.ArgumentError), match=kind):
            apply(kind, [A, parameter], attrs)


def test_rejects_order_of_wrong_length():
    assert rules("DynamicTranspose", [("f32", (2, 3)), ("s32", (3,))]) == ["order_length"]


# Whole graphs --------------------------------------------------------------------------------------------------------


def small_network():
    """A graph with ops of every kind: renamed, without successor, with swapped axes, read from contents."""
    rng = np.random.default_rng(3)
    graph = og.Graph(edition=EDITION)
    x = graph.input("x", og.f32, (1, 5, 5, 4))
    shape = graph.input("shape", og.s32, (2,))
    filters = graph.constant(rng.normal(size=(3, 4, 2, 2)).astype(np.float32))
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    conv = graph.op("ConvTranspose", [x, filters], {**window, "groups": 2, "filter_format": "OIX"})
    pool = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    pooled = graph.op("MaxPool", [graph.op("ReLU", [conv])], pool)
    ones = graph.constant(np.ones((1, 3, 3, 6), np.float32))
    indices = graph.constant(np.zeros((1, 3, 3, 6), np.uint8))
    delta = graph.op("MaxPoolBackprop", [conv, ones, indices], pool)
    gradient = graph.op(
        "ConvTransposeBackpropFilters",
        [x, delta],
        {**window, "groups": 2, "filter_format": "OIX", "filter_shape": [3, 4, 2, 2]},
    )
    flat = graph.op("DynamicReshape", [pooled, shape], {"special_zero": True})
    power = graph.op("Pow", [flat, graph.constant(np.float32([2]))])
    graph.output("power", graph.op("Negative", [power]))
    graph.output("gradient", gradient)
    return graph, {"x": rng.normal(size=(1, 5, 5, 4)).astype(np.float32), "shape": np.array([0, -1], np.int32)}


def test_network_on_numpy():
    graph, inputs = small_network()
    found = run(graph, inputs)
    assert found["power"].shape == (1, 54)
    assert found["gradient"].shape == (3, 4, 2, 2)
    assert (found["power"] <= 0).all()


def test_network_compiled():
    pytest.importorskip("onegraph.capi", exc_type=ImportError)
    graph, inputs = small_network()
    expected = run(graph, inputs)
    model = graph.compile()
    found = model(**inputs)
    np.testing.assert_allclose(found.power, expected["power"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.gradient, expected["gradient"], rtol=1e-4, atol=1e-4)
    assert "Pow is not an op of the library" in str(model.report())
    found = model(x=inputs["x"], shape=np.array([27, 2], np.int32))
    np.testing.assert_allclose(found.power.ravel(), expected["power"].ravel(), rtol=1e-4, atol=1e-4)


def test_pow_cannot_be_translated():
    assert translate("Pow", source=EDITION, target="onednn-3.13").kind is None
    assert translate("Pow", {"beta": 2.0}, source="onednn-3.13", target=EDITION).kind is None


def test_select_rejects_shapes_that_do_not_broadcast():
    found = og.check_op("Select", {}, [("boolean", (1,)), ("f32", (2,)), ("f32", (3,))], edition=EDITION)
    assert [(violation.rule, violation.where) for violation in found] == [("broadcastable", "else")]


@pytest.mark.parametrize(("words", "shape"), [("XIO", (3, 3, 5, 7)), ("OIX", (7, 5, 3, 3))])
@pytest.mark.parametrize("constant", [(), (2,)])
def test_a_shape_of_filters_may_be_a_tensor(words, shape, constant):
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "filter_format": words}
    src, delta = (RNG.normal(size=dims).astype(np.float32) for dims in ((1, 4, 4, 5), (1, 6, 6, 7)))
    known = apply("ConvTransposeBackpropFilters", [src, delta], {**attrs, "filter_shape": shape})
    given = apply("ConvTransposeBackpropFilters", [src, delta, np.array(shape, np.int32)], attrs, constant=constant)
    np.testing.assert_array_equal(given, known)
