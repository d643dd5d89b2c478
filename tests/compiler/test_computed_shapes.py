"""What is known of a computed shape: literal parts, and the same numbers when the graph runs."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util.open_numbers import has_open_numbers, numbers_at, numbers_of
from onegraph.lowering import movement
from onegraph.lowering.computed_shapes import LARGEST_FLOAT, MOST_NUMBERS, MOST_OPS, RULES, _parts, known_parts
from onegraph.lowering.emitter import Emitter, numbers
from onegraph.lowering.norms import layer_norm

X = np.zeros((3, 5, 8), np.float32)


def shape(emit, x):
    return emit.op("Shape", [x])


def floats(emit, x):
    """The shape, and numbers that fit into f32."""
    return movement.cast(emit, shape(emit, x), og.f32)


def rounded(emit, x, kind):
    """A third of each dim, rounded by an op to an integer."""
    quotient = emit.op("Divide", [floats(emit, x), np.float32([3])])
    return movement.cast(emit, quotient if kind == "Cast" else emit.op(kind, [quotient]), og.s64)


def matrix(emit, x):
    return emit.op("Reshape", [emit.op("Concat", [shape(emit, x), numbers(1)], {"axis": 0}), numbers(2, 2)])


def turned(emit, x):
    """The rows of a matrix from the last to the first, column by column: pads as exporters write them."""
    rows = movement.slice_(emit, matrix(emit, x), [-1], [-9], [0], [-1])
    return emit.op("Reshape", [emit.op("Transpose", [rows], {"order": (1, 0)}), numbers(-1)])


# By case: the kinds of the ops, a function of the emitter and x that makes a vector, and what is known of it.
CASES = {
    "Shape": (lambda e, x: shape(e, x), [None, None, 8]),
    "Slice": (lambda e, x: movement.slice_(e, shape(e, x), [1], [9], [0]), [None, 8]),
    "Slice, from the end": (lambda e, x: movement.slice_(e, shape(e, x), [-1], [-9], [0], [-2]), [8, None]),
    "Concat": (lambda e, x: e.op("Concat", [shape(e, x), numbers(2, 4)], {"axis": 0}), [None, None, 8, 2, 4]),
    "Gather": (lambda e, x: e.op("Gather", [shape(e, x), numbers(2, 0, -1)], {"axis": 0}), [8, None, 8]),
    "Reshape": (lambda e, x: e.op("Reshape", [shape(e, x), numbers(-1)]), [None, None, 8]),
    "Unsqueeze": (
        lambda e, x: e.op("Unsqueeze", [e.op("Gather", [shape(e, x), np.array(2)], {"axis": 0})], {"axes": [0]}),
        [8],
    ),
    "Squeeze": (lambda e, x: e.op("Squeeze", [movement.slice_(e, shape(e, x), [2], [3], [0])], {"axes": [0]}), [8]),
    "Cast": (lambda e, x: movement.cast(e, shape(e, x), og.s32), [None, None, 8]),
    "Cast to a float": (lambda e, x: movement.cast(e, shape(e, x), og.f32), None),
    "Add": (lambda e, x: e.op("Add", [shape(e, x), numbers(1)]), [None, None, 9]),
    "Subtract": (lambda e, x: e.op("Subtract", [numbers(9), shape(e, x)]), [None, None, 1]),
    "Multiply": (lambda e, x: e.op("Multiply", [shape(e, x), numbers(1, 2, 3)]), [None, None, 24]),
    "Equal": (lambda e, x: e.op("Equal", [shape(e, x), numbers(8)]), [None, None, 1]),
    "Where": (
        lambda e, x: e.op(
            "Where", [e.op("Equal", [shape(e, x), numbers(3, 8, 8)]), numbers(7, 6, 5), numbers(7, 4, 4)]
        ),
        [7, None, 5],
    ),
    "Divide": (lambda e, x: e.op("Divide", [shape(e, x), numbers(3)]), [None, None, 2]),
    "Divide, rounded towards 0": (lambda e, x: e.op("Divide", [shape(e, x), numbers(-3)]), [None, None, None]),
    "Maximum": (lambda e, x: e.op("Maximum", [shape(e, x), numbers(9)]), [None, None, 9]),
    "Minimum": (lambda e, x: e.op("Minimum", [shape(e, x), numbers(9)]), [None, None, 8]),
    "Greater": (lambda e, x: e.op("Greater", [shape(e, x), numbers(7)]), [None, None, 1]),
    "Less": (lambda e, x: e.op("Less", [shape(e, x), numbers(7)]), [None, None, 0]),
    "ReduceProd": (
        lambda e, x: e.op(
            "ReduceProd", [movement.slice_(e, shape(e, x), [2], [3], [0])], {"axes": [0], "keep_dims": True}
        ),
        [8],
    ),
    "Size": (lambda e, x: e.op("Size", [e.op("Concat", [shape(e, x), numbers(2)], {"axis": 0})]), [4]),
    "Size of unknown dims": (lambda e, x: e.op("Size", [x]), [None]),
    "Transpose": (turned, [8, None, 1, None]),
    "Slice of columns": (
        lambda e, x: e.op(
            "Reshape",
            [
                movement.slice_(e, matrix(e, x), [1], [2], [1]),
                numbers(-1),
            ],
        ),
        [None, 1],
    ),
    "Mod": (lambda e, x: e.op("Mod", [shape(e, x), numbers(3)]), [None, None, 2]),
    "Ceil": (lambda e, x: rounded(e, x, "Ceil"), [None, None, 3]),
    "Floor": (lambda e, x: rounded(e, x, "Floor"), [None, None, 2]),
    "Cast of a quotient": (lambda e, x: rounded(e, x, "Cast"), [None, None, 2]),
    "Clamp": (
        lambda e, x: movement.cast(e, e.op("Clamp", [floats(e, x)], {"min": 0.0, "max": 7.0}), og.s64),
        [None, None, 7],
    ),
    "ReLU": (
        lambda e, x: movement.cast(e, e.op("ReLU", [e.op("Subtract", [floats(e, x), np.float32([9])])]), og.s64),
        [None, None, 0],
    ),
    "StaticReshape": (
        lambda e, x: movement.cast(
            e, e.op("StaticReshape", [floats(e, x)], {"shape": (3,), "special_zero": False}), og.s64
        ),
        [None, None, 8],
    ),
    "A number that f32 does not hold": (
        lambda e, x: movement.cast(e, e.op("Multiply", [floats(e, x), np.float32([2**22])]), og.s64),
        [None, None, None],
    ),
    "Half of a number": (
        lambda e, x: movement.cast(e, e.op("Multiply", [floats(e, x), np.float32([0.5])]), og.s64),
        None,
    ),
    "Absolute value": (lambda e, x: e.op("Abs", [shape(e, x)]), None),
}


def open_graph():
    g = og.Graph()
    return g, g.input("x", "f32", (None, None, 8)), Emitter(g)


def test_every_rule_has_a_case():
    assert RULES.keys() <= CASES.keys()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.library
def test_known_parts_are_those_that_are_computed(case):
    make, expected = CASES[case]
    g, x, emit = open_graph()
    vector = make(emit, x)
    parts = known_parts(emit, vector)
    assert (None if parts is None else [*parts]) == expected
    g.output("y", vector)
    found = g.compile()(X).reshape(-1)
    for known, number in zip(expected or (), found, strict=expected is not None):
        assert known is None or known == number


# A rule, what is known of the inputs of its op, and of the result, by hand.
BY_HAND = [
    ("Slice", [[1, 2, 3, 4], [1], [3]], [2, 3]),
    ("Slice", [[1, 2, 3, 4], [0], [3], [0]], [1, 2, 3]),
    ("Slice", [[1, 2, 3, 4], [0], [4], [0], [3]], [1, 4]),
    ("Slice", [[1, 2], [None], [2]], None),
    ("Slice", [[1, 2], [0, 0], [2]], None),
    ("Slice", [[1, 2], [0], None], None),
    ("Slice", [None, [0], [2]], None),
    ("Mod", [[7, 7, -7, 7, None], [4, 0, 4, -4, 4]], [3, None, None, None, None]),
    ("ReLU", [[3, -3, None]], [3, 0, None]),
    ("Concat", [[1], [None, 2]], [1, None, 2]),
    ("Concat", [[1], None], None),
    ("Gather", [[4, 5, 6], [2, -3]], [6, 4]),
    ("Gather", [[4, 5, 6], [3, -4, None]], [None, None, None]),
    ("Gather", [None, [0]], None),
    ("Gather", [[4], None], None),
    ("Add", [[1, 2], [3]], [4, 5]),
    ("Add", [[1, 2], [3, None]], [4, None]),
    ("Add", [[1, 2], [3, 4, 5]], None),
    ("Add", [[1, 2], None], None),
    ("Divide", [[0, 7, 7, -1, 7], [2, 1, 0, 2, -1]], [0, 7, None, None, None]),
    ("Greater", [[8, 9], [8]], [0, 1]),
    ("Less", [[8, 7], [8]], [0, 1]),
    ("Equal", [[8, 7], [8]], [1, 0]),
    ("Where", [[1, 0, None, None], [5], [6, 6, 5, 6]], [5, 6, 5, None]),
    ("ReduceProd", [[2, 3]], [6]),
    ("ReduceProd", [[0, 3]], [0]),
    ("ReduceProd", [[2, None]], [None]),
    ("ReduceProd", [None], None),
]


class ByHand:
    """Reads what is known of tensors that no op makes."""

    emit = SimpleNamespace(maker=lambda value: None)

    def __call__(self, tensor, ranks=1):
        return tensor.known


def ruled(kind, inputs, dtype="s64", **attrs):
    """What a rule says of the result of an op with these attributes, from what is known of its inputs."""
    tensors = [
        SimpleNamespace(known=known, shape=known if kind == "Size" or known is None else (len(known),))
        for known in inputs
    ]
    op = SimpleNamespace(
        kind=kind, inputs=tensors, attrs=attrs, outputs=[SimpleNamespace(dtype=og.DataType(dtype), shape=(1,))]
    )
    return RULES[kind](op, ByHand())


@pytest.mark.parametrize(("kind", "inputs", "expected"), BY_HAND)
def test_a_rule_gives_the_numbers_by_hand(kind, inputs, expected):
    found = ruled(kind, inputs)
    assert found == expected
    assert all(number is None or type(number) is int for number in found or ())


@pytest.mark.parametrize(("axes", "expected"), [((0,), [6]), ((-1,), [6]), ((1,), None), ((0, 1), None)])
def test_a_product_of_one_axis_is_known(axes, expected):
    assert ruled("ReduceProd", [[2, 3]], axes=axes) == expected


@pytest.mark.parametrize(("dtype", "is_known"), [("s32", 1), ("u8", 1), ("boolean", 0), ("f32", 1), ("bf16", 0)])
def test_casts_to_integers_and_wide_floats_keep_what_is_known(dtype, is_known):
    assert ruled("Cast", [[2, None]], dtype) == ([2, None] if is_known else None)


@pytest.mark.parametrize(
    ("dims", "count"), [((2, 3), [6]), ((2, 0), [0]), ((), [1]), ((2, None), [None]), (None, None)]
)
def test_number_of_elements_is_the_product_of_dims(dims, count):
    assert ruled("Size", [dims]) == count


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array(3), [3]),
        (np.array([True, False]), [1, 0]),
        (np.uint8([255, 0]), [255, 0]),
        (np.array([[3]]), None),
        (np.float32([3]), None),
        (np.ones(MOST_NUMBERS + 1, np.int64), None),
        (np.ones(MOST_NUMBERS, np.int64), [1] * MOST_NUMBERS),
    ],
    ids=["number", "booleans", "bytes", "matrix", "floats", "too many", "as many as are read"],
)
def test_short_vectors_of_integers_have_parts(array, expected):
    assert known_parts(Emitter(og.Graph()), array) == expected


def test_open_numbers_are_those_of_each_size():
    array = numbers_of([2, 3, 4, 5], (2, 2))
    assert (array.shape, array.tolist()) == ((2, 2), [[2, 3], [4, 5]])
    assert [has_open_numbers(one) for one in (array, np.int64([2]), None)] == [True, False, False]
    known = numbers_at(array, lambda size: 10 * size, np.dtype(np.int32))
    assert (known.dtype, known.tolist()) == (np.int32, [[20, 30], [40, 50]])


@pytest.mark.parametrize(("length", "is_known"), [(MOST_OPS - 1, True), (MOST_OPS, False)])
def test_long_chain_ends(length, is_known):
    _, x, emit = open_graph()
    vector = shape(emit, x)
    for _ in range(length):
        vector = emit.op("Add", [vector, numbers(1)])
    assert (known_parts(emit, vector) is not None) is is_known


def test_ops_that_read_one_value_twice_take_no_time():
    _, x, emit = open_graph()
    vector = shape(emit, x)
    for _ in range(MOST_OPS - 2):  # a rule that followed each input would be called 2**30 times
        vector = emit.op("Add", [vector, vector])
    assert [*known_parts(emit, vector)] == [None, None, 8 << (MOST_OPS - 2)]


@pytest.mark.parametrize(
    ("parts", "dims", "result"),
    [
        ([numbers(-1), 1, numbers(4, 2)], (None, None, 4, 2), (3, 5, 4, 2)),
        ([0, 1, numbers(2, -1)], (None, None, 2, None), (3, 5, 2, 4)),
        ([0, 1, numbers(1, 8)], (None, None, 1, 8), (3, 5, 1, 8)),
    ],
)
@pytest.mark.library
def test_reshape_to_a_computed_shape_keeps_what_is_known(parts, dims, result):
    g, x, emit = open_graph()
    sizes = shape(emit, x)
    parts = [movement.slice_(emit, sizes, [one], [one + 1], [0]) if type(one) is int else one for one in parts]
    y = movement.reshape(emit, x, emit.op("Concat", parts, {"axis": 0}))
    assert y.shape == dims
    g.output("y", emit.op("ReLU", [y]))
    assert g.compile()(X).shape == result


@pytest.mark.library
def test_expansion_to_a_computed_shape_keeps_what_is_known():
    g, x, emit = open_graph()
    row = g.input("row", "f32", (1, 1, None))
    wide = movement.expand(
        emit, row, emit.op("Concat", [movement.slice_(emit, shape(emit, x), [0], [2], [0]), numbers(8)], {"axis": 0})
    )
    assert wide.shape == (None, None, 8)
    g.output("y", emit.op("ReLU", [wide]))
    given = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    np.testing.assert_array_equal(g.compile()(X, given), np.broadcast_to(given, (3, 5, 8)))


@pytest.mark.library
def test_wrong_shape_is_an_error_and_not_another_shape():
    """The stated dims add a check to that of the Reshape."""
    g, x, emit = open_graph()
    batch = movement.slice_(emit, shape(emit, x), [0], [1], [0])
    g.output("y", emit.op("ReLU", [movement.reshape(emit, x, emit.op("Concat", [batch, numbers(40)], {"axis": 0}))]))
    model = g.compile()
    assert model(X).shape == (3, 40)
    with pytest.raises(og.OneGraphError, match="elements"):
        model(np.zeros((3, 4, 8), np.float32))


@pytest.mark.library
def test_layer_norm_of_several_unknown_dims_is_one_op():
    g, x, emit = open_graph()
    gamma, beta = np.full(8, 2, np.float32), np.full(8, 1, np.float32)
    normal, mean, variance = layer_norm(emit, x, gamma, beta, -1, 1e-5)
    for name, one in (("normal", normal), ("mean", mean), ("variance", variance)):
        g.output(name, one)
    given = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)
    found = g.compile()(given)
    center, spread = given.mean(-1, keepdims=True), given.var(-1, keepdims=True)
    np.testing.assert_allclose(found.normal, (given - center) / np.sqrt(spread + 1e-5) * 2 + 1, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.mean, center, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.variance, spread, rtol=1e-4, atol=1e-6)
    assert [op.kind for op in g.ops].count("LayerNorm") == 1


@pytest.mark.library
def test_reshapes_to_computed_shapes_compile_once():
    onnx = pytest.importorskip("onnx")
    import onegraph.onnx

    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 21]> m (float[B,T,32] x) => (float[B,4,T,8] y) {
        i = Constant<value_ints=[1]>() n = Constant<value_ints=[-1]>() h = Constant<value_ints=[4,8]>()
        s = Shape(x) t = Gather(s, i) d = Concat<axis=0>(n, t, h) r = Reshape(x, d)
        p = Transpose<perm=[0,2,1,3]>(r) y = Relu(p) }"""
    )
    executable = onegraph.onnx.load(model).compile()
    for tokens in range(8, 16):
        x = np.random.default_rng(tokens).standard_normal((2, tokens, 32), np.float32)
        wanted = np.maximum(x.reshape(2, tokens, 4, 8).transpose(0, 2, 1, 3), 0)
        np.testing.assert_array_equal(executable(x), wanted)
    assert (executable.cache_info().reused, executable.cache_info().reason) == (6, "")


@pytest.mark.parametrize(
    ("array", "ranks", "parts"),
    [
        (np.array([2, -1]), 1, [2, -1]),
        (np.array([True, False]), 1, [1, 0]),
        (np.array(3, np.uint8), 0, [3]),
        (np.array([[1, 2], [3, 4]]), 2, [1, 2, 3, 4]),
        (np.array([[1, 2], [3, 4]]), 1, None),
        (np.float32([2, -3]), 1, [2, -3]),
        (np.float32([2, 0.5]), 1, None),
        (np.float32([np.inf]), 1, None),
        (np.float32([np.nan]), 1, None),
        (np.array([1e300]), 1, None),
        (np.array([2**40]), 1, [2**40]),
        (np.array([LARGEST_FLOAT - 1], np.float64), 1, [LARGEST_FLOAT - 1]),
        (np.array([LARGEST_FLOAT], np.float64), 1, None),
        (np.array(["a"]), 1, None),
        (np.zeros(MOST_NUMBERS, np.int64), 1, [0] * MOST_NUMBERS),
        (np.zeros(MOST_NUMBERS + 1, np.int64), 1, None),
    ],
)
def test_known_numbers_are_parts_if_they_are_integers(array, ranks, parts):
    assert _parts(None, array, MOST_OPS, ranks) == parts
