"""Patterns and what lies beside them: the ops that are left, and the numbers of the same ops without patterns."""

import math

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.patterns import REWRITES
from onegraph.lowering.reduction import reduce
from onegraph.transform.part import without_unread

INF = math.inf
RNG = np.random.default_rng(0)


def f(*numbers):
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def some_nan(*shape):
    array = drawn(*shape)
    array.ravel()[::5] = np.nan
    return array


def gelu(e, x, y, root=1.41421356, half=0.5, one=1.0):
    inner = el.unary(e, "Erf", el.binary(e, "Divide", x, f(root)))
    return el.multiply(e, el.multiply(e, y, el.add(e, inner, f(one))), f(half))


def hard_swish(e, x, shift=3.0, most=6.0, divisor=6.0):
    inner = el.clamp(e, el.add(e, x, f(shift)), f(0), f(most))
    return el.binary(e, "Divide", el.multiply(e, x, inner), f(divisor))


def mish(e, x, beta=1.0):
    return el.multiply(e, x, el.unary(e, "Tanh", el.unary(e, "SoftPlus", x, {"beta": beta})))


def product(e, a, b, left=1.0, right=1.0, order=None):
    a, b = (el.multiply(e, one, f(number)) if number != 1 else one for one, number in ((a, left), (b, right)))
    return e.op("MatMul", [a, b if order is None else mv.transpose(e, b, order)])


def joined(e, a, b):
    flat = [mv.reshape(e, one, [6, *one.shape[2:]]) for one in (a, b)]
    return e.op("MatMul", flat)


WINDOW = {"strides": [1, 1], "pads_begin": [0, 1], "pads_end": [1, 0], "dilations": [2, 1]}
KERNEL, WEIGHTS = drawn(2, 3, 3, 4), drawn(2, 4, 5)


def convolved(e, x, before, after, number=0.0, **attrs):
    return e.op("Convolution", [mv.padded(e, x, before, after, number), KERNEL], WINDOW | attrs)


def pooled(e, x, before, after, number):
    larger = mv.padded(e, x, before, after, number)
    return e.op("MaxPool", [larger], {**WINDOW, "kernel": [2, 3]})


CONV, POOL = ["Convolution"], ["MaxPool"]
X, WIDE, IMAGE = (2, 3, 4), (2, 3, 4, 5), (1, 6, 5, 3)
# By case: the shapes of the inputs, what is added, and the ops that are left; None if any may be.
CASES = {
    "GELU": ([X], lambda e, x: gelu(e, x, x), ["GELU"]),
    "GELU of another factor": ([X], lambda e, x: gelu(e, x, x, half=0.49), None),
    "GELU of another root": ([X], lambda e, x: gelu(e, x, x, root=1.4), None),
    "GELU of another summand": ([X], lambda e, x: gelu(e, x, x, one=1.01), None),
    "GELU of two tensors": ([X, X], gelu, None),
    "HardSwish": ([X], hard_swish, ["HardSwish"]),
    "HardSwish of another shift": ([X], lambda e, x: hard_swish(e, x, shift=2.9), None),
    "HardSwish of another bound": ([X], lambda e, x: hard_swish(e, x, most=5.5), None),
    "HardSwish of another divisor": ([X], lambda e, x: hard_swish(e, x, divisor=5.9), None),
    "Mish": ([X], mish, ["Mish"]),
    "Mish of another slope": ([X], lambda e, x: mish(e, x, 2.0), ["SoftPlus", "Tanh", "Multiply"]),
    "scale": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.5, 3.0), ["MatMul", "Divide"]),
    "scale of one": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.5), ["MatMul", "Divide"]),
    "scale behind a transpose": (
        [X, (2, 5, 4)],
        lambda e, a, b: product(e, a, b, 0.5, 0.25, (0, 2, 1)),
        ["StaticTranspose", "MatMul", "Divide"],
    ),
    "scale of matrices": ([(3, 4), (4, 5)], lambda e, a, b: product(e, a, b, 0.5), ["Multiply", "MatMul"]),
    "scale of 0": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.0), ["Multiply", "MatMul"]),
    "scale by known weights": ([X], lambda e, a: product(e, a, WEIGHTS, 0.5), ["Multiply", "MatMul"]),
    "heads and batches": ([WIDE, (2, 3, 5, 6)], joined, ["MatMul", "StaticReshape"]),
    "other heads and batches": ([WIDE, (3, 2, 5, 6)], joined, ["StaticReshape", "StaticReshape", "MatMul"]),
    "wide operand": (
        [(3, 1), (3, 4)],
        lambda e, x, y: el.binary(e, "Subtract", mv.expand(e, x, (3, 4)), y),
        ["Subtract"],
    ),
    "wide second operand": (
        [(3, 1), (3, 4)],
        lambda e, x, y: el.binary(e, "Subtract", y, mv.expand(e, x, (3, 4))),
        ["Subtract"],
    ),
    "operand wider than the other": (
        [(3, 1), (3, 1)],
        lambda e, x, y: el.binary(e, "Subtract", mv.expand(e, x, (3, 4)), y),
        ["Expand", "Subtract"],
    ),
    "rows of minus infinities": (
        [X],
        lambda e, x: e.op("Equal", [reduce(e, "ReduceMax", x, [2], True), f(-INF)]),
        ["ReduceMax", "LessEqual"],
    ),
    "rows of a largest number": (
        [X],
        lambda e, x: e.op("Equal", [reduce(e, "ReduceMax", x, [2], True), f(1)]),
        ["ReduceMax", "Equal"],
    ),
    "minus infinities": ([X], lambda e, x: e.op("Equal", [x, f(-INF)]), ["Equal"]),
    "no NaN": ([X], lambda e, x: el.select(e, e.op("IsNaN", [x]), f(7), x), ["ReplaceNaN"]),
    "NaN of another tensor": ([X, X], lambda e, x, y: el.select(e, e.op("IsNaN", [x]), f(7), y), None),
    "a tensor for NaN": ([X, X], lambda e, x, y: el.select(e, e.op("IsNaN", [x]), y, x), None),
    "padding": ([IMAGE], lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 1, 0]), CONV),
    "padding in steps": (
        [IMAGE],
        lambda e, x: convolved(e, mv.padded(e, x, [0, 2, 1, 0], [0, 0, 1, 0]), [0, 0, 0, 0], [0, 1, 0, 0]),
        CONV,
    ),
    "padding of a whole window": ([IMAGE], lambda e, x: convolved(e, x, [0, 3, 0, 0], [0, 0, 0, 0]), ["Concat", *CONV]),
    "padding of less than a window": ([IMAGE], lambda e, x: convolved(e, x, [0, 2, 0, 0], [0, 0, 0, 0]), CONV),
    "padding by ones": ([IMAGE], lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 0, 0], 1), ["Concat", *CONV]),
    "padding of channels": (
        [(1, 6, 5, 2)],
        lambda e, x: convolved(e, x, [0, 1, 0, 1], [0, 0, 0, 0]),
        ["Concat", "Concat", *CONV],
    ),
    "padding of batches": (
        [IMAGE],
        lambda e, x: convolved(e, x, [1, 0, 0, 0], [0, 0, 0, 0]),
        ["Concat", *CONV],
    ),
    "padding for windows of their own": (
        [IMAGE],
        lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 0, 0], auto_pad="SAME_UPPER"),
        ["Concat", *CONV],
    ),
    "padding of a pool": ([IMAGE], lambda e, x: pooled(e, x, [0, 1, 0, 0], [0, 0, 1, 0], -INF), POOL),
    "padding of a pool by zeros": (
        [IMAGE],
        lambda e, x: pooled(e, x, [0, 1, 0, 0], [0, 0, 0, 0], 0),
        ["Concat", *POOL],
    ),
}


def built(case, *, with_patterns):
    shapes, add, _ = CASES[case]
    graph = og.Graph()
    emit = Emitter(graph, REWRITES if with_patterns else None)
    graph.output("y", emit.tensor(add(emit, *[graph.input(f"x{n}", og.f32, shape) for n, shape in enumerate(shapes)])))
    return graph


@pytest.mark.parametrize("case", CASES)
def test_patterns_keep_the_numbers(case):
    shapes, _, expected = CASES[case]
    plain, found = (built(case, with_patterns=flag) for flag in (False, True))
    draw = some_nan if "NaN" in case else drawn
    given = {f"x{number}": 3 * draw(*shape) for number, shape in enumerate(shapes)}
    if "infinities" in case:
        given["x0"][0, 1] = -INF
    with np.errstate(all="ignore"):
        results = [reference.run(graph, given)["y"] for graph in (plain, found)]
    np.testing.assert_allclose(results[1].astype(np.float64), results[0].astype(np.float64), rtol=2e-4, atol=2e-4)
    left = [op.kind for op in without_unread(found).ops]
    if expected is None:
        assert left == [op.kind for op in without_unread(plain).ops]
    else:
        assert left == expected
