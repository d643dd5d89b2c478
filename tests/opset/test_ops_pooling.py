"""Pooling: literal numbers, loops over single elements, finite differences, shapes and rules."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.finite_differences import finite_differences
from helpers.specification import check_op
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.ops.pooling import pool_geometry
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.values import convert
from onegraph.reference.run import reference_function

Floats = NDArray[np.float64]
PLAIN: dict[str, Any] = {"strides": [2], "pads_begin": [0], "pads_end": [0], "kernel": [3]}
F32 = DataType.f32


def make(kind: str, attrs: dict[str, Any], *tensors: TensorType) -> Call:
    schema = BASE[kind]
    return Call(schema, {k: convert(schema.attribute(k), v) for k, v in attrs.items()}, tensors)


def known(array: NDArray[Any]) -> TensorType:
    return TensorType(DataType.s32 if array.dtype.kind == "i" else F32, array.shape, array)


def run(kind: str, attrs: dict[str, Any], *arrays: NDArray[Any]) -> Floats:
    return reference_function(BASE[kind])(make(kind, attrs, *map(known, arrays)), *arrays)  # type: ignore[return-value]


def infer(kind: str, attrs: dict[str, Any], *shapes: Any) -> Any:
    call = make(kind, attrs, *(TensorType(F32, shape) for shape in shapes))
    return call.schema.shape(call)[0]


def row(*numbers: float) -> Floats:
    return np.array(numbers, dtype=np.float64).reshape(1, 1, -1)


def loops(src: Floats, out: tuple[int, ...], attrs: dict[str, Any], mode: str) -> Floats:
    """NCX pooling, one element at a time; ``mode`` is max, real or full."""
    n = src.ndim - 2
    dst = np.zeros((*src.shape[:2], *out))
    dilations = attrs.get("dilations", [1] * n)
    for place in np.ndindex(*dst.shape):
        values = []
        for k in product(*map(range, attrs["kernel"])):
            at = [place[2 + i] * attrs["strides"][i] + k[i] * dilations[i] - attrs["pads_begin"][i] for i in range(n)]
            if all(0 <= a < size for a, size in zip(at, src.shape[2:], strict=True)):
                values.append(src[(*place[:2], *at)])
        count = len(values) if mode == "real" else np.prod(attrs["kernel"])
        dst[place] = max(values) if mode == "max" else sum(values) / count
    return dst


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("MaxPool", {}, [3, 5]),
        ("MaxPool", {"rounding_type": "ceil"}, [3, 5, 6]),
        ("MaxPool", {"pads_begin": [1], "pads_end": [1]}, [2, 4, 6]),
        ("MaxPool", {"dilations": [2]}, [5]),
        ("MaxPool", {"auto_pad": "same_upper"}, [3, 5, 6]),
        ("MaxPool", {"auto_pad": "SAME_LOWER"}, [2, 4, 6]),
        ("MaxPool", {"auto_pad": "valid", "pads_end": [9]}, [3, 5]),
        ("AvgPool", {"exclude_pad": True}, [2, 4]),
        ("AvgPool", {"exclude_pad": True, "rounding_type": "ceil"}, [2, 4, 5.5]),
        ("AvgPool", {"exclude_pad": False, "rounding_type": "ceil"}, [2, 4, 11 / 3]),
        ("AvgPool", {"exclude_pad": False, "pads_begin": [1]}, [1, 3, 5]),
        ("AvgPool", {"exclude_pad": True, "pads_begin": [1]}, [1.5, 3, 5]),
        ("AvgPool", {"exclude_pad": True, "auto_pad": "same_upper"}, [2, 4, 5.5]),
        ("AvgPool", {"exclude_pad": False, "auto_pad": "same_lower"}, [1, 3, 5]),
    ],
)
def test_literal_numbers(kind: str, changes: dict[str, Any], expected: list[float]) -> None:
    attrs = {**PLAIN, "data_format": "NCX", **changes}
    src = row(1, 2, 3, 4, 5, 6)
    np.testing.assert_allclose(run(kind, attrs, src), row(*expected))
    assert infer(kind, attrs, src.shape) == (1, 1, len(expected))


def test_same_padding_with_ceil_rounding() -> None:
    # 8 elements, kernel 2, stride 4: rounding up would add a window behind the source.
    attrs = {**PLAIN, "kernel": [2], "strides": [4], "auto_pad": "same_upper", "rounding_type": "ceil"}
    assert infer("MaxPool", attrs, (1, 8, 3)) == (1, 2, 3)


def test_ceil_window_longer_than_the_source() -> None:
    attrs = {**PLAIN, "data_format": "NCX", "rounding_type": "ceil"}
    np.testing.assert_array_equal(run("MaxPool", attrs, row(7, 8)), row(8))


def test_max_pool_gradient_reaches_the_first_maximum() -> None:
    attrs = {**PLAIN, "data_format": "NCX", "strides": [1], "pads_begin": [1]}
    src, diff_dst = row(5, 5, 1, -np.inf, -np.inf, -np.inf), row(1, 2, 4, 8, 16)
    np.testing.assert_array_equal(run("MaxPoolBackward", attrs, src, diff_dst), row(3, 4, 8, 16, 0, 0))


def test_max_pool_gradient_reaches_the_last_nan() -> None:
    attrs = {**PLAIN, "data_format": "NCX", "strides": [1]}
    src, diff_dst = row(np.nan, 5, np.nan, 1, 2), row(1, 2, 4)
    np.testing.assert_array_equal(run("MaxPoolBackward", attrs, src, diff_dst), row(0, 0, 7, 0, 0))


def test_avg_pool_gradient_literal() -> None:
    attrs = {**PLAIN, "data_format": "NCX", "kernel": [2], "pads_end": [1], "src_shape": [1, 1, 3]}
    np.testing.assert_array_equal(run("AvgPoolBackward", {**attrs, "exclude_pad": True}, row(2, 4)), row(1, 1, 4))
    np.testing.assert_array_equal(run("AvgPoolBackward", {**attrs, "exclude_pad": False}, row(2, 4)), row(1, 1, 2))
    # The tensor overrides the attribute.
    np.testing.assert_array_equal(
        run("AvgPoolBackward", {**attrs, "exclude_pad": False, "pads_end": [0]}, row(2, 4), np.array([1, 1, 4])),
        row(1, 1, 2, 2),
    )


axis_numbers = st.tuples(st.integers(3, 7), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(axis_numbers, min_size=1, max_size=3),
    st.sampled_from(["floor", "ceil"]),
    st.sampled_from(["NXC", "NCX"]),
    st.sampled_from(["max", "real", "full"]),
    st.integers(1, 2),
    st.integers(0, 2**16),
)
def test_against_loops(
    axes: list[tuple[int, ...]], rounding: str, data_format: str, mode: str, dilation: int, seed: int
) -> None:
    sizes, kernel, strides, begin, end = map(list, zip(*axes, strict=True))
    kind = "MaxPool" if mode == "max" else "AvgPool"
    attrs: dict[str, Any] = {"strides": strides, "pads_begin": begin, "pads_end": end, "kernel": kernel}
    attrs |= {"data_format": data_format}
    attrs |= {"dilations": [dilation] * len(axes)} if mode == "max" else {"exclude_pad": mode == "real"}
    forward = {**attrs, "rounding_type": rounding}
    src = np.random.default_rng(seed).permutation(2 * 2 * int(np.prod(sizes))).reshape(2, 2, *sizes) / 7
    given = src if data_format == "NCX" else np.moveaxis(src, 1, -1)
    shape = infer(kind, forward, given.shape)
    spatial = shape[2:] if data_format == "NCX" else shape[1:-1]
    reach = [(k - 1) * (dilation if mode == "max" else 1) + 1 for k in kernel]
    for out, size, b, e, r, s in zip(spatial, sizes, begin, end, reach, strides, strict=True):
        fits = [p for p in range(50) if p * s + r <= size + b + e]
        rest = (size + b + e - r) % s if fits else 0
        if fits:
            assert out == len(fits) + (rounding == "ceil" and rest > 0)
    starts = [(o - 1) * s - b < n for o, s, b, n in zip(spatial, strides, begin, sizes, strict=True)]
    lone = any(b >= r for b, r in zip(begin, reach, strict=True)) or not all(starts)
    if min(spatial) < 1 or (lone and mode != "full"):
        rules = {v.rule for v in check_op(kind, forward, [("f32", given.shape)])}
        assert mode == "max" or rules & {"spatial_fits", "window_meets_source"}
        return
    if (
        mode == "max"
        and dilation > 1
        and not all(
            any(0 <= p * s + k * dilation - b < n for k in range(length))
            for length, s, b, n, o in zip(kernel, strides, begin, sizes, spatial, strict=True)
            for p in range(o)
        )
    ):
        return
    assert check_op(kind, forward, [("f32", given.shape)]) == []
    dst = run(kind, forward, given)
    assert dst.shape == shape
    expected = loops(src, spatial, attrs, mode)
    np.testing.assert_allclose(dst if data_format == "NCX" else np.moveaxis(dst, -1, 1), expected)

    if src.size > 100:
        return
    diff_dst = np.random.default_rng(seed).normal(size=dst.shape)
    numeric = finite_differences(lambda x: run(kind, forward, x), given, diff_dst)
    if mode == "max":
        actual = run("MaxPoolBackward", attrs, given, diff_dst)
        assert check_op("MaxPoolBackward", attrs, [("f32", given.shape), ("f32", dst.shape)]) == []
    else:
        actual = run("AvgPoolBackward", {**attrs, "src_shape": given.shape}, diff_dst)
    np.testing.assert_allclose(actual, numeric, atol=1e-6)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("kind", ["MaxPoolBackward", "AvgPoolBackward"])
def test_gradient_with_auto_pad(kind: str, auto_pad: str) -> None:
    attrs = {**PLAIN, "auto_pad": auto_pad} | ({"exclude_pad": True} if kind.startswith("Avg") else {})
    src = np.random.default_rng(1).permutation(16).reshape(1, 8, 2) / 3
    dst = run(kind.removesuffix("Backward"), attrs, src)
    diff_dst = np.random.default_rng(2).normal(size=dst.shape)
    numeric = finite_differences(lambda x: run(kind.removesuffix("Backward"), attrs, x), src, diff_dst)
    first = [diff_dst] if kind.startswith("Avg") else [src, diff_dst]
    given = {**attrs, "src_shape": [1, 8, 2]} if kind.startswith("Avg") else attrs
    np.testing.assert_allclose(run(kind, given, *first), numeric, atol=1e-6)
    assert check_op(kind, given, [("f32", array.shape) for array in first]) == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_covering_window_unifies_both_roundings(rounding: str) -> None:
    found = pool_geometry(make("MaxPool", {**PLAIN, "rounding_type": rounding}, TensorType(F32, (1, 6, 2))))
    assert found is not None
    window = found.covering(0)
    assert window is not None
    assert (window.begin, window.end) == ((0, -1) if rounding == "floor" else (0, 1))
    assert window.forward(6) == found.counts[0]


@pytest.mark.parametrize(
    ("kind", "attrs", "shapes", "expected"),
    [
        ("MaxPool", PLAIN, [None], None),
        ("MaxPool", PLAIN, [(None, None, 4)], (None, None, 4)),
        ("MaxPool", PLAIN, [(2, 9, None)], (2, 4, None)),
        ("MaxPool", {**PLAIN, "auto_pad": "same_upper"}, [(2, None, 4)], (2, None, 4)),
        ("MaxPool", {**PLAIN, "data_format": "NCX"}, [(2, 9, None)], (2, 9, None)),
        ("MaxPool", PLAIN, [(2, 9, 9, 4)], None),
        ("MaxPoolBackward", PLAIN, [(2, None, 4), None], (2, None, 4)),
        ("AvgPoolBackward", {**PLAIN, "exclude_pad": True, "src_shape": [2, 9, 4]}, [None], (2, 9, 4)),
        ("AvgPoolBackward", {**PLAIN, "exclude_pad": True}, [(2, 4, 5), (3,)], (2, None, 5)),
        ("AvgPoolBackward", {**PLAIN, "exclude_pad": True}, [None, (3,)], (None, None, None)),
        ("AvgPoolBackward", {**PLAIN, "exclude_pad": True}, [None, None], None),
    ],
)
def test_unknown_dims(kind: str, attrs: dict[str, Any], shapes: list[Any], expected: Any) -> None:
    assert infer(kind, attrs, *shapes) == expected


AVG = {**PLAIN, "exclude_pad": True}
BACK = {**AVG, "src_shape": [1, 7, 2]}


@pytest.mark.parametrize(
    ("kind", "attrs", "shapes", "rule", "where"),
    [
        ("MaxPool", PLAIN, [(5, 3)], "spatial_rank", "src"),
        ("MaxPool", PLAIN, [(1, 5, 5, 3)], "spatial_list_length", "kernel"),
        ("MaxPool", {**PLAIN, "dilations": [1, 1]}, [(1, 5, 3)], "spatial_list_length", "dilations"),
        ("MaxPool", {**PLAIN, "dilations": [3]}, [(1, 6, 3)], "spatial_fits", "src"),
        ("AvgPool", AVG, [(1, 2, 3)], "spatial_fits", "src"),
        ("AvgPool", {**AVG, "pads_begin": [3]}, [(1, 5, 3)], "window_meets_source", "pads_begin"),
        ("AvgPool", {**AVG, "pads_end": [4]}, [(1, 5, 3)], "window_meets_source", "pads_end"),
        (
            "AvgPool",
            {**AVG, "kernel": [1], "strides": [3], "rounding_type": "ceil"},
            [(1, 3, 3)],
            "window_meets_source",
            "pads_end",
        ),
        ("AvgPool", {**AVG, "rounding_type": "up"}, [(1, 5, 3)], "attribute_value", "rounding_type"),
        ("AvgPool", PLAIN, [(1, 5, 3)], "missing_attribute", "exclude_pad"),
        ("AvgPoolBackward", AVG, [(1, 3, 2)], "shape_source", "src_shape"),
        ("AvgPoolBackward", {**BACK, "src_shape": [1, 7]}, [(1, 3, 2)], "shape_length", "src_shape"),
        ("AvgPoolBackward", {**BACK, "src_shape": [7]}, [None], "shape_length", "src_shape"),
        ("AvgPoolBackward", BACK, [(1, 4, 2)], "spatial_fits", "diff_dst"),
        ("AvgPoolBackward", {**BACK, "kernel": [10]}, [(1, 1, 2)], "spatial_fits", "src_shape"),
        ("AvgPoolBackward", BACK, [(2, 3, 2)], "gradient_match", "diff_dst"),
        ("MaxPoolBackward", PLAIN, [(1, 7, 2), (1, 3, 5)], "gradient_match", "diff_dst"),
        ("MaxPoolBackward", PLAIN, [(1, 7, 2), (1, 3, 1, 2)], "gradient_match", "diff_dst"),
        ("MaxPoolBackward", PLAIN, [(1, 8, 2), (1, 2, 2)], "spatial_fits", "diff_dst"),
        ("MaxPoolBackward", {**PLAIN, "auto_pad": "same_upper"}, [(1, 7, 2), (1, 3, 2)], "spatial_fits", "diff_dst"),
        (
            "MaxPoolBackward",
            {**PLAIN, "auto_pad": "same_upper", "kernel": [2], "strides": [4]},
            [(1, 8, 2), (1, 3, 2)],
            "spatial_fits",
            "diff_dst",
        ),
    ],
)
def test_rules(kind: str, attrs: dict[str, Any], shapes: list[Any], rule: str, where: str) -> None:
    found = check_op(kind, attrs, [("f32", shape) for shape in shapes])
    assert (rule, where) in {(violation.rule, violation.where) for violation in found}


def test_src_shape_tensor_of_another_rank() -> None:
    found = check_op("AvgPoolBackward", AVG, [("f32", (1, 3, 2)), ("s32", (3, 1))])
    assert [(violation.rule, violation.where) for violation in found] == [("shape_length", "src_shape")]
    assert check_op("AvgPoolBackward", AVG, [("f32", (1, 3, 2)), ("s32", (3,))]) == []


@pytest.mark.parametrize("reach", [2**20, 2**40])
def test_window_that_is_mostly_padding(reach: int) -> None:
    attrs = {
        "strides": [1],
        "pads_begin": [reach],
        "pads_end": [reach - 2],
        "kernel": [2 * reach],
        "data_format": "NCX",
    }
    src = row(1, 4, 2)
    np.testing.assert_array_equal(run("MaxPool", attrs, src), row(4, 4))
    np.testing.assert_array_equal(run("AvgPool", {**attrs, "exclude_pad": True}, src), row(7 / 3, 7 / 3))
    np.testing.assert_array_equal(run("AvgPool", {**attrs, "exclude_pad": False}, src) * 2 * reach, row(7, 7))
    np.testing.assert_array_equal(run("MaxPoolBackward", attrs, src, row(1, 8)), row(0, 9, 0))
    attrs = {**attrs, "src_shape": [1, 1, 3], "exclude_pad": True}
    np.testing.assert_array_equal(run("AvgPoolBackward", attrs, row(3, 6)), row(3, 3, 3))
