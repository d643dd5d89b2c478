"""The movement category: numbers by loops, shapes known and unknown, and every rule."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from helpers.specification import check_op, shape_of
from numpy.typing import NDArray

from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.signature import AttrValue, Shape
from onegraph.reference.run import reference_function

Floats = NDArray[np.float64]


def run(kind: str, attrs: dict[str, AttrValue], *arrays: Floats) -> Floats:
    call = Call(BASE[kind], attrs, [TensorType(None, array.shape, array) for array in arrays])
    result = np.asarray(reference_function(BASE[kind])(call, *arrays))
    assert (result.shape,) == BASE[kind].shape(call)
    return result


def count(*shape: int) -> Floats:
    return np.arange(float(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_concat_against_a_loop(axis: int) -> None:
    shapes = [[2, 3, 2] for _ in range(3)]
    for size, shape in enumerate(shapes):
        shape[axis] = size
    parts = [count(*shape) + 100 * index for index, shape in enumerate(shapes)]
    got = run("Concat", {"axis": axis}, *parts)
    start = 0
    for part in parts:
        for place in np.ndindex(*part.shape):
            there = list(place)
            there[axis] += start
            assert got[tuple(there)] == part[place]
        start += part.shape[axis]
    assert got.shape[axis] == start


def test_concat_of_one_and_of_a_hundred() -> None:
    assert run("Concat", {"axis": 0}, count(2)).tolist() == [0, 1]
    assert run("Concat", {"axis": 0}, *[count(1)] * 100).shape == (100,)
    assert check_op("Concat", {"axis": 0}, [("f32", (1,))] * 100, [("f32", (100,))]) == []


@pytest.mark.parametrize(
    ("axis", "shapes", "expected"),
    [
        (1, [(2, 3), (2, 4)], (2, 7)),
        (-1, [(None, 3), (2, 4)], (2, 7)),
        (1, [(2, None), (2, 4)], (2, None)),
        (1, [None, (2, 4)], (2, None)),
        (1, [None, None], None),
        (0, [(1, None, 5), (1, 4, None)], (2, 4, 5)),
    ],
)
def test_concat_shape(axis: int, shapes: list[Shape], expected: Shape) -> None:
    assert shape_of("Concat", {"axis": axis}, *shapes) == expected


def test_reorder_is_the_identity() -> None:
    assert run("Reorder", {}, count(2, 2)).tolist() == [[0, 1], [2, 3]]
    assert shape_of("Reorder", {}, (None, 2)) == (None, 2)


@pytest.mark.parametrize(
    ("src", "shape", "special_zero", "expected"),
    [
        ((2, 6), (3, 4), False, (3, 4)),
        ((2, 6), (-1, 3), False, (4, 3)),
        ((2, 6), (0, -1, 2), True, (2, 3, 2)),
        ((2, 6), (0, 0), True, (2, 6)),
        ((0, 6), (0,), False, (0,)),
        ((0, 6), (3, 0), False, (3, 0)),
        ((0, 6), (0, 9), True, (0, 9)),
        ((0, 6), (-1, 3), False, (0, 3)),
        ((1, 1), (), False, ()),
        ((), (1, -1), False, (1, 1)),
    ],
)
def test_static_reshape(src: tuple[int, ...], shape: tuple[int, ...], special_zero: bool, expected: object) -> None:
    attrs: dict[str, AttrValue] = {"shape": shape, "special_zero": special_zero}
    got = run("StaticReshape", attrs, count(*src))
    assert got.shape == expected
    assert got.ravel().tolist() == count(*src).ravel().tolist()
    assert check_op("StaticReshape", attrs, [("f32", src)]) == []


@pytest.mark.parametrize(
    ("src", "shape", "expected"),
    [
        ((None, 6), (0, -1), (None, 6)),
        ((None, 4, 6), (0, 2, -1), (None, 2, 12)),
        ((None, 4), (-1, 2), (None, 2)),
        ((None, None), (4, -1), (4, None)),
        (None, (0, -1, 5), (None, None, 5)),
        (None, (3, 5), (3, 5)),
    ],
)
def test_static_reshape_of_unknown_shapes(src: Shape, shape: tuple[int, ...], expected: Shape) -> None:
    attrs: dict[str, AttrValue] = {"shape": shape, "special_zero": True}
    assert shape_of("StaticReshape", attrs, src) == expected
    assert check_op("StaticReshape", attrs, [("f32", src)]) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("negative", [False, True])
def test_static_transpose_against_a_loop(order: tuple[int, ...], negative: bool) -> None:
    src = count(2, 3, 4)
    got = run("StaticTranspose", {"order": tuple(axis - 3 if negative else axis for axis in order)}, src)
    for place in product(*map(range, src.shape)):
        assert got[tuple(place[axis] for axis in order)] == src[place]


@pytest.mark.parametrize(
    ("src", "order", "expected"),
    [
        ((2, 3, 4), (), (4, 3, 2)),
        ((), (), ()),
        ((None, 3), (1, 0), (3, None)),
        (None, (1, 0), (None, None)),
        (None, (), None),
    ],
)
def test_static_transpose_shape(src: Shape, order: tuple[int, ...], expected: Shape) -> None:
    assert shape_of("StaticTranspose", {"order": order}, src) == expected
    assert check_op("StaticTranspose", {"order": order}, [("f32", src)]) == []


def test_empty_order_reverses_the_axes() -> None:
    assert run("StaticTranspose", {"order": ()}, count(2, 2)).tolist() == [[0, 2], [1, 3]]


def reshaped(*shape: int, zero: bool = False) -> dict[str, object]:
    return {"shape": shape, "special_zero": zero}


@pytest.mark.parametrize(
    ("kind", "attrs", "shapes", "rule", "where"),
    [
        ("Concat", {"axis": 2}, [(2, 3), (2, 3)], "axis_in_range", "axis"),
        ("Concat", {"axis": 0}, [()], "axis_in_range", "axis"),
        ("Concat", {"axis": 0}, [(2, 3), None, (2,)], "ranks_alike", "src_i"),
        ("Concat", {"axis": 0}, [(None, 3), (2, None), (2, 4)], "dims_alike", "src_i"),
        ("Concat", {"axis": 0}, [], "input_count", "inputs"),
        ("StaticReshape", reshaped(-1, -1), [(2, 6)], "one_open_dim", "shape"),
        ("StaticReshape", reshaped(-2, 6), [(2, 6)], "attribute_range", "shape"),
        ("StaticReshape", reshaped(2, 6, 0, zero=True), [(2, 6)], "zero_has_source", "shape"),
        ("StaticReshape", reshaped(2, 7), [(2, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(0, 7), [(2, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(0, 7, zero=True), [(2, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(-1, 5), [(2, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(0, -1, 5, zero=True), [(None, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(0, -1), [(0, 6)], "element_count", "shape"),
        ("StaticReshape", reshaped(0, -1, zero=True), [(0, 6)], "element_count", "shape"),
        ("StaticTranspose", {"order": [0, 0]}, [(2, 3)], "order_permutes", "order"),
        ("StaticTranspose", {"order": [0, -2]}, [None], "order_permutes", "order"),
        ("StaticTranspose", {"order": [0, 2]}, [(2, 3)], "order_permutes", "order"),
        ("StaticTranspose", {"order": [1, 2]}, [(2, 3)], "order_permutes", "order"),
        ("StaticTranspose", {"order": [0]}, [(2, 3)], "order_permutes", "order"),
    ],
)
def test_rules(kind: str, attrs: dict[str, object], shapes: list[Shape], rule: str, where: str) -> None:
    found = check_op(kind, attrs, [("f32", shape) for shape in shapes])
    assert [(violation.rule, violation.where) for violation in found] == [(rule, where)]


def test_inputs_must_share_a_type() -> None:
    assert [found.rule for found in check_op("Concat", {"axis": 0}, [("f32", (2,)), ("f16", (2,))])] == ["data_type"]
    assert [found.rule for found in check_op("Reorder", {}, [("f32", (2,))], [("f16", (2,))])] == ["data_type"]
