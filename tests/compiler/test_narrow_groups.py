"""Groups of few channels in a Convolution, which are joined on CPUs without AVX-512."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.compiler.ir.edit import Edit
from onegraph.compiler.lower import lower
from onegraph.compiler.passes import narrow_groups
from onegraph.compiler.passes.narrow_groups import NOTE, joined_weights
from onegraph.faults.without_avx512 import ConvolutionGroups

RNG = np.random.default_rng(0)
WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


@pytest.fixture(autouse=True)
def without_avx512(monkeypatch):
    """Prepare programs as for a CPU without AVX-512; what they compute is the same on any CPU."""
    monkeypatch.setattr(narrow_groups, "has_avx512", lambda: False)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def compare(
    groups,
    source,
    result,
    layout="XIO",
    data_format="NXC",
    behind=(),
    is_constant=True,
    given=None,
    weights=None,
    **attrs,
):
    """Compare a Convolution with the reference; returns the number of groups that were joined to one, 1 for none."""
    g = og.Graph()
    channels, results = groups * source, groups * result
    shape = (2, 7, 6, channels) if data_format == "NXC" else (2, channels, 7, 6)
    cells = drawn(results, source, 3, 3) if layout == "OIX" else drawn(3, 3, source, results)
    cells = cells if weights is None else weights
    filters = g.constant(cells) if is_constant else g.input("w", "f32", cells.shape)
    ends = [g.input("x", "f32", shape), filters, g.constant(drawn(results))]
    how = {**WINDOW, **attrs, "groups": groups, "weights_format": layout, "data_format": data_format}
    y = g.op("Convolution", ends, how)
    for kind in behind:
        y = g.add(y, g.input("y", "f32", y.shape)) if kind == "Add" else g.op(kind, [y], {})
    g.output("out", y)
    arrays = {name: cells if name == "w" else drawn(*one.shape) for name, one in g.inputs.items()}
    if given is not None:
        arrays["x"] = given
    model = g.compile()
    with np.errstate(invalid="ignore"):
        expected = reference.run(g, arrays)["out"]
    np.testing.assert_allclose(model(**arrays), expected, rtol=1e-4, atol=1e-3)
    notes = [reason for part in model.report().partitions for reason in part.reasons]
    return next((count for count in range(1, 9) if NOTE.format(count) in notes), 1)


@pytest.mark.parametrize("layout", ["XIO", "OIX"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(
    ("groups", "source", "result", "joined"),
    [(8, 4, 4, 4), (8, 2, 2, 8), (8, 4, 8, 4), (8, 8, 4, 4), (6, 4, 4, 6), (6, 6, 6, 3), (5, 3, 3, 5), (16, 1, 2, 8)],
    ids=str,
)
def test_groups_of_few_channels_are_joined(groups, source, result, joined, layout, data_format):
    assert compare(groups, source, result, layout, data_format) == joined


@pytest.mark.parametrize("more", [{"strides": [2, 1]}, {"dilations": [2, 2]}, {"pads_begin": [0, 2]}], ids=str)
def test_other_windows_are_joined(more):
    assert compare(8, 4, 4, **more) == 4


@pytest.mark.parametrize("behind", [["ReLU"], ["Add"], ["Add", "ReLU"], ["ReLU", "Add"]], ids=" ".join)
def test_ops_behind_are_right(behind):
    assert compare(8, 4, 4, behind=behind) == 4


@pytest.mark.parametrize(("groups", "source", "result"), [(4, 8, 8), (2, 16, 16), (16, 1, 1), (1, 4, 4), (7, 4, 4)])
def test_other_groups_stay_or_join_what_divides_them(groups, source, result):
    assert compare(groups, source, result) == (7 if groups == 7 else 1)


def test_variable_weights_stay():
    assert compare(8, 4, 4, is_constant=False) == 1


@pytest.mark.parametrize("behind", [[], ["ReLU"], ["Add"]], ids=str)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_special_numbers_reach_no_other_group(number, data_format, behind):
    given = drawn(2, 7, 6, 32)
    given[0, 3, 2, 5] = given[1, 0, 0, 31] = number
    given = given if data_format == "NXC" else np.ascontiguousarray(np.moveaxis(given, -1, 1))
    assert compare(8, 4, 4, data_format=data_format, behind=behind, given=given) == 4


def test_weights_of_nan_stay():
    weights = drawn(3, 3, 4, 32)
    weights[1, 1, 2, 9] = np.nan
    assert compare(8, 4, 4, weights=weights) == 1


def test_with_avx512_groups_stay(monkeypatch):
    monkeypatch.setattr(narrow_groups, "has_avx512", lambda: True)
    assert compare(8, 4, 4) == 1


def test_what_was_said_of_a_convolution_stays():
    g = og.Graph()
    weights = g.constant(drawn(3, 3, 4, 32))
    g.output("y", g.op("Convolution", [g.input("x", "f32", (2, 7, 6, 32)), weights], {**WINDOW, "groups": 8}))
    edit = Edit(lower(g))
    (step,) = edit.graph.steps
    assert narrow_groups._joined(edit, step).note == NOTE.format(4)
    assert narrow_groups._joined(edit, step._replace(note="seen as an image")).note == "seen as an image"


def test_joined_weights_as_by_hand():
    weights = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32).reshape(4, 2, 1)  # O, I, X of 4 groups
    wanted = [[1, 2, 0, 0], [0, 0, 3, 4], [5, 6, 0, 0], [0, 0, 7, 8]]
    groups = ConvolutionGroups(4, 2, 1)
    np.testing.assert_array_equal(joined_weights(weights, groups, 2, True)[..., 0], wanted)
    turned = np.ascontiguousarray(weights.transpose(2, 1, 0))
    np.testing.assert_array_equal(joined_weights(turned, groups, 2, False)[0].T, wanted)
