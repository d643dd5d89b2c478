"""Cases of host ops: inputs, attributes, and the expected results by numpy or worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onegraph as og
from onegraph.opset.dtypes import OF_NUMPY, DataType
from onegraph.serialize.words import as_word

Array = NDArray[Any]


@dataclass(frozen=True)
class HostCase:
    """One use of a host op.

    Attributes:
        kind, attrs, dtype: the op.
        inputs: the arrays; None for an absent input.
        known: indices of the inputs that are constants, as those that decide shapes.
        results: what the op computes.
    """

    kind: str
    inputs: Sequence[Array | None]
    results: Sequence[Array]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    known: frozenset[int] = frozenset()
    dtype: DataType | None = None


def _f(*shape: int) -> Array:
    """Different small numbers of both signs."""
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) * 7 % 11 - 5) / 4


def _i(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


UNARY = {
    "Abs": np.abs,
    "Negative": np.negative,
    "Sign": np.sign,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Exp": np.exp,
    "Floor": np.floor,
    "Round": np.rint,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
}
BINARY = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}


def cases() -> Iterator[HostCase]:
    """At least one case of every host op with a function of its own."""
    x = _f(2, 3, 4)
    for kind, function in UNARY.items():
        yield HostCase(kind, [x], [function(x)])
        yield HostCase(kind, [x.astype(np.float64)], [function(x.astype(np.float64))])
    for kind, function in BINARY.items():
        for dtype in (np.float32, np.float64, np.int64, np.uint8):
            first, second = (abs(x) * 4).astype(dtype), (abs(_f(3, 1)) * 3).astype(dtype) + np.ones((), dtype)
            if kind == "Subtract":
                first += np.full((), 200, dtype)
            yield HostCase(kind, [first, second], [function(first, second)])
    positive = abs(x) + 1
    yield HostCase("Log", [positive], [np.log(positive)])
    yield HostCase("Sqrt", [positive], [np.sqrt(positive)])
    yield HostCase("Acosh", [positive], [np.arccosh(positive)])
    for kind, function in {"Acos": np.arccos, "Asin": np.arcsin, "Atanh": np.arctanh}.items():
        yield HostCase(kind, [x / 2], [function(x / 2)])
    yield HostCase("Sigmoid", [x], [1 / (1 + np.exp(-x))])
    yield HostCase("Erf", [np.float32([0, 0.5, -1])], [np.float32([0, 0.5204999, -0.8427008])])
    yield from _integers()
    yield from _booleans(x)
    yield from _movement(x)
    yield from _indexing(x)
    yield from _reductions(x)
    yield from _attention()
    yield from _caches()
    yield from _linear()
    yield from _recurrence()
    yield from _control()
    yield from _packed()
    yield from _quantization()
    yield from _learned()


def _integers() -> Iterator[HostCase]:
    a, b = np.int64([7, -7, 7, -7]), np.int64([2, 2, -2, -2])
    yield HostCase("Divide", [a, b], [np.int64([3, -3, -3, 3])])
    yield HostCase("Divide", [np.float64([1, 1]), np.float64([4, 8])], [np.float64([0.25, 0.125])])
    yield HostCase("Mod", [a, b], [np.int64([1, 1, -1, -1])])
    yield HostCase("Mod", [a, b], [np.int64([1, -1, 1, -1])], {"truncate": True})
    yield HostCase("Pow", [np.int64([2, 3]), np.float32([3, 2])], [np.int64([8, 9])])
    yield HostCase("Pow", [np.float32([2, 4]), np.float32([-1, 0.5])], [np.float32([0.5, 2])])
    c, d = np.uint8([12, 10, 255]), np.uint8([10, 3, 1])
    yield HostCase("BitwiseAnd", [c, d], [np.uint8([8, 2, 1])])
    yield HostCase("BitwiseOr", [c, d], [np.uint8([14, 11, 255])])
    yield HostCase("BitwiseXor", [c, d], [np.uint8([6, 9, 254])])
    yield HostCase("BitwiseNot", [c], [np.uint8([243, 245, 0])])
    yield HostCase("ShiftLeft", [np.uint8([1, 3]), np.uint8([2, 1])], [np.uint8([4, 6])])
    yield HostCase("ShiftRight", [np.uint8([16, 7]), np.uint8([2, 1])], [np.uint8([4, 3])])
    yield HostCase("Cast", [np.float32([1.9, -1.9, 300])], [np.int64([1, -1, 300])], dtype=DataType.s64)
    yield HostCase("Cast", [np.int64([0, 2])], [np.array([False, True])], dtype=DataType.boolean)
    yield HostCase("Cast", [np.int64([3, -4])], [np.float64([3, -4])], dtype=DataType.float64)


def _booleans(x: Array) -> Iterator[HostCase]:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    yield HostCase("And", [a, b], [np.array([True, False, False, False])])
    yield HostCase("Or", [a, b], [np.array([True, True, True, False])])
    yield HostCase("Xor", [a, b], [np.array([False, True, True, False])])
    yield HostCase("Not", [a], [np.array([False, False, True, True])])
    infinite = np.float32([np.inf, -np.inf, np.nan, 1])
    yield HostCase("IsInf", [infinite], [np.array([True, False, False, False])], {"detect_negative": False})
    gone = np.float32([0, -np.inf, 7, 1])
    yield HostCase("ReplaceNaN", [np.float32([0, -np.inf, np.nan, 1]), np.float32(7)], [gone])
    yield HostCase("Where", [x > 0, x, _f(3, 1)], [np.where(x > 0, x, _f(3, 1))])
    yield HostCase("Where", [b, np.int64([1, 2, 3, 4]), _i(0)], [np.int64([1, 0, 3, 0])])


def _movement(x: Array) -> Iterator[HostCase]:
    one = frozenset({1})
    yield HostCase("Reshape", [x, _i(4, -1)], [x.reshape(4, 6)], known=one)
    yield HostCase("Squeeze", [x[:1]], [x[0]], {"axes": [0]})
    yield HostCase("Unsqueeze", [x], [x[:, None, :, :, None]], {"axes": [1, -1]})
    yield HostCase("Transpose", [x], [x.transpose(2, 0, 1)], {"order": [2, 0, 1]})
    every = frozenset({1, 2, 3, 4})
    yield HostCase("Slice", [x, _i(1, 0), _i(4, 2), _i(2, 1), _i(2, 1)], [x[:, 0:2, 1:4:2]], known=every)
    yield HostCase("Slice", [x, _i(-1), _i(-100), _i(2), _i(-1)], [x[:, :, ::-1]], known=every)
    yield HostCase("Slice", [x, _i(1), _i(2**62)], [x[1:]], known=every)
    yield HostCase("Expand", [_f(3, 1), _i(2, 1, 4)], [np.broadcast_to(_f(3, 1), (2, 3, 4))], known=one)
    yield HostCase("SumTo", [_f(2, 3, 4), _i(3, 1)], [_f(2, 3, 4).sum((0, 2)).reshape(3, 1)], known=one)
    yield HostCase("SumTo", [_f(3, 4), _i(3, 4)], [_f(3, 4)], {"dims": (-1, 4)}, known=one)
    yield HostCase("Concat", [x, x[:, :1]], [np.concatenate([x, x[:, :1]], 1)], {"axis": 1})
    yield HostCase("Tile", [x, _i(1, 2, 3)], [np.tile(x, (1, 2, 3))], known=one)
    pads = _i(0, 1, 0, 0, 0, 2)
    padded = np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=7)
    yield HostCase("Pad", [x, pads, np.float32(7)], [padded], known=one)
    for mode in ("edge", "reflect", "wrap"):
        yield HostCase("Pad", [x, pads], [np.pad(x, ((0, 0), (1, 0), (0, 2)), mode)], {"mode": mode}, one)
    yield HostCase("Pad", [x, _i(0, -1, 0, 0, 0, 0)], [x[:, 1:]], known=one)
    yield HostCase("Triangle", [x], [np.triu(x, 1)], {"offset": 1})
    yield HostCase("Triangle", [x], [np.tril(x)], {"upper": False})


def _indexing(x: Array) -> Iterator[HostCase]:
    yield HostCase("Gather", [x, np.int64([[0, -1], [2, 1]])], [np.take(x, [[0, 2], [2, 1]], 1)], {"axis": 1})
    places = np.int64([[[0, 1, 0, -1]]])
    found = np.array([[[x[0, 0, 0], x[1, 0, 1], x[0, 0, 2], x[1, 0, 3]]]])
    yield HostCase("GatherElements", [x[:, :1], places], [found], {"axis": 0})
    yield HostCase("GatherND", [x, np.int64([[0, 1], [1, 2]])], [np.stack([x[0, 1], x[1, 2]])])
    yield HostCase("GatherND", [x, np.int64([[2], [0]])], [np.stack([x[0, 2], x[1, 0]])], {"batch_dims": 1})
    row, more = np.float32([1, 2, 3]), np.float32([10, 20])
    yield HostCase("ScatterElements", [row, _i(2, 0), more], [np.float32([20, 2, 10])])
    yield HostCase("ScatterElements", [row, _i(1, 1), more], [np.float32([1, 32, 3])], {"reduction": "add"})
    yield HostCase("ScatterND", [row, np.int64([[1], [0]]), more], [np.float32([20, 10, 3])])
    yield HostCase("ScatterND", [row, np.int64([[1], [1]]), more], [np.float32([1, 20, 3])], {"reduction": "max"})
    taps, shares = np.int64([[0, 2, -1], [1, 1, 0], [-1, -1, -1]]), np.float32([[2, 1, 9], [1, -2, 3], [5, 5, 5]])
    sums = np.stack([2 * x[:, 0] + x[:, 2], 3 * x[:, 0] - x[:, 1], 0 * x[:, 0]], 1)
    yield HostCase("WeightedGather", [x, taps, shares], [sums], {"axis": 1})
    yield HostCase("WeightedGather", [row, _i([1, 2]), np.float32([[2, 0.5]])], [np.float32([5.5])])
    hot = np.float32([[0, 1, 0], [0, 0, 1]])
    yield HostCase("OneHot", [_i(1, -1), _i(3), np.float32([0, 1])], [hot], known=frozenset({1}))
    tied = np.float32([[3, 1, 3], [0, 0, -1]])
    yield HostCase("ArgMax", [tied], [_i(0, 0)], {"axis": 1})
    yield HostCase("ArgMax", [tied], [_i(2, 1)], {"axis": 1, "last": True})
    yield HostCase("ArgMin", [tied], [np.int64([[1], [2]])], {"axis": 1, "keep_dims": True})
    yield HostCase(
        "TopK", [tied, _i(2)], [np.float32([[3, 3], [0, 0]]), np.int64([[0, 2], [0, 1]])], known=frozenset({1})
    )
    least = [np.float32([[1, 3], [-1, 0]]), np.int64([[1, 0], [2, 0]])]
    yield HostCase("TopK", [tied, _i(2)], least, {"largest": False}, frozenset({1}))
    yield HostCase("NonZero", [np.int64([[0, 5], [6, 0]])], [np.int64([[0, 1], [1, 0]])])
    yield HostCase("CumSum", [row], [np.float32([1, 3, 6])])
    yield HostCase("CumSum", [row], [np.float32([5, 3, 0])], {"exclusive": True, "reverse": True})
    yield HostCase("CumProd", [row + 1], [np.float32([2, 6, 24])])
    yield HostCase("CumProd", [row + 1], [np.float32([12, 4, 1])], {"exclusive": True, "reverse": True})
    yield HostCase("Compress", [tied, np.array([False, True])], [tied[:, 1:2]], {"axis": -1})
    yield HostCase("Shape", [x], [_i(2, 3, 4)])
    yield HostCase("Size", [x], [np.array(24)])
    ends = [np.array(1), np.array(8), np.array(3)]
    yield HostCase("Range", ends, [_i(1, 4, 7)], known=frozenset({0, 1, 2}))
    boxes, scores = np.float32([[[0, 0, 1, 1], [1, 0.9, 0, 0], [2, 2, 3, 3]]]), np.float32([[[0.5, 0.9, 0.7]]])
    limits = [np.array(3), np.float32([0.5]), np.float32([0.1])]
    for known in (frozenset[int](), frozenset([2, 3, 4])):
        given = [boxes, scores, *limits]
        yield HostCase("NonMaxSuppression", given, [np.int64([[0, 0, 1], [0, 0, 2]])], known=known)
    yield from _images()


def _images() -> Iterator[HostCase]:
    image = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    window = {"kernel": [2, 2], "strides": [1, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    best, places = np.float32([[5, 7], [9, 11]])[None, None], np.int64([[5, 7], [9, 11]])[None, None]
    yield HostCase("MaxPoolPlaces", [image], [best, places], window)
    apart = np.zeros((1, 1, 3, 4), np.float32)
    apart[0, 0, [1, 1, 2, 2], [1, 3, 1, 3]] = [5, 7, 9, 11]
    yield HostCase("MaxUnpool", [best, places, _i(1, 1, 3, 4)], [apart], known=frozenset({2}))
    # A box of two pixels, with a sample in the middle of each cell, which is half a pixel before its end: a pixel.
    box, one = np.float32([[1, 1, 3, 3]]), np.array([0], np.int64)
    cells = np.float32([[5, 6], [9, 10]])[None, None]
    yield HostCase("RoiAlign", [image, box, one], [cells], {"rows": 2, "columns": 2, "samples": 1})
    offsets = np.zeros((1, 8, 2, 2), np.float32)
    offsets[0, 0], offsets[0, 7] = 0.5, -9  # the first element half a row down, the last one far to the left
    columns = np.float32([[2, 4, 6, 8], [1, 3, 5, 7], [4, 6, 8, 10], [0, 0, 0, 0]])[None, None]
    yield HostCase("DeformColumns", [image, offsets], [columns], window)
    grid = np.float32([[[[-1, -1], [1, 1], [0, 0], [5, 0]]]])
    yield HostCase(
        "GridSample", [image, grid], [np.float32([0, 11, 5.5, 0]).reshape(1, 1, 1, 4)], {"align_corners": True}
    )


def _reductions(x: Array) -> Iterator[HostCase]:
    for kind, function in {
        "ReduceSum": np.sum,
        "ReduceMean": np.mean,
        "ReduceProd": np.prod,
        "ReduceMax": np.max,
        "ReduceMin": np.min,
    }.items():
        wide = x.astype(np.float64)
        yield HostCase(kind, [wide], [function(wide, (0, 2))], {"axes": [0, -1]})
        yield HostCase(kind, [wide], [function(wide, 1, keepdims=True)], {"axes": [1], "keep_dims": True})
    numbers = np.arange(6).reshape(2, 3)
    yield HostCase("MatMul", [numbers, numbers], [numbers @ numbers.T], {"transpose_b": True})
    yield HostCase("MatMul", [numbers, numbers, _i(1, 2)], [numbers @ numbers.T + [1, 2]], {"transpose_b": True})


def mixed(query: Array, key: Array, value: Array, scale: float, hidden: Array) -> tuple[Array, Array]:
    """Attention of one query at a time, and its logsumexp; ``hidden`` is True for (batch, head, query, key)."""
    batch, heads, queries, _ = query.shape
    group = heads // key.shape[1]
    dst, total = np.zeros((batch, heads, queries, value.shape[3])), np.full((batch, heads, queries), -np.inf)
    for place in np.ndindex(batch, heads, queries):
        at = place[0], place[1] // group
        kept = np.flatnonzero(~hidden[place])
        powers = np.exp(scale * (key[at][kept].astype(np.float64) @ query[place]))
        if len(kept):
            dst[place], total[place] = powers @ value[at][kept] / powers.sum(), np.log(powers.sum())
    wide = np.float64 if query.dtype == np.float64 else np.float32
    return dst.astype(query.dtype), total.astype(wide)


def _attention() -> Iterator[HostCase]:
    query, key, value = _f(2, 4, 3, 5), _f(2, 2, 6, 5)[::-1] * 0.5, _f(2, 2, 6, 7)
    shown = np.zeros((2, 4, 3, 6), bool)
    behind = np.arange(6) - np.arange(3)[:, None]
    yield HostCase("Attention", [query, key, value], [mixed(query, key, value, 5**-0.5, shown)[0]])
    causal = mixed(query, key, value, 0.5, shown | (behind > 2))[0]
    yield HostCase("Attention", [query, key, value], [causal], {"scale": 0.5, "causal": True, "past": 2})
    window = mixed(query, key, value, -1.0, shown | (behind > 3) | (behind <= 1))[0]
    attrs = {"scale": -1.0, "causal": True, "past": 3, "window": 2}
    yield HostCase("Attention", [query, key, value], [window], attrs)
    mask = np.arange(18).reshape(3, 6) % 5 > 1
    mask[1] = False  # this query sees no key
    kept = mixed(query, key, value, 5**-0.5, shown | ~mask)[0]
    yield HostCase("Attention", [query, key, value, mask], [kept])
    wide = [array.astype(np.float64) for array in (query, key, value)]
    bias = np.where(mask, 0, -np.inf)
    yield HostCase("Attention", [*wide, bias], [mixed(*wide, 5**-0.5, shown | ~mask)[0]])
    ends = np.array([5, 2])
    starts = np.maximum(ends - 3, 0)[:, None, None, None]
    late = (np.arange(6) - np.arange(3)[:, None] > starts) | (np.arange(6) >= ends[:, None, None, None])
    cached = mixed(query, key, value, 5**-0.5, shown | late)[0]
    yield HostCase("CachedAttention", [query, key, value, ends], [cached])
    steep = mixed(query * 0, key, value, 1.0, shown | late)[0]  # scores that a small limit makes nearly equal
    yield HostCase("CachedAttention", [query, key, value, ends], [steep], {"softcap": 1e-9})
    # One key: its share is 1 whatever query and key are, so grad_value is grad_dst, and the other gradients are 0.
    one = [query[:, :2, :1], key[:, :, :1], value[:, :, :1]]
    total = mixed(*one, 5**-0.5, np.zeros((2, 2, 1, 1), bool))[1]
    diff = value[:, :, 1:2]
    results = [np.zeros_like(one[0]), np.zeros_like(one[1]), diff]
    yield HostCase("AttentionBackward", [*one, one[2], total, diff], results)


def _caches() -> Iterator[HostCase]:
    src, angles = _f(2, 2, 3, 6), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], np.float32).reshape(4, 2)
    ends = np.array([4, 1])  # the tokens are 1 to 3, and 0 to 2
    turned, near = src.astype(np.float64), src.astype(np.float64)
    for place in np.ndindex(2, 2, 3):
        for pair, angle in enumerate(angles[place[2] + max(ends[place[0]] - 3, 0)]):
            cos, sin = np.float32(angle), np.float32(angle) * 2
            for rows, first, second in ((turned, pair, pair + 2), (near, 2 * pair, 2 * pair + 1)):
                a, b = float(src[(*place, first)]), float(src[(*place, second)])
                rows[(*place, first)], rows[(*place, second)] = a * cos - b * sin, b * cos + a * sin
    tables = [angles, angles * 2, ends]
    yield HostCase("Rotary", [src, *tables], [turned.astype(np.float32)])
    yield HostCase("Rotary", [src, *tables], [near.astype(np.float32)], {"interleaved": True})
    whole = [np.tile(table[None, None, :3], 2) for table in (angles, angles * 2)]
    yield HostCase("Rotary", [src[1:], *whole], [turned[1:].astype(np.float32)], {"whole": True})
    wide = [array.astype(np.float64) for array in (src[1:], angles[None, None, :3], angles[None, None, :3] * 2)]
    yield HostCase("Rotary", wide, [turned[1:]])
    past, rows = _f(2, 1, 2, 2), -_f(2, 1, 2, 2)
    longer = np.zeros((2, 1, 4, 2), np.float32)
    longer[:, :, :2] = past
    longer[0, :, 1:3], longer[1, :, :2] = rows[0], rows[1]
    yield HostCase("ExtendCache", [past, rows, np.array([3, 1]), np.array(4)], [longer], known=frozenset([3]))
    yield HostCase("ExtendCache", [past, rows, np.array([2, 1])], [rows], {"room": 1})


def _linear() -> Iterator[HostCase]:
    """One head of two rows and one column, whose state is (2, 4) at first."""
    query, key = _f(1, 2, 1, 1, 2), np.float32([[1, 2], [2, 1]]).reshape(1, 2, 1, 2)
    value, state = np.float32([3, 5]).reshape(1, 2, 1, 1), np.float32([2, 4]).reshape(1, 1, 2, 1)
    decay, rate = np.float32([0.5, 1]).reshape(1, 2, 1, 1), np.float32([0.5, 1]).reshape(1, 2, 1)

    def results(*states: tuple[float, float]) -> list[Array]:
        rows = np.float32(states).reshape(1, 2, 1, 2, 1)
        return [np.matmul(query, rows), rows[:, 1]]

    yield HostCase("LinearAttention", [query, key, value, state], results((5, 10), (15, 15)))
    yield HostCase("LinearAttention", [query, key, value, state, decay], results((4, 8), (14, 13)))
    # The state has 10 for the first key and -6 for the second: the values become half of 3 - 10, and 5 + 6.
    yield HostCase("LinearAttention", [query, key, value, state, decay / decay, rate], results((-1.5, -3), (20.5, 8)))


# The functions that a recurrent network may have, of a number and of alpha and beta.
ACTIVATIONS: dict[str, Callable[[float, float, float], float]] = {
    "sigmoid": lambda x, a, b: 0.5 * (1 + np.tanh(0.5 * x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: x * (x > 0),
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: x if x >= 0 else a * np.expm1(x),
    "hardsigmoid": lambda x, a, b: min(1, max(0, a * x + b)),
    "leakyrelu": lambda x, a, b: x if x >= 0 else a * x,
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
    "softsign": lambda x, a, b: x / (1 + abs(x)),
    "thresholdedrelu": lambda x, a, b: x if x > a else 0,
}
USUAL = {"tanh": "tanh", "relu": "relu"}  # others have sigmoid tanh tanh


def stepped(
    cell: str,
    gates: Array,
    factors: Array,
    bias: Array,
    hidden: Array,
    memory: Array,
    lengths: Array,
    reverse: bool,
    peeps: Array | None = None,
    functions: Sequence[tuple[str, float, float]] = (),
    clip: float = 0,
    input_forget: bool = False,
) -> tuple[Array, Array, Array]:
    """One direction of a recurrent network, a number at a time: the states of all steps, and both last ones.

    gates (steps, batch, gates, units), factors (gates, units, units of the state), bias (gates, units), peeps
    (3, units).
    """
    usual = [(name, 0, 0) for name in USUAL.get(cell, "sigmoid tanh tanh").split()]

    def act(place: int, x: float, limit: float = clip) -> float:
        name, alpha, beta = (functions or usual)[place]
        return ACTIVATIONS[name](min(max(x, -limit), limit) if limit else x, alpha, beta)

    steps, batch, count, units = gates.shape
    states, before, memory = np.zeros((steps, batch, units)), hidden.astype(np.float64), memory.astype(np.float64)
    for step in reversed(range(steps)) if reverse else range(steps):
        state = np.zeros_like(before)
        for row, unit in np.ndindex(batch, units):
            if step >= lengths[row]:
                continue
            seen = [factors[gate, unit] @ before[row] + bias[gate, unit] for gate in range(count)]
            sums = [number + gates[step, row, gate, unit] for gate, number in enumerate(seen)]
            if cell == "lstm":
                peep, seen = np.zeros(3) if peeps is None else peeps[:, unit], memory[row, unit]
                entry, forget = act(0, sums[0] + peep[0] * seen), act(0, sums[2] + peep[2] * seen)
                seen = (1 - entry if input_forget else forget) * seen + entry * act(1, sums[3])
                memory[row, unit] = seen
                state[row, unit] = act(0, sums[1] + peep[1] * seen) * act(2, seen, 0)
            elif count == 3:
                update, reset = (act(0, number) for number in sums[:2])
                fresh = act(1, gates[step, row, 2, unit] + reset * seen[2])
                if cell == "reset_gru":
                    own = [gates[step, row, 1, k] + factors[1, k] @ before[row] + bias[1, k] for k in range(units)]
                    scaled = [before[row, k] * act(0, number) for k, number in enumerate(own)]
                    fresh = act(1, gates[step, row, 2, unit] + factors[2, unit] @ scaled + bias[2, unit])
                state[row, unit] = (1 - update) * fresh + update * before[row, unit]
            else:
                state[row, unit] = act(0, sums[0])
        states[step] = state
        before = np.where(step < lengths[:, None], state, before)
    return states, before, memory


def blocks(factors: Array, bias: Array, peeps: Array | None = None) -> Array:
    """The weights of a Recurrence of (directions, gates, units, units of the state) and (directions, gates, units)."""
    directions, gates, units, _ = factors.shape
    found = np.zeros((directions, -(-units // 16), units + 1 + (peeps is not None), gates, 16), factors.dtype)
    for direction, gate, unit in np.ndindex(directions, gates, units):
        found[direction, unit // 16, :units, gate, unit % 16] = factors[direction, gate, unit]
        found[direction, unit // 16, units, gate, unit % 16] = bias[direction, gate, unit]
        if peeps is not None and gate < 3:
            found[direction, unit // 16, units + 1, gate, unit % 16] = peeps[direction, gate, unit]
    return found


def recurrence(
    cell: str,
    direction: str,
    steps: int,
    batch: int,
    units: int,
    dtype: type = np.float32,
    seed: int = 0,
    least: int | None = None,
    **options: Any,
) -> HostCase:
    """A Recurrence with random operands, with sequences of at least ``least`` steps, and other attributes."""
    count, directions = {"lstm": 4, "gru": 3, "reset_gru": 3}.get(cell, 1), 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(seed)
    lengths = np.full(batch, steps) if least is None else rng.integers(least, steps, batch, np.int32, endpoint=True)
    inputs = rng.standard_normal((steps, batch, directions, count, units)).astype(dtype)
    factors = (rng.standard_normal((directions, count, units, units)) / np.sqrt(units)).astype(dtype)
    bias = rng.standard_normal((directions, count, units)).astype(dtype)
    hidden, memory = rng.standard_normal((2, directions, batch, units)).astype(dtype)
    peeps = rng.standard_normal((directions, 3, units)).astype(dtype) if options.get("peepholes") else None
    names, alphas, betas = options.get("activations", "").split(), options.get("alpha"), options.get("beta")
    functions = [*zip(names, alphas or [0] * len(names), betas or [0] * len(names), strict=True)]
    each = len(functions) // directions
    found = [
        stepped(
            cell,
            *(inputs[:, :, at], factors[at], bias[at], hidden[at], memory[at], lengths),
            reverse=direction == "reverse" or at == 1,
            peeps=None if peeps is None else peeps[at],
            functions=functions[at * each : (at + 1) * each],
            clip=options.get("clip", 0),
            input_forget=options.get("input_forget", False),
        )
        for at in range(directions)
    ]
    states, last, last_cell = (
        np.stack(ends, axis) for axis, ends in zip((1, 0, 0), zip(*found, strict=True), strict=True)
    )
    operands, results = [inputs, blocks(factors, bias, peeps), hidden], [states, last]
    if cell == "lstm" or least is not None:
        operands.append(memory)
    if least is not None:
        operands.append(lengths)
    if cell == "lstm":
        results.append(last_cell)
    attrs = {"cell": cell, "direction": direction, **options}
    return HostCase("Recurrence", operands, [one.astype(dtype) for one in results], attrs)


def _recurrence() -> Iterator[HostCase]:
    yield recurrence("lstm", "forward", 3, 2, 5)
    yield recurrence("lstm", "bidirectional", 2, 1, 17)
    yield recurrence("gru", "reverse", 4, 2, 3)
    yield recurrence("gru", "bidirectional", 2, 2, 4)
    yield recurrence("reset_gru", "bidirectional", 3, 2, 5)
    yield recurrence(
        "lstm", "bidirectional", 4, 5, 3, seed=2, least=1
    )  # ONNX Runtime clears the last state of no steps
    yield recurrence("reset_gru", "reverse", 4, 5, 3, seed=2, least=1)  # ONNX Runtime clears the last state of no steps
    yield recurrence("tanh", "forward", 1, 1, 1)
    yield recurrence("relu", "bidirectional", 3, 3, 16)
    yield recurrence("lstm", "bidirectional", 3, 2, 17, peepholes=True, clip=0.75)
    numbers = {"alpha": (0.3, 0.0, 0.5), "beta": (0.4, 0.0, 0.0)}
    yield recurrence("lstm", "reverse", 3, 2, 3, input_forget=True, activations="hardsigmoid softsign elu", **numbers)


def _packed() -> Iterator[HostCase]:
    """Codes by hand: the first one of a byte is in its lower half."""
    rows = np.array([[0x21, 0xF3], [0x80, 0x07]], np.uint8)
    codes = {"u4": [[1, 2, 3], [0, 8, 7]], "s4": [[1, 2, 3], [0, -8, 7]]}
    src, scales = _f(2, 3), np.array([[0.5, 2], [1, 4]], np.float32)
    spread = np.repeat(scales, 2, 1)[:, :3]
    for coding, known in codes.items():
        numbers = (np.array(known) - 1) * spread
        attrs = {"coding": coding, "group": 2, "zero": 1}
        yield HostCase("PackedMatMul", [src, rows, scales], [(src @ numbers.T).astype(np.float32)], attrs)
        points = np.array([[1, 2], [3, 0]], np.uint8 if coding == "u4" else np.int8)
        numbers = (np.array(known) - np.repeat(points, 2, 1)[:, :3]) * spread
        attrs = {"coding": coding, "group": 2}
        yield HostCase("PackedMatMul", [src, rows, scales, points], [(src @ numbers.T).astype(np.float32)], attrs)
        experts = [np.stack([each, each[::-1]]) for each in (rows, scales, points)]  # the second one is turned over
        places, (first, second) = np.array([[1, 0], [-1, 0]]), (src @ numbers.T).astype(np.float32)
        chosen = np.stack([[first[::-1], first], [0 * second, second]])
        yield HostCase("PackedExperts", [src, places, *experts], [chosen], attrs)
        each = np.stack([[src[0], src[0]], [src[0], src[1]]])
        yield HostCase("PackedExperts", [each, places, *experts], [chosen], attrs)
        taken = [rows, _i(1, -2), scales, points]
        yield HostCase("PackedGather", taken, [numbers[[1, 0]].astype(np.float32)], {**attrs, "depth": 3})
    whole = scales[:, :1]
    numbers = rows.astype(np.int8) * whole
    attrs = {"coding": "s8", "arithmetic": "codes"}
    src = np.array([[127, -3]], np.float32)
    yield HostCase("PackedMatMul", [src, rows, whole], [src @ numbers.T], attrs)
    numbers = (rows - 2.0) * whole
    yield HostCase(
        "PackedGather", [rows, _i(0), whole], [numbers[[0]].astype(np.float32)], {"coding": "u8", "zero": 2, "depth": 2}
    )


def _quantization() -> Iterator[HostCase]:
    """By hand: from -1 to 4 in 255 steps, and in 15 steps of s8."""
    src = np.float32([[-1, 0, 1.0], [4, 0.5, 2]])
    scale = np.float32(5 / 255)
    results = [np.uint8([[0, 51, 102], [255, 51 + 26, 51 + 102]]), scale, np.uint8(51)]
    yield HostCase("DynamicQuantizeLinear", [src], results, dtype=DataType.u8)
    results = [np.int8([[-8, -5, -2], [7, -3, 1]]), np.float32(5) / np.float32(15), np.int8(-5)]
    yield HostCase("DynamicQuantizeLinear", [src], results, {"low": -8, "high": 7}, dtype=DataType.s8)
    results = [np.uint8([[0, 1]]), np.float32(1), np.uint8(0)]
    yield HostCase("DynamicQuantizeLinear", [np.float32([[0, 1]])], results, {"least": 1.0}, dtype=DataType.u8)
    src, attrs = np.float32([-9, -0.7, 0.25, 0.75, 9, np.nan]), {"step": 0.5, "low": -2.0, "high": 3.0}
    yield HostCase("FakeQuantize", [src], [np.float32([-1, -0.5, 0, 1, 1.5, np.nan])], attrs)


def body(add: Callable[[og.Graph], Mapping[str, Any]]) -> str:
    """A graph as the attribute of an op of control flow; ``add`` adds its ops and returns its outputs."""
    graph = og.Graph()
    for name, tensor in add(graph).items():
        graph.output(name, tensor)
    return as_word(graph)


def _control() -> Iterator[HostCase]:
    x, true, false = _f(2, 3), np.array(True), np.array(False)
    branches = {
        "then_body": body(lambda g: {"y0": g.add(g.input("c0", "f32", (2, 3)), g.input("c1", "f32", (3,)))}),
        "else_body": body(lambda g: {"y0": g.relu(g.input("c0", "f32", (2, 3)))}),
        "shapes": (2, 2, 3),
    }
    row = _f(3)
    yield HostCase("If", [true, x, row], [x + row], branches, dtype=og.f32)
    yield HostCase("If", [false, x, row], [np.maximum(x, 0)], branches, dtype=og.f32)

    def turn(g: og.Graph) -> Mapping[str, Any]:
        state = g.multiply(g.input("s0", "f32", (3,)), g.input("c0", "f32", ()))
        return {"going": g.constant(true), "t0": state}

    attrs = {"body": body(turn), "n_states": 1, "shapes": (1, 3)}
    half = np.float32(0.5)
    for trips, condition, count in ((4, true, 4), (4, false, 0), (0, true, 0), (-1, true, 0)):
        yield HostCase(
            "Loop", [np.array(trips, np.int64), condition, row, half], [row * half**count], attrs, dtype=og.f32
        )

    def step(g: og.Graph) -> Mapping[str, Any]:
        return {"going": g.constant(true), "y0": g.square(g.input("x0", "f32", (2,)))}

    scanning = {"body": body(step), "n_states": 0, "n_scanned": 1, "axes": (1,), "reversed": (1,)}
    scanning |= {"result_axes": (1,), "shapes": (2, 2, 3)}
    yield HostCase("Loop", [np.array(2**63 - 1), true, x], [x[:, ::-1] ** 2], scanning, frozenset({0, 1}), og.f32)


def _learned() -> Iterator[HostCase]:
    """Trees of one node and of two, by hand: feature 1 <= 0.5, and below it feature 0 > 2 with NaN where it holds."""
    src = np.float32([[1, 0], [3, 0.5], [5, 1], [np.nan, 0]])
    head = [[16 + 1, 1, 2], [0, 1, 1], [0 + 8 + 4, 3, 4], [0, 3, 3], [0, 4, 4], [16 + 1, 6, 7], [0, 6, 6], [0, 7, 7]]
    for dtype in (np.float32, np.float64):
        nodes = np.zeros((8, 4 if dtype is np.float32 else 6), np.int32)
        nodes[:, :3] = head
        limits, first = np.array([0.5, 0, 2, 0, 0, 0.5, 0, 0], dtype), 3 if dtype is np.float32 else 4
        nodes[:, first:] = limits[:, None].view(np.int32)
        nodes[[1, 3, 4, 6, 7], first:] = 0
        nodes[[1, 3, 4, 6, 7], first] = range(5)
        roots, weights = np.int32([0, 5]), np.array([1, 2, 4, 8, 16], dtype)
        known = frozenset([1, 2, 3, 4, 5, 6])
        given, sums = [src.astype(dtype), nodes, roots, weights], np.array([[9], [9], [18], [9]], dtype)
        yield HostCase("TreeEnsemble", given, [sums], {"n_targets": 1}, known)
        rows, twice = np.zeros((9, 2), dtype), np.int32([0, 5, 0])  # which end at leaves 0, 3 and 0
        infinite = [rows, nodes, twice, np.array([np.inf, 2, 4, -np.inf, 16], dtype)]
        yield HostCase("TreeEnsemble", infinite, [np.full((9, 1), np.nan, dtype)], {"n_targets": 1}, known)
        more = [np.array([1, 0], dtype), np.int32([0, 1, 0, 0, 1, 0]), np.int32([0, 1, 2, 3, 4, 6])]
        given[3] = np.array([1, 2, 4, 8, 16, 32], dtype)
        parts = np.array([[10, 0], [10, 0], [33, 18], [10, 0]], dtype)
        yield HostCase("TreeEnsemble", [*given, *more], [parts], {"n_targets": 2}, known)
    classes, scores = _i(7, 9, 4), np.float32([[1, 3, 3], [-2, -1, -5]])
    yield HostCase("Classify", [scores, classes], [_i(9, 9), scores])
    third, half = np.float32([[1 / 4, 3 / 4]]), np.float32([[0, np.log(3)]])
    yield HostCase("Classify", [half, classes[:2]], [_i(9), third], {"transform": "softmax"})
    one, single = np.float32([[0.25], [0.75]]), {"threshold": 0.5}
    yield HostCase("Classify", [one, classes[:2]], [_i(7, 9), np.float32([[0.75, 0.25], [0.25, 0.75]])], single)
    mirrored = np.float32([[-0.25, 0.25], [-0.75, 0.75]])
    yield HostCase("Classify", [one, classes[:2]], [_i(9, 9), mirrored], {"opposite": "mirror"})
    given = [np.float64([2, np.nan, 5, -1]), np.float64([-1, 2, np.nan]), _i(10, 20, 30), np.int64(0)]
    yield HostCase("LookUp", given, [_i(20, 30, 0, 10)], {}, frozenset([1, 2, 3]))
    yield HostCase("LookUp", [_i(3, 4), _i(3), np.float32([0.5]), np.float32(-1)], [np.float32([0.5, -1])])
    # Equal classes stay equal, and of two classes, the probability of the pair is that of the class.
    yield HostCase("CouplePairs", [np.full((2, 3), 0.5)], [np.full((2, 3), 1 / 3)], {"classes": 3})
    pairs = np.float64([[0.2, 0.7, 0.4], [0.9, 0.6, 0.1]])
    yield HostCase("CouplePairs", [pairs], [np.array([_coupled(row) for row in pairs])], {"classes": 3})
    far = 2**40 + 7
    tuples = {"tuples": [7, far, 7, 7, far, 7, -1], "sizes": [1, 1, 3, 2], "columns": [3, 0, 1, 1], "width": 4}
    row = _i(7, 7, far, 7, -1, 7)
    yield HostCase("CountTuples", [row], [np.float32([1, 2, 0, 4])], tuples)
    yield HostCase(
        "CountTuples", [np.stack([row, row[::-1]])], [np.float32([[1, 3, 0, 4], [1, 1, 0, 4]])], {**tuples, "skips": 2}
    )
    yield HostCase("CountTuples", [np.int32([[7], [1]])], [np.float32([[0, 0, 0, 1], [0, 0, 0, 0]])], tuples)
    yield HostCase(
        "CountTuples", [np.zeros((2, 0), np.int64)], [np.zeros((2, 4), np.float32)], {**tuples, "skips": 2**62}
    )


def _coupled(pairs: Array) -> list[float]:
    """Probabilities of three classes, by the steps of the paper for one row."""
    first = {(0, 1): pairs[0], (0, 2): pairs[1], (1, 2): pairs[2]}
    r = {**first, **{(j, i): 1 - value for (i, j), value in first.items()}}
    every, found = range(3), [1 / 3] * 3
    q = [[sum(r[s, t] ** 2 for s in every if s != t) if t == j else -r[j, t] * r[t, j] for j in every] for t in every]
    for _ in range(100):
        sums = [sum(q[t][j] * found[j] for j in every) for t in every]
        whole = sum(p * s for p, s in zip(found, sums, strict=True))
        if max(abs(one - whole) for one in sums) < 0.005 / 3:
            break
        for t in every:
            found[t] += (whole - sum(q[t][j] * found[j] for j in every)) / q[t][t]
            found = [p / sum(found) for p in found]
            sums = [sum(q[i][j] * found[j] for j in every) for i in every]
            whole = sum(p * s for p, s in zip(found, sums, strict=True))
    return found


def graph_of(case: HostCase) -> tuple[og.Graph, dict[str, Array]]:
    """A graph of one op, and arrays for its inputs."""
    g = og.Graph()
    tensors: list[Any] = []
    arrays: dict[str, Array] = {}
    for place, array in enumerate(case.inputs):
        if array is None:
            tensors.append(None)
        elif place in case.known:
            tensors.append(g.constant(array, dtype=OF_NUMPY[array.dtype]))
        else:
            tensors.append(g.input(f"x{place}", OF_NUMPY[array.dtype], array.shape))
            arrays[f"x{place}"] = array
    found = g.op(case.kind, tensors, case.attrs, edition="host", dtype=case.dtype)
    for place, tensor in enumerate(found if isinstance(found, tuple) else (found,)):
        g.output(f"y{place}", tensor)
    return g, arrays
