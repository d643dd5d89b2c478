"""Chains of drawn ops that patterns look at: with patterns they compute the numbers of the same ops without."""

from contextlib import suppress
from functools import cache

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.errors import OneGraphError
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.patterns import REWRITES
from tests.lowering.test_drawn_lowerings import Draw

STEPS = []
# The chains that together reach each branch of the patterns twice, of the first 800, as far as these reach it.
CHAINS = (
    6, 14, 37, 38, 54, 60, 72, 75, 77, 82, 89, 93, 110, 114, 117, 121, 127, 162, 169, 173, 185, 197, 204, 224,
    228, 230, 238, 241, 245, 251, 254, 256, 260, 261, 284, 295, 325, 342, 359, 367, 369, 401, 404, 415, 417,
    424, 439, 447, 460, 461, 469, 492, 533, 538, 553, 567, 596, 614, 670, 699, 742, 755, 764, 776, 788,
)  # fmt: skip


def step(*, often=1):
    """Enter a function that adds ops to a value, or returns None."""

    def enter(function):
        STEPS.extend([function] * often)
        return function

    return enter


def f(number):
    return np.array(number, np.float32)


def positive(d, *shape):
    return d.array(shape, np.float32, 1, 5) / np.float32(4)


@step(often=4)
def transpose(d, e, x, y):
    return e.op("StaticTranspose", [x], {"order": d.order(len(x.shape))})


@step(often=2)
def reshape(d, e, x, y):
    """Two neighbouring axes become one, or an axis two."""
    shape = [*x.shape]
    axis = d.size(0, len(shape) - 1)
    if d.flag() and len(shape) > 2 and axis:
        shape[axis - 1 : axis + 1] = [shape[axis - 1] * shape[axis]]
    elif len(shape) < 5:
        part = d.one(*[one for one in (1, 2, 3, shape[axis]) if shape[axis] % one == 0])
        shape[axis : axis + 1] = [part, shape[axis] // part]
    return e.op("StaticReshape", [x], {"shape": shape, "special_zero": False})


@step()
def single(d, e, x, y):
    return el.unary(e, d.one("ReLU", "Abs", "Tanh", "Sigmoid"), x)


@step(often=2)
def with_numbers(d, e, x, y):
    other = d.one(positive(d, *d.beside(x.shape)), positive(d, x.shape[-1]), f(0.5))
    ends = d.one([x, other], [other, x])
    return e.op(d.one("Add", "Multiply", "Subtract", "Maximum"), ends)


@step()
def with_a_vector(d, e, x, y):
    """Numbers for each channel."""
    around = d.one((1, -1, *[1] * (len(x.shape) - 2)), (-1, *[1] * (len(x.shape) - 2)), (-1,))
    axis = len(x.shape) - 1 if around == (-1,) else 1
    return e.op(d.one("Add", "Multiply"), [x, positive(d, x.shape[axis]).reshape(around)])


@step(often=3)
def with_another(d, e, x, y):
    return e.op(d.one("Add", "Multiply"), d.one([x, y], [y, x]))


@step(often=3)
def join(d, e, x, y):
    axis, parts = d.axis(len(x.shape)), d.one([x, y], [y, x], [x, x], [x, y, x])
    return e.op("Concat", parts, {"axis": axis})


@step()
def cut(d, e, x, y):
    axis = d.size(0, len(x.shape) - 1)
    start = d.size(0, x.shape[axis] - 1)
    return mv.slice_(e, x, [start], [d.size(start + 1, x.shape[axis] + 1)], [axis - len(x.shape) * d.flag()])


@step()
def cut_and_join(d, e, x, y):
    axis = d.size(0, len(x.shape) - 1)
    at = d.size(0, x.shape[axis])
    parts = [mv.slice_(e, x, [start], [end], [axis]) for start, end in ((0, at), (at, x.shape[axis]))]
    return e.op("Concat", [one for one in d.one(parts, parts[::-1]) if one.shape[axis]], {"axis": axis})


@step()
def gather(d, e, x, y):
    axis = d.axis(len(x.shape))
    places = d.one(np.arange(x.shape[axis]), d.array(d.one((), (2,)), np.int64, -x.shape[axis], x.shape[axis] - 1))
    return e.op("Gather", [x, places.astype(np.int64)], {"axis": axis})


@step()
def gather_elements(d, e, x, y):
    axis, last = d.axis(len(x.shape)), x.shape[d.size(0, len(x.shape) - 1)]
    shape = tuple(d.size(1, dim) for dim in x.shape)
    places = d.array(shape, np.int64, -x.shape[axis], min(last, x.shape[axis]) - 1)
    return e.op("GatherElements", [x, places], {"axis": axis})


@step(often=2)
def softmax(d, e, x, y):
    return e.op(d.one("SoftMax", "LogSoftmax"), [x], {"axis": d.axis(len(x.shape))})


@step(often=2)
def reduction(d, e, x, y):
    axes, keep = d.axes(len(x.shape)) or [-1], d.flag() or len(x.shape) < 4
    return e.op(d.one("ReduceSum", "ReduceMax", "ReduceMean"), [x], {"axes": axes, "keep_dims": keep})


@step()
def widened(d, e, x, y):
    wide = mv.expand(e, mv.slice_(e, x, [0], [1], [0]), [d.size(1), *x.shape[1:]])
    return e.op(d.one("Add", "Maximum"), d.one([wide, x], [x, wide])) if wide.shape == x.shape else wide


@step(often=3)
def normal(d, e, x, y):
    form = d.one("NXC", "NCX")
    count = x.shape[1 if form == "NCX" else -1]
    vectors = [positive(d, count) for _ in range(4)]
    if d.one(True, *[False] * 4):
        vectors[d.size(0, 1)] = mv.reshape(e, mv.slice_(e, mv.reshape(e, y, [-1]), [0], [count], [0]), [count])
    return e.op("BatchNormInference", [x, *vectors], {"epsilon": 1e-3, "data_format": form})


@step(often=3)
def product(d, e, x, y):
    flag, rank = d.flag(), d.one(2, 2, len(x.shape))
    depth, columns = x.shape[-1], d.size(1)
    outer = x.shape[:-2] if rank > 2 else ()
    weights = positive(d, *outer, *((columns, depth) if flag else (depth, columns)))
    bias = d.one([], [], [positive(d, columns)])
    return e.op("MatMul", [x, weights, *bias], {"transpose_b": flag})


@step(often=2)
def product_of_both(d, e, x, y):
    scale, flag = d.one(1.0, 0.5, 3.0), d.flag()
    x = x if scale == 1 else el.multiply(e, x, f(scale))
    order = [*range(len(y.shape) - 2), len(y.shape) - 1, len(y.shape) - 2]
    return e.op("MatMul", [x, y if flag else e.op("StaticTranspose", [y], {"order": order})], {"transpose_b": flag})


@step(often=5)
def convolution(d, e, x, y):
    form, layout = d.one("NXC", "NCX"), d.one("OIX", "XIO")
    rank = len(x.shape) - 2
    channels = x.shape[1 if form == "NCX" else -1]
    groups = d.one(1, 1, channels)
    kernel = [d.one(1, 1, 1, 2) for _ in range(rank)]
    sizes = (d.size(1) * groups, channels // groups, *kernel)
    weights = positive(d, *sizes)
    weights = weights if layout == "OIX" else np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))
    pads = [[d.one(0, 0, 0, 1) for _ in kernel] for _ in range(2)]
    attrs = {"strides": [d.one(1, 1, 2) for _ in kernel], "dilations": [1] * rank, "groups": groups}
    attrs |= {"pads_begin": pads[0], "pads_end": pads[1], "data_format": form, "weights_format": layout}
    ends = [x, weights, *d.one([], [positive(d, sizes[0])])]
    made = e.op("Convolution", ends, attrs)
    if d.one(True, False, False):  # another branch of the same image
        other = e.op("Convolution", [x, positive(d, *weights.shape), *ends[2:]], attrs)
        made, other = (normal(d, e, one, y) if d.one(True, False, False) else one for one in (made, other))
        return e.op("Add", [made, d.one(other, other, normal(d, e, x, y))])
    return made


@step()
def pool(d, e, x, y):
    form, rank = d.one("NXC", "NCX"), len(x.shape) - 2
    zeros, ones = [0] * rank, [1] * rank
    attrs = {"strides": [d.one(1, 2) for _ in ones], "pads_begin": zeros, "pads_end": zeros, "data_format": form}
    return e.op("MaxPool", [x], {**attrs, "kernel": ones, "dilations": ones})


@step()
def larger(d, e, x, y):
    form, rank = d.one("NXC", "NCX"), len(x.shape) - 2
    sizes = x.shape[2:] if form == "NCX" else x.shape[1:-1]
    attrs = {"mode": d.one("nearest", "linear"), "coordinate_transformation_mode": "half_pixel", "data_format": form}
    return e.op("Interpolate", [x], {**attrs, "sizes": [size * d.one(1, 2) for size in sizes]}) if rank < 3 else None


@step()
def padded(d, e, x, y):
    pads = [[d.one(0, 0, 1) for _ in x.shape] for _ in range(2)]
    return mv.padded(e, x, *pads, d.one(0, 0, -np.inf if d.flag() else 1))


@step()
def codes(d, e, x, y):
    """A Quantize and a Dequantize, perhaps with a step between them."""
    axis = d.axis(len(x.shape))
    count = d.one(1, x.shape[axis])
    form = {"qtype": "per_tensor"} if count == 1 else {"qtype": "per_channel", "axis": axis}
    form |= {"scales": [0.5, 0.25, 1.0, 2.0][:count], "zps": [1, 0, 2, 3][:count]}
    if count > 4:
        return None
    made = e.op("Quantize", [x], form, dtype=og.u8)
    made = e.op("Dequantize", [made], form)
    if d.flag():
        made = d.one(transpose, reshape)(d, e, made, y)
        made = e.op("Dequantize", [e.op("Quantize", [made], form, dtype=og.u8)], form)
    return made


@step()
def layer(d, e, x, y):
    """A LayerNorm or an RMSNorm, op by op."""
    axes = d.one([-1], [-1], [len(x.shape) - 2, len(x.shape) - 1])
    apart = x
    if d.flag():
        apart = e.op("Subtract", [x, e.op("ReduceMean", [x], {"axes": axes, "keep_dims": True})])
    squares = d.one(lambda: el.unary(e, "Square", apart), lambda: e.op("Multiply", [apart, apart]))()
    mean = el.add(e, e.op("ReduceMean", [squares], {"axes": axes, "keep_dims": True}), f(0.01))
    root = el.unary(e, "Sqrt", mean)
    made = d.one(
        lambda: e.op("Divide", [apart, root]), lambda: e.op("Multiply", [el.unary(e, "Reciprocal", root), apart])
    )()
    if d.flag():
        made = e.op("Multiply", [made, positive(d, x.shape[-1])])
        made = made if d.flag() else e.op("Add", [made, positive(d, x.shape[-1])])
    return made


@step()
def turned(d, e, x, y):
    """The numbers of pairs turned by angles, in one of the ways of writing it."""
    if len(x.shape) != 4:
        return None
    size, axis = x.shape[-1], d.one(-1, 3)
    halves = d.one(((0, size // 2, 1), (size // 2, size, 1)), ((0, size, 2), (1, size, 2)))
    first, second = (mv.slice_(e, x, [start], [end], [axis], [by]) for start, end, by in halves)
    if d.flag():
        joined = e.op("Concat", [el.negative(e, second), first], {"axis": axis})
        dims = (d.one(1, x.shape[0]), d.one(1, x.shape[1]), d.one(1, x.shape[2]), size)
        tables = [d.array(dims) / f(4) for _ in range(2)]
        return e.op("Add", [e.op("Multiply", [x, tables[0]]), e.op("Multiply", [joined, tables[1]])])
    cos, sin = (d.array((1, 1, x.shape[2], size // 2)) / f(4) for _ in range(2))
    real = e.op("Subtract", [e.op("Multiply", [first, cos]), e.op("Multiply", [second, sin])])
    other = e.op("Add", [e.op("Multiply", [second, cos]), e.op("Multiply", [first, sin])])
    return e.op("Concat", [real, other], {"axis": axis})


def chain(number, *, with_patterns):
    """A graph of drawn ops."""
    return _added(number, _kept(number)[1] if with_patterns else None)[0]


@cache
def _kept(number):
    return _added(number, None)


def _added(number, kept):
    """A graph of drawn ops, and which of the steps it has: those of ``kept``, or those for which there are ops."""
    d, graph, found = Draw(np.random.default_rng([number, 55])), og.Graph(), []
    emit = Emitter(graph, None if kept is None else REWRITES)
    shape = d.one((2, 3, 4), (1, 4, 3, 2), (2, 4, 2, 2), (3, 3, 3), (1, 4, 4, 3), (2, 2, 4, 4))
    values = [graph.input("x", og.f32, shape), graph.input("y", og.f32, shape)]
    for place in range(5):
        function, x, y = d.one(*STEPS), d.one(values[-1], values[-1], *values), d.one(*values)
        state, made = d.rng.bit_generator.state, None
        with suppress(*[OneGraphError, ValueError, IndexError] if kept is None else ()):
            made = function(d, emit, x, y) if kept is None or kept[place] else None
        found.append(made is not None and 1 < len(made.shape) < 6 and 0 < np.prod(made.shape) < 500)
        if found[-1]:
            values.append(made)
        else:
            d.rng.bit_generator.state = state
    for place, value in enumerate(values[2:][-2:]):
        graph.output(f"y{place}", emit.tensor(value))
    return graph, found


@pytest.mark.parametrize("numbers", [CHAINS[start::4] for start in range(4)], ids=range(4))
def test_patterns_keep_the_numbers_of_chains(numbers):
    for number in numbers:
        plain, found = (chain(number, with_patterns=flag) for flag in (False, True))
        d = Draw(np.random.default_rng(number))
        given = {name: d.array(one.shape) / f(4) for name, one in plain.inputs.items()}
        with np.errstate(all="ignore"):
            results = [[*reference.run(graph, given).values()] for graph in (plain, found)]
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(other, one, rtol=2e-4, atol=2e-4, err_msg=f"chain {number}")
