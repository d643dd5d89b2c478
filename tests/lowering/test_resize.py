"""Places, neighbours and shares of resized axes, by hand and in plain loops over the formulas of ONNX."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.builder.graph import DataGraph
from onegraph.lowering.emitter import Emitter, NotLowered, Unsettled, dtype_of
from onegraph.lowering.open_resize import _alike_open, resized_open, resized_open_backward
from onegraph.lowering.open_samples import has_open_places, open_means, open_nearest, open_taps
from onegraph.lowering.resize import enlarged, resize
from onegraph.lowering.resize_axes import Axis, Sampling, nearest, places, settled_sizes, shares_of
from onegraph.transform.specialise import specialise

TWICE, HALF, TO_ONE = Axis(4, 8, 2.0), Axis(4, 2, 0.5), Axis(4, 1, 0.25)
CROP, CROP_TO_ONE = Axis(5, 3, 0.6, 0.25, 0.75), Axis(5, 1, 0.2, 0.25, 0.75)


@pytest.mark.parametrize(
    ("axis", "coordinates", "expected"),
    [
        (TWICE, "asymmetric", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]),
        (HALF, "asymmetric", [0, 2]),
        (TWICE, "half_pixel", [-0.25, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.25]),
        (HALF, "half_pixel", [0.5, 2.5]),
        (HALF, "align_corners", [0, 3]),
        (Axis(4, 7, 1.75), "align_corners", [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        (TO_ONE, "align_corners", [0]),
        (HALF, "pytorch_half_pixel", [0.5, 2.5]),
        (TO_ONE, "pytorch_half_pixel", [-0.5]),
        (TO_ONE, "half_pixel", [1.5]),
        (HALF, "half_pixel_symmetric", [0.5, 2.5]),
        # The result would have 3.2 elements, so the middle of the three is moved by 2 * (1 - 3 / 3.2).
        (Axis(4, 3, 0.8), "half_pixel_symmetric", [0.25, 1.5, 2.75]),
        (CROP, "tf_crop_and_resize", [1, 2, 3]),
        (CROP_TO_ONE, "tf_crop_and_resize", [2]),
        (HALF, "pytorch_nearest", [0, 2]),
        (HALF, "pytorch_nearest_exact", [1, 3]),
    ],
)
def test_places_are_those_by_hand(axis, coordinates, expected):
    np.testing.assert_allclose(places(axis, coordinates), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("axis", "coordinates", "rounding", "expected"),
    [
        (Axis(3, 6, 2.0), "asymmetric", "round_prefer_floor", [0, 0, 1, 1, 2, 2]),
        (Axis(3, 6, 2.0), "asymmetric", "round_prefer_ceil", [0, 1, 1, 2, 2, 2]),
        (Axis(2, 6, 3.0), "half_pixel", "round_prefer_floor", [0, 0, 0, 1, 1, 1]),
        (Axis(2, 6, 3.0), "half_pixel", "floor", [0, 0, 0, 0, 1, 1]),
        (Axis(2, 6, 3.0), "half_pixel", "ceil", [0, 0, 1, 1, 1, 1]),
    ],
)
def test_nearest_elements_are_those_by_hand(axis, coordinates, rounding, expected):
    assert nearest(axis, Sampling("nearest", coordinates, rounding)).tolist() == expected


def tap(mode, distance, slope):
    """The weight of an element at a distance: a tent, or the cubic of Keys."""
    far = abs(distance)
    if mode == "linear":
        return max(0.0, 1 - far)
    if far <= 1:
        return (slope + 2) * far**3 - (slope + 3) * far**2 + 1
    return slope * (far**3 - 5 * far**2 + 8 * far - 4) if far < 2 else 0.0


def shares_in_loops(axis, sampling):
    found = np.zeros((axis.count, axis.size))
    narrow = min(axis.scale, 1.0) if sampling.antialias else 1.0
    for row, at in enumerate(places(axis, sampling.coordinates)):
        taps = {index: tap(sampling.mode, (index - at) * narrow, sampling.cubic) for index in range(-30, 60)}
        if sampling.exclude_outside:
            taps = {index: weight for index, weight in taps.items() if 0 <= index < axis.size}
        total = math.fsum(taps.values())
        for index, weight in taps.items():
            found[row, min(max(index, 0), axis.size - 1)] += weight / total
    return found


@pytest.mark.parametrize("axis", [TWICE, HALF, Axis(7, 3, 3 / 7), Axis(3, 7, 2.3)], ids=str)
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling("linear"),
        Sampling("linear", antialias=True),
        Sampling("linear", "asymmetric", exclude_outside=True),
        Sampling("cubic"),
        Sampling("cubic", cubic=-0.5, antialias=True),
        Sampling("cubic", exclude_outside=True),
    ],
    ids=str,
)
def test_shares_are_those_of_the_formula(axis, sampling):
    matrix = shares_of(axis, sampling).matrix(axis.size)
    np.testing.assert_allclose(matrix, shares_in_loops(axis, sampling), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("dims", "sizes", "policy", "expected"),
    [
        ([4, 6], [8, 9], "stretch", ([8, 9], [2, 1.5])),
        ([4, 6], [8, 9], "not_larger", ([6, 9], [1.5, 1.5])),
        ([4, 6], [8, 9], "not_smaller", ([8, 12], [2, 2])),
        ([5, 10], [7, 10], "not_larger", ([5, 10], [1, 1])),
        ([5, 2], [7, 3], "not_larger", ([7, 3], [1.4, 1.4])),  # 2.8 is rounded to 3
        ([1, 2], [3, 5], "not_larger", ([3, 5], [2.5, 2.5])),  # 2.5 is rounded up
    ],
)
def test_sizes_keep_the_ratio_as_the_policy_says(dims, sizes, policy, expected):
    assert settled_sizes(dims, sizes, policy) == expected


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize(
    ("dtype", "mode", "has", "lacks"),
    [
        (og.u8, "linear", {"Cast"}, {"Sign"}),
        (og.s8, "linear", {"Cast", "Sign"}, set()),
        (og.u8, "nearest", set(), {"Cast", "Sign"}),
        (og.f32, "linear", set(), {"Sign"}),
    ],
)
def test_bytes_are_resized_as_numbers_of_f32(dtype, mode, has, lacks, is_open):
    graph = DataGraph()
    graph.input("x", dtype, (1, 1, None, 4))
    size = OpenSizes([6]).symbols[0] if is_open else 6
    whole = specialise(graph, {"x": (1, 1, size, 4)})
    src = whole.inputs["x"]
    result = resize(Emitter(whole), src, {2: Axis(size, 2 * size, 2.0)}, Sampling(mode))
    kinds = {op.kind for op in whole.ops}
    assert kinds >= has
    assert not kinds & lacks
    assert dtype_of(result) is dtype


def test_whole_numbers_of_other_types_are_not_resized_between_elements():
    graph = DataGraph()
    with pytest.raises(NotLowered, match="s32 is no data type of floats"):
        resize(Emitter(graph), graph.input("x", og.s32, (1, 1, 6, 4)), {2: TWICE}, Sampling("linear"))


@pytest.mark.parametrize(
    ("rank", "dtype", "factors", "mode", "scales"),
    [
        (4, og.f32, {2: 2.0}, "nearest", [2, 1]),
        (4, og.f32, {3: 3.0}, "linear", [1, 3]),
        (4, og.bf16, {2: 2.0, 3: 2.0}, "linear", [2, 2]),
        (5, og.f32, {4: 2.0}, "nearest", [1, 1, 2]),
        (6, og.f32, {4: 2.0}, "nearest", None),
        (4, og.f32, {1: 2.0}, "nearest", None),
        (4, og.f32, {2: 1.5}, "nearest", None),
        (4, og.f32, {2: 0.5}, "nearest", None),
        (4, og.s32, {2: 2.0}, "nearest", None),
        (4, og.f32, {2: 2.0}, "cubic", None),
    ],
)
def test_axes_of_unknown_size_that_one_op_enlarges(rank, dtype, factors, mode, scales):
    graph = DataGraph()
    src = graph.input("x", dtype, [None] * rank)
    if scales is None:
        with pytest.raises(Unsettled):
            enlarged(Emitter(graph), src, factors, Sampling(mode))
    else:
        result = enlarged(Emitter(graph), src, factors, Sampling(mode))
        (op,) = graph.ops
        assert (op.outputs[0], op.kind, op.attrs["mode"], [*op.attrs["scales"]]) == (
            result,
            "Interpolate",
            mode,
            scales,
        )


@pytest.mark.parametrize("coordinates", ["pytorch_nearest", "pytorch_nearest_exact", "align_corners"])
def test_axes_of_unknown_size_whose_places_are_rounded_wait(coordinates):
    """The places of few elements are those of an Interpolate; those of many are rounded in single precision."""
    graph = DataGraph()
    src = graph.input("x", og.f32, [None] * 4)
    with pytest.raises(Unsettled, match="unknown dims"):
        enlarged(Emitter(graph), src, {2: 3.0}, Sampling("nearest", coordinates, "floor"))


# Axes whose sizes a run may know alone; here they are known, so that the ops are computed at once.
RATIOS = [Axis(size, count, count / size, is_ratio=True) for size, count in ((4, 8), (4, 3), (5, 13), (5, 1), (1, 4))]
SCALED = [Axis(6, 3, 0.5), Axis(4, 10, 2.5), Axis(3, 7, 2.5), Axis(5, 1, 0.25)]
COORDINATES = "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"
ROUNDED = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_ceil": lambda at: math.floor(at + Fraction(1, 2)),
    "round_prefer_floor": lambda at: math.ceil(at - Fraction(1, 2)),
}


def exact_place(axis, index, coordinates):
    """The place of an element of the result, as a fraction."""
    scale = Fraction(axis.count, axis.size) if axis.is_ratio else Fraction(axis.scale)
    if coordinates == "align_corners":
        extent = scale * axis.size
        return Fraction(0) if extent == 1 else index * (axis.size - 1) / (extent - 1)
    if coordinates == "pytorch_half_pixel" and scale * axis.size == 1:
        return Fraction(-1, 2)
    return index / scale if coordinates == "asymmetric" else (index + Fraction(1, 2)) / scale - Fraction(1, 2)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_ops_find_the_places_of_open_sizes(coordinates):
    for axis, rounding in itertools.product([*RATIOS, *SCALED], ROUNDED):
        sampling = Sampling("nearest", coordinates, rounding)
        if has_open_places(axis, sampling):
            exact = [ROUNDED[rounding](exact_place(axis, Fraction(at), coordinates)) for at in range(axis.count)]
            wanted = [min(max(at, 0), axis.size - 1) for at in exact]
            assert open_nearest(Emitter(DataGraph()), axis, sampling).tolist() == wanted
        else:
            assert (axis.is_ratio, coordinates) == (False, "half_pixel_symmetric")


SAMPLINGS = [Sampling(mode, coordinates) for mode, coordinates in itertools.product(("linear", "cubic"), COORDINATES)]
SAMPLINGS += [Sampling("cubic", cubic=-0.5), Sampling("cubic", exclude_outside=True)]
SAMPLINGS += [
    Sampling("linear", "asymmetric", exclude_outside=True),
    Sampling("nearest"),
    Sampling("nearest", "asymmetric"),
]
SAMPLINGS += [Sampling("nearest", name, "floor") for name in ("asymmetric", "pytorch_nearest", "pytorch_nearest_exact")]


@pytest.mark.parametrize("number", range(len(SAMPLINGS)), ids=map(str, SAMPLINGS))
def test_axes_of_open_sizes_have_the_shares_of_the_formula(number):
    """Forwards and backwards, along the first axis and the last one; every second axis of the table."""
    sampling = SAMPLINGS[number]
    for axis, place in zip([*RATIOS, *SCALED][number % 2 :: 2], itertools.cycle((0, 2)), strict=False):
        if not axis.is_ratio and not has_open_places(axis, sampling):
            continue
        src = np.random.default_rng(0).standard_normal([axis.size if one == place else 3 for one in range(3)])
        src, emit = src.astype(np.float32), Emitter(DataGraph())
        matrix = shares_of(axis, sampling).matrix(axis.size)
        if sampling.mode != "nearest":
            matrix = shares_in_loops(axis, sampling)
            taps = np.zeros_like(matrix)
            for indices, shares in open_taps(emit, axis, sampling):
                np.add.at(taps, (np.arange(axis.count), indices), shares)
            np.testing.assert_allclose(taps, matrix, rtol=0, atol=1e-5)
        found = resized_open(emit, src, {place: axis}, sampling)
        wanted = np.moveaxis(np.tensordot(matrix, src, ([1], [place])), 0, place)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
        back = resized_open_backward(emit, found, {place: axis}, sampling)
        wanted = np.moveaxis(np.tensordot(matrix, found, ([0], [place])), 0, place)
        np.testing.assert_allclose(back, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("axis", "sampling", "are_found"),
    [
        (Axis(4, 1, 0.25), Sampling("nearest"), True),
        (Axis(4, 1, 1 / 128), Sampling("nearest"), False),
        (Axis(4, 1, 1 / 128), Sampling("linear"), True),
        (Axis(4, 1, 0.1), Sampling("linear"), False),
        (Axis(4, 1, 0.1, is_ratio=True), Sampling("nearest"), True),
        (Axis(4, 8, 2.0), Sampling("linear", "half_pixel_symmetric"), False),
        (Axis(4, 8, 2.0, is_ratio=True), Sampling("linear", "half_pixel_symmetric"), True),
        (Axis(4, 3, 0.75), Sampling("linear", antialias=True), False),
        (Axis(4, 3, 0.75), Sampling("linear"), True),
        (Axis(4, 4, 1.0), Sampling("linear", antialias=True), True),
        (Axis(4, 8, 2.0), Sampling("linear", antialias=True), True),
        (Axis(4, 8, 2.0), Sampling("linear", "tf_crop_and_resize"), False),
        (Axis(4, 8, 2.0), Sampling("nearest", "pytorch_nearest"), False),
    ],
)
def test_places_of_open_sizes_are_quotients_of_small_numbers(axis, sampling, are_found):
    assert has_open_places(axis, sampling) is are_found


@pytest.mark.parametrize(("size", "parts"), [(4, 2), (5, 2), (5, 3), (2, 5), (7, 7), (1, 3), (6, 1)])
def test_means_of_parts_of_an_open_axis(size, parts):
    src = np.arange(2 * size, dtype=np.float32).reshape(2, size) ** 2
    found = open_means(Emitter(DataGraph()), src, 1, size, parts)
    ends = [(part * size // parts, -(-(part + 1) * size // parts)) for part in range(parts)]
    np.testing.assert_allclose(found, np.stack([src[:, start:end].mean(1) for start, end in ends], 1), rtol=1e-6)


def ratio(size, count):
    """An axis whose scale is the ratio of its sizes."""
    return Axis(size, count, count / size, is_ratio=True)


@pytest.mark.parametrize(
    ("axis", "sampling", "is_alike"),
    [
        (ratio(4, 8), Sampling("linear"), True),
        (Axis(4, 8, 2.0), Sampling("linear"), False),
        (ratio(4, 6), Sampling("linear"), True),
        (ratio(4, 8), Sampling("linear", "half_pixel_symmetric"), True),
        (ratio(4, 8), Sampling("linear", "asymmetric"), False),
        (ratio(4, 8), Sampling("linear", "align_corners"), False),
        (ratio(4, 8), Sampling("linear", exclude_outside=True), False),
        (ratio(4, 2), Sampling("linear"), True),
        (ratio(4, 2), Sampling("linear", antialias=True), False),
        (ratio(4, 4), Sampling("linear", antialias=True), True),
        (ratio(4, 8), Sampling("linear", antialias=True), True),
        (ratio(4, 2), Sampling("linear", "pytorch_half_pixel"), True),
        (ratio(4, 1), Sampling("linear", "pytorch_half_pixel"), False),
        (ratio(4, 1), Sampling("linear", "half_pixel"), True),
        (ratio(4, 8), Sampling("cubic", "half_pixel", "round_prefer_ceil"), False),
        (ratio(4, 8), Sampling("nearest", "half_pixel", "round_prefer_ceil"), True),
        (ratio(4, 8), Sampling("nearest", "half_pixel", "round_prefer_floor"), True),
        (ratio(4, 8), Sampling("nearest", "half_pixel", "ceil"), False),
        (ratio(4, 8), Sampling("nearest", "asymmetric", "floor"), True),
        (ratio(4, 8), Sampling("nearest", "asymmetric", "round_prefer_ceil"), False),
        (Axis(4, 8, 2.0), Sampling("nearest", "asymmetric", "floor"), False),
        (ratio(4, 12), Sampling("nearest", "asymmetric", "floor"), True),
        (ratio(4, 6), Sampling("nearest", "half_pixel", "round_prefer_ceil"), False),
        (ratio(4, 2), Sampling("nearest", "half_pixel", "round_prefer_ceil"), False),
        (ratio(4, 8), Sampling("nearest", "align_corners", "floor"), False),
        (ratio(4, 8), Sampling("nearest", "pytorch_nearest", "floor"), True),
        (ratio(4, 16), Sampling("nearest", "pytorch_nearest_exact", "floor"), True),
        (ratio(4, 12), Sampling("nearest", "pytorch_nearest", "floor"), False),
        (ratio(4, 24), Sampling("nearest", "pytorch_nearest", "floor"), False),
    ],
)
def test_one_op_resizes_axes_of_all_sizes_alike(axis, sampling, is_alike):
    assert _alike_open(axis, sampling) is is_alike
