"""What front ends lower single nodes to: the ops that are left, and the numbers of numpy."""

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph import reference
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering.emitter import Emitter, NotLowered, numbers
from onegraph.lowering.fourier import real_of_half, transformed
from onegraph.lowering.layout import inverse, moved
from onegraph.lowering.reduction import log_sum_exp, reduce
from onegraph.transform.part import without_unread

INF = np.inf
X = np.float32([-3, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 3, 4, 5, 6, -2, 2, 7, 8, 9, -7, -8, -9, 10, 11, 12, 13])
X = X.reshape(2, 3, 4)
INPUTS = {
    "x": X,
    "i": (4 * X).astype(np.int32),
    "b": X > 0.5,
    "b2": np.array([X[0] > 0.5]),
    "h": X.astype(og.bf16.numpy),
    "line": X[:, :1],
    "codes": np.arange(4096, dtype=np.int64).astype(np.uint8).reshape(64, 64),
    "images": np.arange(4096, dtype=np.int64).astype(np.uint8).reshape(1, 64, 64),
    "few": np.arange(4032, dtype=np.int64).astype(np.uint8).reshape(64, 63),
}
F16 = og.f16.numpy


def f(number):
    return np.array(number, np.float32)


def soft(x):
    return 1 / (1 + np.exp(-x))


# By case: the input, a function of the emitter and the input, the same in numpy, and the ops.
CASES = {
    "reshape": ("x", lambda e, x: mv.reshape(e, x, [2, 12]), lambda x: x.reshape(2, 12), ["StaticReshape"]),
    "reshape to itself": ("x", lambda e, x: mv.reshape(e, x, (2, 3, 4)), lambda x: x, []),
    "reshape integers": ("i", lambda e, x: mv.reshape(e, x, [6, -1]), lambda x: x.reshape(6, 4), ["Reshape"]),
    "no transpose": ("x", lambda e, x: mv.transpose(e, x, (0, 1, 2)), lambda x: x, []),
    "transpose": ("x", lambda e, x: mv.transpose(e, x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), ["StaticTranspose"]),
    "transpose integers": ("i", lambda e, x: mv.transpose(e, x, (1, 0, 2)), lambda x: x.swapaxes(0, 1), ["Transpose"]),
    "two transposes": (
        "x",
        lambda e, x: mv.transpose(e, mv.transpose(e, x, (2, 0, 1)), (2, 0, 1)),
        lambda x: x.transpose(1, 2, 0),
        ["StaticTranspose"],
    ),
    "transpose back": (
        "x",
        lambda e, x: el.add(e, mv.transpose(e, mv.transpose(e, x, (2, 0, 1)), (1, 2, 0)), f(1)),
        lambda x: x + 1,
        ["Add"],
    ),
    "unsqueeze": ("x", lambda e, x: mv.unsqueeze(e, x, [0, -1]), lambda x: x[None, ..., None], ["StaticReshape"]),
    "squeeze": ("line", lambda e, x: mv.squeeze(e, x, [-2]), lambda x: x[:, 0], ["StaticReshape"]),
    "flatten 0": ("x", lambda e, x: mv.flatten(e, x, 0), lambda x: x.reshape(1, 24), ["StaticReshape"]),
    "flatten 2": ("x", lambda e, x: mv.flatten(e, x, 2), lambda x: x.reshape(6, 4), ["StaticReshape"]),
    "flatten -2": ("x", lambda e, x: mv.flatten(e, x, -2), lambda x: x.reshape(2, 12), ["StaticReshape"]),
    "slice": ("x", lambda e, x: mv.slice_(e, x, [1, 0], [3, 4], [1, 2], [1, 3]), lambda x: x[:, 1:3, ::3], ["Slice"]),
    "slice back": ("x", lambda e, x: mv.slice_(e, x, [-1], [-9], [2], [-2]), lambda x: x[..., ::-2], ["Slice"]),
    "no cast": ("x", lambda e, x: mv.cast(e, x, og.f32), lambda x: x, []),
    "cast": ("x", lambda e, x: mv.cast(e, x, og.f16), lambda x: x.astype(F16), ["TypeCast"]),
    "cast halves": ("h", lambda e, x: mv.cast(e, x, og.f16), lambda x: x.astype(F16), ["TypeCast", "TypeCast"]),
    "cast to integers": ("x", lambda e, x: mv.cast(e, x, og.s32), lambda x: x.astype(np.int32), ["Cast"]),
    "cast many codes": ("codes", lambda e, x: mv.cast(e, x, og.f32), lambda x: x.astype(np.float32), ["Dequantize"]),
    "cast few codes": ("few", lambda e, x: mv.cast(e, x, og.f32), lambda x: x.astype(np.float32), ["Cast"]),
    "cast codes of images": (
        "images",
        lambda e, x: mv.cast(e, x, og.f32),
        lambda x: x.astype(np.float32),
        ["Cast"],
    ),
    "join one": ("x", lambda e, x: mv.concat(e, [np.zeros((2, 0, 4), "f"), x], 1), lambda x: x, []),
    "join": ("x", lambda e, x: mv.concat(e, [x, x], 1), lambda x: np.concatenate([x, x], 1), ["Concat"]),
    "join 65": ("x", lambda e, x: mv.concat(e, [x] * 65, 0), lambda x: np.concatenate([x] * 65), ["Concat host"]),
    "join 64": ("x", lambda e, x: mv.concat(e, [x] * 64, 0), lambda x: np.concatenate([x] * 64), ["Concat"]),
    "join integers": ("i", lambda e, x: mv.concat(e, [x, x], 2), lambda x: np.concatenate([x, x], 2), ["Concat host"]),
    "expand to itself": ("x", lambda e, x: mv.expand(e, x, (2, 3, 4)), lambda x: x, []),
    "expand by ones": ("x", lambda e, x: mv.expand(e, x, (1, 1)), lambda x: x, []),
    "expand by more ones": ("x", lambda e, x: mv.expand(e, x, (1, 1, 1, 1)), lambda x: x[None], ["Expand"]),
    "expand": (
        "line",
        lambda e, x: mv.expand(e, x, (5, 1, 3, 1)),
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
        ["Expand"],
    ),
    "split": ("x", lambda e, x: mv.split(e, x, [1, 2], 1)[1], lambda x: x[:, 1:3], ["Slice"]),
    "whole part": ("x", lambda e, x: mv.part(e, x, 1, 0, 3), lambda x: x, []),
    "part": ("x", lambda e, x: mv.part(e, x, 2, 1, 4, 2), lambda x: x[..., 1:4:2], ["Slice"]),
    "empty part": ("i", lambda e, x: mv.part(e, x, 1, 2, 1), lambda x: x[:, 2:1], ["Slice"]),
    "pad": (
        "x",
        lambda e, x: mv.padded(e, x, [0, 1, 0], [0, 0, 2], 7),
        lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=7),
        ["Concat", "Concat"],
    ),
    "add nothing": ("x", lambda e, x: el.add(e, f(0), x), lambda x: x, []),
    "add nothing to": ("x", lambda e, x: el.add(e, x, f(0)), lambda x: x, []),
    "add a row of nothing": ("x", lambda e, x: el.add(e, x, np.zeros(4, "f")), lambda x: x, ["Add"]),
    "multiply by one": ("x", lambda e, x: el.multiply(e, f(1), x), lambda x: x, []),
    "multiply by a view of one": ("x", lambda e, x: el.multiply(e, x, np.broadcast_to(f(1), (4,))), lambda x: x, []),
    "multiply by a wider view": (
        "x",
        lambda e, x: el.multiply(e, x, np.broadcast_to(f(1), (5, 2, 3, 4))),
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
        ["Multiply"],
    ),
    "multiply": ("x", lambda e, x: el.multiply(e, x, f(3)), lambda x: 3 * x, ["Multiply"]),
    "clamp above 0": ("x", lambda e, x: el.clamp(e, x, f(0), None), lambda x: np.maximum(x, 0), ["ReLU"]),
    "clamp": ("x", lambda e, x: el.clamp(e, x, f(-1), f(1)), lambda x: np.clip(x, -1, 1), ["Clamp"]),
    "clamp to a number": ("x", lambda e, x: el.clamp(e, x, f(1), f(1)), np.ones_like, ["Clamp"]),
    "clamp below": ("x", lambda e, x: el.clamp(e, x, None, f(1)), lambda x: np.minimum(x, 1), ["Clamp"]),
    "clamp crosswise": ("x", lambda e, x: el.clamp(e, x, f(2), f(1)), np.ones_like, ["Maximum", "Minimum"]),
    "clamp integers": (
        "i",
        lambda e, x: el.clamp(e, x, np.array(0, np.int32), np.array(3, np.int32)),
        lambda x: np.clip(x, 0, 3),
        ["Maximum", "Minimum"],
    ),
    "select": (
        "b",
        lambda e, x: el.select(e, x, np.full((2, 3, 4), 3, "f"), f(-1)),
        lambda x: np.where(x, f(3), f(-1)),
        ["Select"],
    ),
    "select of a wider condition": (
        "b",
        lambda e, x: el.select(e, x, f(3), f(-1)),
        lambda x: np.where(x, f(3), f(-1)),
        ["Select"],
    ),
    "select integers": (
        "b",
        lambda e, x: el.select(e, x, np.array(3, np.int32), np.array(4, np.int32)),
        lambda x: np.where(x, 3, 4),
        ["Where"],
    ),
    "select of a narrower condition": (
        "line",
        lambda e, x: el.select(e, e.op("Greater", [x, f(0)]), INPUTS["x"], f(-1)),
        lambda x: np.where(x > 0, INPUTS["x"], f(-1)),
        ["Greater", "Select"],
    ),
    "select of two tensors": (
        "x",
        lambda e, x: el.select(e, np.array([[[True]], [[False]]]), x, el.negative(e, x)),
        lambda x: np.where(np.array([[[True]], [[False]]]), x, -x),
        ["Multiply", "Select"],
    ),
    "select of a row": (
        "b2",
        lambda e, x: el.select(e, x, e.op("Cast", [x], {"saturate": True}, dtype=og.f32), f(2)),
        lambda x: np.where(x, f(1), f(2)),
        None,
    ),
    "prelu of infinities": (
        "x",
        lambda e, x: el.prelu(e, x, np.full(4, INF, np.float32)),
        lambda x: np.where(x > 0, x, INF * x),
        ["PReLU"],
    ),
    "negative": ("x", el.negative, np.negative, ["Multiply"]),
    "negative integers": ("i", el.negative, np.negative, ["Negative"]),
    "prelu of one slope": (
        "x",
        lambda e, x: el.prelu(e, x, np.full(4, 0.5, "f")),
        lambda x: np.where(x > 0, x, x / 2),
        ["LeakyReLU"],
    ),
    "prelu": (
        "x",
        lambda e, x: el.prelu(e, x, np.float32([1, 2, 3, 0.5])),
        lambda x: np.where(x > 0, x, x * np.float32([1, 2, 3, 0.5])),
        ["PReLU"],
    ),
    "swish": ("x", el.swish, lambda x: x * soft(x), ["Sigmoid", "Multiply"]),
    "swish of 2": (
        "x",
        lambda e, x: el.swish(e, x, 2.0),
        lambda x: x * soft(2 * x),
        ["Multiply", "Sigmoid", "Multiply"],
    ),
    "selu": ("x", lambda e, x: el.selu(e, x, 2.0, 3.0), lambda x: 3 * np.where(x > 0, x, 2 * np.expm1(x)), None),
    "celu": ("x", lambda e, x: el.celu(e, x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), None),
    "softsign": ("x", el.softsign, lambda x: x / (1 + abs(x)), None),
    "threshold": ("x", lambda e, x: el.thresholded_relu(e, x, 1.5), lambda x: np.where(x > 1.5, x, 0), None),
    "shrink": (
        "x",
        lambda e, x: el.shrink(e, x, 1.5, 0.25),
        lambda x: np.where(x > 1.5, x - 0.25, np.where(x < -1.5, x + 0.25, 0)),
        None,
    ),
    "sum of no axes": ("x", lambda e, x: reduce(e, "ReduceSum", x, [], True), lambda x: x, []),
    "norm of no axes": ("x", lambda e, x: reduce(e, "ReduceL2", x, [], True), abs, ["Abs"]),
    "sum of all": ("x", lambda e, x: reduce(e, "ReduceSum", x, None, False), lambda x: x.sum(), ["ReduceSum"]),
    "norm": (
        "x",
        lambda e, x: reduce(e, "ReduceL1", x, [1], True),
        lambda x: abs(x).sum(1, keepdims=True),
        ["ReduceL1"],
    ),
    "norm of integers": (
        "i",
        lambda e, x: reduce(e, "ReduceL1", x, [1], False),
        lambda x: abs(x).sum(1),
        ["Abs", "ReduceSum"],
    ),
    "log of a sum": (
        "x",
        lambda e, x: log_sum_exp(e, el.multiply(e, x, f(100)), [2], False),
        lambda x: np.log(np.exp(100 * x.astype(np.float64) - 100 * x.max(2)[..., None]).sum(2)) + 100 * x.max(2),
        None,
    ),
}


def left(graph):
    """The kinds of the ops that outputs depend on, with the edition of those that have two forms."""
    ops = without_unread(graph).ops
    return [f"{op.kind} {op.edition}" if (op.kind, op.edition) == ("Concat", "host") else op.kind for op in ops]


@grouped("case", CASES, key=lambda case: CASES[case][0])
def test_a_node_becomes_these_ops(case):
    name, lower, expected, kinds = CASES[case]
    given = INPUTS[name]
    graph = og.Graph()
    graph.output("y", lower(Emitter(graph), graph.input(name, given.dtype, given.shape)))
    assert kinds is None or left(graph) == kinds
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.asarray(expected(given))
        found = reference.run(graph, {name: given})["y"]
    assert found.shape == wanted.shape == graph.outputs["y"].shape
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "case", ["reshape", "slice", "part", "cast to integers", "clamp", "negative", "shrink", "norm"]
)
def test_known_arrays_are_computed_at_once(case):
    name, lower, expected, _ = CASES[case]
    graph = og.Graph()
    found = lower(Emitter(graph), INPUTS[name])
    assert isinstance(found, np.ndarray)
    assert not graph.ops
    np.testing.assert_allclose(found, expected(INPUTS[name]), rtol=1e-6)


@pytest.mark.parametrize(
    ("lower", "expected", "kinds"),
    [
        (lambda e, x: mv.unsqueeze(e, x, [1]), X[:, None], ["Unsqueeze"]),
        (lambda e, x: mv.squeeze(e, mv.unsqueeze(e, x, [1]), [1]), X, ["Unsqueeze", "Squeeze"]),
        (lambda e, x: mv.flatten(e, x, 1), X.reshape(2, 12), ["StaticReshape"]),
        (lambda e, x: mv.flatten(e, x, 3), X.reshape(24, 1), None),
        (lambda e, x: mv.dims_of(e, x), np.int64([2, 3, 4]), ["Shape"]),
    ],
)
def test_a_node_of_an_unknown_batch(lower, expected, kinds):
    graph = og.Graph()
    graph.output("y", lower(Emitter(graph), graph.input("x", og.f32, (None, 3, 4))))
    assert kinds is None or left(graph) == kinds
    np.testing.assert_array_equal(reference.run(graph, {"x": X})["y"], expected)


@pytest.mark.parametrize(
    ("size", "places", "fits"),
    [
        (6, range(1, 3), True),
        (6, range(0, 6, 2), True),
        (6, range(1, 6, 2), True),
        (5, range(0, 5, 2), False),
        (6, range(2, 6, 2), False),
        (6, range(0, 4, 2), False),
        (7, range(5, 6, 4), True),
        (6, range(6), True),
        (6, range(3, 3), True),
    ],
)
def test_places_are_replaced_as_in_numpy(size, places, fits):
    assert mv.is_replaceable(size, places) is fits
    graph, array = og.Graph(), np.arange(2 * size * 3, dtype=np.float32).reshape(2, size, 3)
    updates = -np.ones((2, len(places), 3), np.float32)
    src, fresh = graph.input("x", og.f32, array.shape), graph.input("updates", og.f32, updates.shape)
    if not fits:
        with pytest.raises(NotLowered, match="a step that does not divide the axis"):
            mv.with_part(Emitter(graph), src, fresh, 1, places)
        return
    graph.output("y", mv.with_part(Emitter(graph), src, fresh, 1, places))
    wanted = array.copy()
    wanted[:, places] = -1
    np.testing.assert_array_equal(reference.run(graph, {"x": array, "updates": updates})["y"], wanted)


def test_a_number_beyond_integers_is_not_lowered():
    assert mv.scalar(255, og.u8) == 255
    assert mv.scalar(1e39, og.f32) == INF
    with pytest.raises(NotLowered, match="300 is beyond the range of u8"):
        mv.scalar(300, og.u8)


def test_the_order_behind_a_transpose_is_found():
    graph = og.Graph()
    x = graph.input("x", og.f32, (2, 3, 4))
    emit = Emitter(graph)
    assert moved(emit, mv.transpose(emit, x, (2, 0, 1))) == (x, (2, 0, 1))
    assert moved(emit, x) is moved(emit, None) is moved(emit, el.add(emit, x, f(1))) is None
    assert inverse((2, 0, 1)) == (1, 2, 0)


def test_a_bound_of_infinities_gives_no_nan():
    graph = og.Graph()
    graph.output("y", log_sum_exp(Emitter(graph), graph.input("x", og.f32, (3, 2)), [1], True))
    rows = np.float32([[-INF, -INF], [INF, 0], [0, -INF]])
    with np.errstate(divide="ignore", over="ignore"):
        found = reference.run(graph, {"x": rows})["y"]
    np.testing.assert_array_equal(found, [[-INF], [INF], [0]])


def test_integers_of_known_places_are_vectors():
    assert numbers(2, -1).tolist() == [2, -1]
    assert numbers().shape == (0,)


def as_parts(numbers):
    return np.stack([numbers.real, numbers.imag], -1)


@pytest.mark.parametrize("length", [5, 512, 513, 514, 520, 521])
@pytest.mark.parametrize(("before", "after"), [((), ()), ((2,), (3,))])
def test_fourier_transforms_agree_with_numpy(length, before, after):
    axis, shape = len(before), (*before, length, *after)
    drawn = np.random.default_rng(length)
    waves = drawn.standard_normal(shape) + 1j * drawn.standard_normal(shape)
    graph = og.Graph()
    numbers = graph.input("numbers", "f32", (*shape, 2))
    real = graph.input("real", "f32", shape)
    half = graph.input("half", "f32", (*before, length // 2 + 1, *after, 2))
    for name, src, how in (
        ("forward", numbers, {"is_real": False, "half": False}),
        ("of_real", real, {"is_real": True, "half": True}),
        ("whole", real, {"is_real": True, "half": False}),
    ):
        graph.output(name, transformed(Emitter(graph), src, axis, -1, 0.5, **how))
    graph.output("back", transformed(Emitter(graph), numbers, axis, 1, 2 / length, is_real=False, half=False))
    graph.output("of_half", real_of_half(Emitter(graph), half, axis, length, 1 / length))
    spectrum = np.fft.rfft(waves.real, axis=axis)
    given = {"numbers": as_parts(waves), "real": waves.real, "half": as_parts(spectrum)}
    found = og.reference.run(graph, {name: array.astype(np.float32) for name, array in given.items()})
    wanted = {
        "forward": as_parts(np.fft.fft(waves, axis=axis)) / 2,
        "of_real": as_parts(spectrum) / 2,
        "whole": as_parts(np.fft.fft(waves.real, axis=axis)) / 2,
        "back": as_parts(np.fft.ifft(waves, axis=axis)) * 2,
        "of_half": waves.real,
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=2e-4, err_msg=name)


def test_long_primes_have_no_transform():
    graph = og.Graph()
    src = graph.input("x", "f32", (2053,))
    with pytest.raises(NotLowered, match="prime"):
        transformed(Emitter(graph), src, 0, -1, 1, is_real=True, half=False)
