"""Host ops treat NaN and infinities as numpy and IEEE 754 do."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.opset.editions.registry import edition
from tests.helpers.host_cases import BINARY, UNARY, HostCase, graph_of

pytestmark = pytest.mark.library
ROW = np.float32([nan, 1, -2, inf, 0.5, -inf, 0, 3])
GRID = np.float32([[1, nan, 3], [-inf, 2, inf], [inf, inf, 0], [-inf, -inf, -inf]])
HALF = {"Log": np.log, "Sqrt": np.sqrt, "Acosh": np.arccosh, "Acos": np.arccos, "Asin": np.arcsin, "Atanh": np.arctanh}


def _i(*numbers):
    return np.array(numbers, np.int64)


def _known(*places):
    return frozenset(places)


def _elementwise():
    wide = ROW.astype(np.float64)
    for kind, function in {**UNARY, **HALF}.items():
        yield HostCase(kind, [ROW], [function(ROW)])
        yield HostCase(kind, [wide], [function(wide)])
    for kind, function in {**BINARY, "Divide": np.divide, "Pow": np.power}.items():
        yield HostCase(kind, [ROW, ROW[:, None]], [function(ROW, ROW[:, None])])
        yield HostCase(kind, [wide, wide[:, None]], [function(wide, wide[:, None])])
    divisors = np.float32([2, -2, inf, 0.5])[:, None]
    yield HostCase("Mod", [ROW, divisors], [np.fmod(ROW, divisors)], {"truncate": True})
    yield HostCase("Sigmoid", [ROW], [np.float32([nan, 0.7310586, 0.1192029, 1, 0.62245935, 0, 0.5, 0.95257413])])
    yield HostCase("Erf", [ROW], [np.float32([nan, 0.8427008, -0.9953223, 1, 0.5204999, -1, 0, 0.9999779])])
    yield HostCase("ReplaceNaN", [ROW, np.float32(7)], [np.where(np.isnan(ROW), np.float32(7), ROW)])
    yield HostCase("Where", [ROW > 0, ROW, ROW[::-1].copy()], [np.where(ROW > 0, ROW, ROW[::-1])])
    yield HostCase("Cast", [ROW], [np.array([True] * 6 + [False, True])], dtype=og.DataType.boolean)
    yield HostCase("Cast", [ROW], [wide], dtype=og.DataType.float64)


def _moved():
    one, every = _known(1), _known(1, 2, 3, 4)
    yield HostCase("Reshape", [GRID, _i(3, 4)], [GRID.reshape(3, 4)], known=one)
    yield HostCase("Squeeze", [GRID[:1]], [GRID[0]], {"axes": [0]})
    yield HostCase("Unsqueeze", [GRID], [GRID[None]], {"axes": [0]})
    yield HostCase("Transpose", [GRID], [GRID.T], {"order": [1, 0]})
    yield HostCase("Slice", [GRID, _i(0), _i(3), _i(1), _i(2)], [GRID[:, 0:3:2]], known=every)
    yield HostCase("Expand", [GRID, _i(2, 4, 3)], [np.broadcast_to(GRID, (2, 4, 3))], known=one)
    yield HostCase("Concat", [GRID, GRID[:, :1]], [np.concatenate([GRID, GRID[:, :1]], 1)], {"axis": 1})
    yield HostCase("Tile", [GRID, _i(1, 2)], [np.tile(GRID, (1, 2))], known=one)
    padded = np.pad(GRID, ((1, 0), (0, 1)), constant_values=nan)
    yield HostCase("Pad", [GRID, _i(1, 0, 0, 1), np.float32(nan)], [padded], known=one)
    yield HostCase("Triangle", [GRID], [np.tril(GRID)], {"upper": False})
    yield HostCase("Gather", [GRID, _i(3, 0)], [GRID[[3, 0]]], {"axis": 0})
    taps, shares = np.int64([[1, 0], [2, -1], [-1, -1]]), np.float32([[1, -1], [0, nan], [inf, nan]])
    sums = np.stack([GRID[1] - GRID[0], 0 * GRID[2], np.zeros(3, np.float32)])
    yield HostCase("WeightedGather", [GRID, taps, shares], [sums])
    yield HostCase("GatherElements", [GRID, np.int64([[0, 2, 1]])], [GRID[[[0, 2, 1]], [[0, 1, 2]]]], {"axis": 0})
    yield HostCase("GatherND", [GRID, np.int64([[0, 1], [1, 0]])], [np.float32([nan, -inf])])
    more = np.float32([nan, inf])
    yield HostCase("ScatterElements", [ROW, _i(1, 2), more], [np.float32([nan, nan, inf, inf, 0.5, -inf, 0, 3])])
    yield HostCase("ScatterND", [ROW, np.int64([[1], [2]]), more], [np.float32([nan, nan, inf, inf, 0.5, -inf, 0, 3])])
    largest = np.float32([nan, nan, inf, inf, 0.5, -inf, 0, 3])
    yield HostCase("ScatterND", [ROW, np.int64([[1], [2]]), more], [largest], {"reduction": "max"})
    hot = np.float32([[nan, inf], [inf, nan]])
    yield HostCase("OneHot", [_i(1, 0), _i(2), np.float32([nan, inf])], [hot], known=one)


def _reduced():
    wide = GRID.astype(np.float64)
    for kind, function in {
        "ReduceSum": np.sum,
        "ReduceMean": np.mean,
        "ReduceProd": np.prod,
        "ReduceMax": np.max,
        "ReduceMin": np.min,
    }.items():
        yield HostCase(kind, [wide], [function(wide, 1)], {"axes": [1]})
    yield HostCase("SumTo", [GRID, _i(4, 1)], [GRID.sum(1, keepdims=True)], known=_known(1))
    yield HostCase("ArgMax", [GRID], [_i(1, 2, 0, 0)], {"axis": 1})  # NaN is larger than every number
    yield HostCase("ArgMin", [GRID], [_i(1, 0, 2, 0)], {"axis": 1})  # numpy and PyTorch: NaN wins here, too
    most = [np.float32([[nan, 3], [inf, 2], [inf, inf], [-inf, -inf]]), np.int64([[1, 2], [2, 1], [0, 1], [0, 1]])]
    yield HostCase("TopK", [GRID, _i(2)], most, known=_known(1))
    yield HostCase("CumSum", [ROW[[1, 3, 4, 5, 6]]], [np.float32([1, inf, inf, nan, nan])])
    yield HostCase("NonZero", [ROW], [np.int64([[0, 1, 2, 3, 4, 5, 7]])])
    yield HostCase("MatMul", [wide[:2], wide[:2]], [wide[:2] @ wide[:2].T], {"transpose_b": True})


def _composed():
    """A NaN in a value counts for every query whose share of it is computed, and 0 times NaN is NaN."""
    query = np.ones((1, 1, 2, 1), np.float32)
    key = np.zeros((1, 1, 3, 1), np.float32)
    value = np.float32([1, 3, nan]).reshape(1, 1, 3, 1)
    mask = np.float32([[0, -inf, -inf], [-inf, -inf, -inf]])
    numbers = np.float32([1, 3, 5]).reshape(1, 1, 3, 1)
    yield HostCase("Attention", [query, key, value], [np.full((1, 1, 2, 1), np.float32(nan))])
    yield HostCase("Attention", [query, key, numbers, mask], [np.float32([1, 0]).reshape(1, 1, 2, 1)])
    yield HostCase("Attention", [query, key, value, mask], [np.full((1, 1, 2, 1), np.float32(nan))])
    last = np.int64([1])  # the keys behind are no keys
    yield HostCase("CachedAttention", [query[:, :, :1], key, value, last], [np.ones((1, 1, 1, 1), np.float32)])
    yield HostCase("CachedAttention", [query[:, :, :1], key, value, last + 2], [np.float32(nan).reshape(1, 1, 1, 1)])
    pairs = np.float32([1, nan, 2, inf]).reshape(1, 1, 1, 4)
    angle = np.float32([0.5, 1]).reshape(1, 1, 1, 2)
    yield HostCase("Rotary", [pairs, angle, angle], [np.float32([-0.5, nan, 1.5, nan]).reshape(1, 1, 1, 4)])
    yield HostCase("ExtendCache", [pairs, pairs * 2, last + 1], [np.concatenate([pairs, pairs * 2], 2)], {"room": 2})
    scores = np.float32([[inf, 0, 0], [nan, 0, 0]])
    head = [np.float32([[1, 2]]).reshape(1, 1, 1, 1, 2), np.float32([0, 1]).reshape(1, 1, 1, 2)]
    head += [np.float32([nan, inf, 1]).reshape(1, 1, 1, 3), np.float32([[1, inf, 0], [0, 0, 2]]).reshape(1, 1, 2, 3)]
    found = np.float32([[nan, nan, 0], [nan, inf, 3]]).reshape(1, 1, 2, 3)
    yield HostCase("LinearAttention", head, [np.float32([nan, nan, 6]).reshape(1, 1, 1, 1, 3), found])
    yield HostCase("Attention", [query, key, numbers, scores], [np.full((1, 1, 2, 1), np.float32(nan))])


def _detected():
    """A sample is NaN where its place is, or where one of its neighbours is, whatever the share."""
    row = np.float32([1, nan, 2, inf])
    yield HostCase("CumProd", [row], [np.float32([1, nan, nan, nan])])
    yield HostCase("CumProd", [row[::-1].copy()], [np.float32([inf, inf, nan, nan])])
    yield HostCase("Compress", [row, np.array([False, True, False, True])], [row[1::2]])
    window = {"kernel": [2], "strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    best, places = np.float32([[[nan, inf]]]), np.int64([[[1, 3]]])
    yield HostCase("MaxPoolPlaces", [row[None, None]], [best, places], window)
    unpooled = np.float32([[[0, nan, 0, inf]]])
    yield HostCase("MaxUnpool", [best, places, np.int64([1, 1, 4])], [unpooled], known=frozenset({2}))
    image, grid = row.reshape(1, 1, 1, 4), np.float32([[[[-1, 0], [1, 0], [nan, 0], [inf, 0]]]])
    for mode, padding, found in (
        ("nearest", "zeros", [1, inf, 0, 0]),
        ("nearest", "border", [1, inf, 1, inf]),
        ("linear", "zeros", [nan, inf, nan, nan]),
        ("linear", "border", [nan, inf, nan, inf]),
    ):
        attrs = {"mode": mode, "padding": padding, "align_corners": True}
        yield HostCase("GridSample", [image, grid], [np.float32(found).reshape(1, 1, 1, 4)], attrs)
    pixel = {name: [1, 1] for name in ("kernel", "strides", "dilations")} | {"pads_begin": [0, 0], "pads_end": [0, 0]}
    offsets = np.zeros((1, 2, 1, 4), np.float32)
    offsets[0, 0, 0, 3] = nan
    yield HostCase("DeformColumns", [image, offsets], [np.float32([[[[nan, nan, nan, nan]]]])], pixel)
    offsets, flat = np.nan_to_num(offsets, nan=9), np.ones((1, 1, 1, 4), np.float32)
    yield HostCase("DeformColumns", [flat, offsets], [np.float32([[[[1, 1, 1, 0]]]])], pixel)
    boxes, numbers = np.float32([[0, 0, nan, 1], [0, 0, 1, 1]]), np.array([0, 0], np.int64)
    cells = {"rows": 1, "columns": 1, "samples": 1, "half_pixel": False}
    yield HostCase("RoiAlign", [flat, boxes, numbers], [np.float32([nan, 1]).reshape(2, 1, 1, 1)], cells)


with np.errstate(all="ignore"):
    CASES = [*_elementwise(), *_moved(), *_reduced(), *_composed(), *_detected()]
# Kinds without floating-point numbers, or whose numbers have no places among others.
WITHOUT = {
    **dict.fromkeys(["And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"], "no floats"),
    **dict.fromkeys(["ShiftLeft", "ShiftRight", "Shape", "Size"], "no floats"),
    **dict.fromkeys(["Range", "NonMaxSuppression", "CountTuples"], "compares numbers alone"),
    **dict.fromkeys(["OnnxNode", "AllReduceStart", "AllReduceDone"], "foreign code"),
    **dict.fromkeys(["If", "Loop"], "graphs as attributes"),
    **dict.fromkeys(["PackedMatMul", "PackedGather", "PackedExperts"], "tests/kernels/test_packed_products.py"),
    **dict.fromkeys(["DynamicQuantizeLinear", "FakeQuantize"], "tests/kernels/test_quantizing_kernels.py"),
    "AttentionBackward": "the gradient of NaN: tests/from_torch/test_torch_special_values.py",
    **dict.fromkeys(["TreeEnsemble", "Classify", "LookUp", "CouplePairs"], "tests/from_onnx/test_onnx_learned.py"),
    "Recurrence": "tests/from_torch/test_torch_special_values.py",
}


def test_every_host_op_has_a_case_or_a_reason():
    kinds = {case.kind for case in CASES}
    assert kinds.isdisjoint(WITHOUT)
    assert kinds | {*WITHOUT} >= {*edition("host").schemas}


@grouped("case", CASES, key=lambda case: case.kind[0], label=lambda case: f"{case.kind} {case.inputs[0].dtype}")
def test_host_ops_keep_special_numbers(case):
    g, arrays = graph_of(case)
    found = g.compile()(**arrays)
    for array, wanted in zip(found if isinstance(found, tuple) else (found,), case.results, strict=True):
        assert array.shape == wanted.shape
        np.testing.assert_allclose(array, wanted, rtol=2e-6, atol=1e-6)
