"""The gradient of every op against finite differences in float64."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.gradient_cases import BASE_CASES, FLOATS, HOST_CASES, Subject, subject_of
from helpers.grouped import grouped
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.gradient.rules.matmul import _are_few, _fits
from onegraph.gradient.rules.movement import sizes_of
from onegraph.gradient.rules.recurrence import refuse_many_steps
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import HOST

BASE_EDITION = "onednn-3.13"


@grouped("case", BASE_CASES)
def test_base_op_has_the_slope_of_finite_differences(case):
    subject = subject_of(case)
    if subject.wrt and subject.results:
        subject.check()


@grouped("case", HOST_CASES)
def test_host_op_has_the_slope_of_finite_differences(case):
    subject = subject_of(case, HOST)
    if subject.wrt and subject.results:
        subject.check()


# Numbers at which a rule takes another form, and numbers beside them.
NUMBERS = {
    "Pow": [{"beta": number} for number in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0)],
    "LeakyReLU": [{"alpha": number} for number in (0.0, 0.5, 1.0, 1.5, -0.5)],
    "Elu": [{"alpha": number} for number in (0.0, 0.5, 1.0, 2.0)],
    "Clamp": [{"min": low, "max": high} for low, high in ((-1.0, 1.0), (0.0, 2.0), (-9.0, 9.0), (1.0, 1.0))],
    "HardSigmoid": [{"alpha": slope, "beta": shift} for slope, shift in ((0.2, 0.5), (1.0, 0.0), (-0.5, 0.5))],
    "SoftPlus": [{"beta": number} for number in (1.0, 2.0, -1.0)],
}


@grouped("kind, attrs", [(kind, one) for kind, some in NUMBERS.items() for one in some], key=lambda one: one[0])
def test_numbers_of_an_op_have_the_slope_of_finite_differences(kind, attrs):
    src = np.float32([[-2.5, -0.75, -0.25], [0.25, 0.75, 2.5]])
    src = np.abs(src) if kind == "Pow" and attrs["beta"] % 1 else src
    Subject(kind, [src], attrs, None, None, BASE_EDITION).check()


def test_replace_nan_passes_the_gradient_on_where_src_is_a_number():
    g = og.Graph()
    x, value = g.input("x", og.f32, (4,)), g.input("value", og.f32, ())
    y = g.op("ReplaceNaN", [x, value], edition=HOST)
    gradients = g.gradient(y, [x, value], np.array([1, 2, 3, 4], np.float32))
    given = {"x": np.array([1, np.nan, np.inf, np.nan]), "value": np.array(7.0)}
    assert [one.tolist() for one in run_wide(g, given, gradients)] == [[1, 0, 3, 0], 6]


def few_of_each_kind():
    """Two cases of each op."""
    found = {}
    for case, words in [*((case, BASE_EDITION) for case in BASE_CASES), *((case, HOST) for case in HOST_CASES)]:
        if case.kind != "Wildcard":
            found.setdefault(case.kind, []).append((case, words))
    return [one for cases in found.values() for one in cases[:: max(1, len(cases) - 1)]]


def gradients_of(case, words, shape_of):
    """The gradients of an op by its inputs, whose shapes may be unknown; None if they are refused."""
    graph, ends, arrays = og.Graph(strict=False), [], {}
    for place, array in enumerate(case.inputs):
        dtype = None if array is None else OF_NUMPY[array.dtype]
        if dtype in FLOATS:
            arrays[f"x{place}"] = array
            ends.append(graph.input(f"x{place}", dtype, shape_of(array)))
        else:
            ends.append(None if array is None else graph.constant(array, dtype=dtype))
    options = {"dtype": case.dtype, "outputs": getattr(case, "outputs", None)}
    made = graph.op(case.kind, ends, case.attrs, edition=words, **{name: one for name, one in options.items() if one})
    results = [one for one in (made if isinstance(made, tuple) else (made,)) if one is not None and one.dtype in FLOATS]
    try:
        for place, one in enumerate(graph.gradient(results, [*graph.inputs.values()])):
            graph.output(f"d{place}", one)
    except og.UnsupportedError:
        return None
    return og.reference.run(graph, arrays)


@grouped("case, words", few_of_each_kind(), key=lambda one: one[1], label=lambda one: one[0].kind)
def test_gradients_of_unknown_shapes_are_those_of_known_ones_or_refused(case, words):
    known = gradients_of(case, words, lambda array: array.shape)
    some = [case.inputs, *([one] for one in case.inputs if len(case.inputs) > 1)]  # all are unknown, or one of them
    for unknown, is_open in product(some, (False, True)):

        def shape_of(array, unknown=unknown, is_open=is_open):
            is_known = all(array is not one for one in unknown)
            return array.shape if is_known else [None] * array.ndim if is_open else None

        found = gradients_of(case, words, shape_of)
        for name in found or {} if known else {}:
            np.testing.assert_allclose(found[name].astype(float), known[name].astype(float), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("shapes", "is_few"),
    [
        (((1, 4), (1, 4)), True),
        (((1, 4), (1, 3)), False),
        (((2, 8), (2, 8)), True),
        (((2, 8), (2, 7)), False),
        (((1, 1, 9), (1, 9)), False),
        (((None, 9), (1, 9)), False),
        (((1, 9), (None, 9)), False),
    ],
)
def test_rows_are_few_up_to_half_of_the_product_of_both_widths_over_their_sum(shapes, is_few):
    assert _are_few(*(SimpleNamespace(shape=shape) for shape in shapes)) is is_few


@pytest.mark.parametrize(
    ("shapes", "fits"), [(((2, 3, 4), (2, 3, 1)), True), (((2, 3, 4), (2, 2, 1)), False), (((2, 3), (2, 0)), False)]
)
def test_batches_of_both_sides_fit(shapes, fits):
    assert _fits(*(SimpleNamespace(shape=shape) for shape in shapes)) is fits


@pytest.mark.parametrize(("steps", "is_refused"), [(0, True), (1, False), (1024, False), (1025, True)])
def test_gradients_of_many_steps_are_refused(steps, is_refused):
    use = SimpleNamespace(op=SimpleNamespace(kind="Recurrence", name="r"))
    if not is_refused:
        refuse_many_steps(use, steps)
        return
    with pytest.raises(og.UnsupportedError, match=f"{steps} steps; expected at most 1024"):
        refuse_many_steps(use, steps)


@pytest.mark.parametrize(
    ("shape", "sizes"), [((2, 3), (2, 3)), ((None, 3), (-1, 3)), ((None, None), "dims"), (None, "dims"), ((), ())]
)
def test_sizes_for_a_reshape_have_one_unknown_dim_at_most(shape, sizes):
    use = SimpleNamespace(call=SimpleNamespace(shape=lambda _: shape), dims=lambda _: "dims")
    assert sizes_of(use, "src") == sizes


def test_the_order_of_a_transpose_tells_the_rank():
    graph = og.Graph()
    x = graph.input("x", "f32", None)
    turned = graph.static_transpose(x, order=[2, 0, -2])
    (gradient,) = graph.gradient(graph.multiply(turned, turned), [x])
    assert gradient.shape == (None,) * 3
    graph.output("dx", gradient)
    given = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(graph.compile()(given), 2 * given)
