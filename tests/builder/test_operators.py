"""Python's operators on the tensors of a graph, and what the methods of ops imply."""

import copy
import itertools
import operator
import pickle
import re

import ml_dtypes
import numpy as np
import pytest

import onegraph as og

A = np.array([[-2.0, -0.5, 0.0], [1.0, 3.0, 4.5]], np.float32)
B = np.array([[1.0, 2.0, -4.0], [0.5, 3.0, 8.0]], np.float32)


def run(build, *arrays):
    """The result of ``build`` on tensors of a graph, through the library."""
    g = og.Graph()
    tensors = [g.input(f"x{number}", array.dtype, array.shape) for number, array in enumerate(arrays)]
    g.output("y", build(*tensors))
    return g.compile()(*arrays)


@pytest.mark.library
@pytest.mark.parametrize("sign", ["add", "sub", "mul", "truediv", "pow", "ge", "gt", "le", "lt"])
def test_operator_of_two_tensors(sign):
    apply = getattr(operator, sign)
    first = np.abs(A) + 1 if sign == "pow" else A
    np.testing.assert_allclose(run(apply, first, B), apply(first, B), rtol=1e-6)


@pytest.mark.library
@pytest.mark.parametrize("sign", ["add", "sub", "mul", "truediv", "ge", "gt", "le", "lt"])
@pytest.mark.parametrize(
    "other", [2, -0.5, True, np.float64(1.5), np.int64(3), np.array([1.0, 2.0, 4.0]), np.arange(1, 3).reshape(2, 1)]
)
def test_operator_with_a_number_or_an_array(sign, other):
    apply = getattr(operator, sign)
    np.testing.assert_allclose(run(lambda x: apply(x, other), B), apply(B, np.float32(other)), rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: apply(other, x), B), apply(np.float32(other), B), rtol=1e-6)


@pytest.mark.library
def test_operators_of_one_tensor():
    assert run(operator.neg, A).tolist() == [[2, 0.5, 0], [-1, -3, -4.5]]
    assert run(abs, A).tolist() == [[2, 0.5, 0], [1, 3, 4.5]]


@pytest.mark.library
@pytest.mark.parametrize("power", [2, 3, 0.5, -1, 0])
def test_power_of_a_number(power):
    np.testing.assert_allclose(run(lambda x: x**power, np.abs(B)), np.abs(B) ** power, rtol=1e-5)


@pytest.mark.library
def test_power_with_a_tensor_as_exponent():
    np.testing.assert_allclose(run(lambda x: 2**x, A), 2**A, rtol=1e-5)


def test_square_is_one_op():
    g = og.Graph()
    assert (g.input("x", og.f32, (2,)) ** 2).name == "square_0.dst"


@pytest.mark.library
def test_matrix_products():
    np.testing.assert_allclose(run(operator.matmul, A, B.T.copy()), A @ B.T, rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: x @ B.T, A), A @ B.T, rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: B.T @ x, A), B.T @ A, rtol=1e-6)


@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16])
def test_constants_have_the_type_of_the_tensor(dtype):
    g = og.Graph()
    x = g.input("x", dtype, (2, 3))
    for y in (x + 1, 2.5 * x, x / np.ones(3), x @ np.ones((3, 2))):
        assert y.dtype is dtype
        assert {tensor.dtype for tensor in g.ops[-1].inputs} == {dtype}


class Exporter:
    """A tensor of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.library
def test_dlpack_tensors_are_operands_and_constants():
    other = Exporter(np.array([1.0, 2.0, 3.0]))
    assert run(lambda x: x * other, A).tolist() == (A * [1, 2, 3]).tolist()
    g = og.Graph()
    kept = g.constant(Exporter(B))
    assert (kept.dtype, kept.shape, kept.value.tolist()) == (og.f32, (2, 3), B.tolist())
    with pytest.raises(og.ArgumentError, match=r"constant: list; expected a numpy array, as np\.array\(.*, or any"):
        g.constant([1.0])


@pytest.mark.parametrize(
    ("dtype", "other", "message"),
    [
        (og.s32, 1.5, "Add: 1.5; expected integers within its range, as x is s32"),
        (og.s32, 2**40, "Add: 1099511627776; expected integers within its range, as x is s32"),
        (og.f32, 1e300, "Add: 1e+300; expected numbers within its range, as x is f32"),
        (og.f16, np.array([1e6]), "Add: the ndarray; expected numbers within its range, as x is f16"),
        (og.f32, np.array(["a"]), "Add: the ndarray of <U1; expected numbers, which become f32 as x is"),
    ],
)
def test_numbers_that_the_type_does_not_hold(dtype, other, message):
    g = og.Graph()
    with pytest.raises(og.ArgumentError) as caught:
        g.input("x", dtype, (1,)) + other
    assert str(caught.value) == message
    assert g.ops == ()


@pytest.mark.library
def test_infinity_and_nan_stay():
    assert run(lambda x: x * np.array([np.inf, 1, np.nan]), np.ones(3, np.float32)).tolist()[0] == np.inf


@pytest.mark.parametrize("other", ["a", None, [1, 2, 3], 1j, object()])
def test_other_operands_give_a_type_error(other):
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    with pytest.raises(TypeError):
        x + other
    with pytest.raises(TypeError):
        other - x


PARTS = [
    np.s_[0], np.s_[-1], np.s_[:, -1], np.s_[..., 0], np.s_[1:3], np.s_[::-1], np.s_[:, ::2], np.s_[3:0:-1, ..., None],
    np.s_[None], np.s_[None, 0, :, None, 2:], np.s_[0, 1, 2], np.s_[[2, 0]], np.s_[:, [1, 1, 3]], np.s_[..., [0, 5]],
    np.s_[-3:, :-1], np.s_[5:], np.s_[-10:2], np.s_[::-2, None, ..., -2], np.s_[np.array([[0, 1], [2, 3]])], np.s_[...],
]  # fmt: skip


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("place", PARTS, ids=repr)
def test_parts_of_a_tensor_are_those_of_numpy(place, opened):
    g = og.Graph()
    x = g.input("x", og.f32, (None, None, None) if opened else (4, 5, 6))
    y = g.output("y", g.relu(x[place]))
    g.output("d_x", *g.gradient(y, x))
    array = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    found = og.reference.run(g, {"x": array})
    expected = np.zeros_like(array)
    np.add.at(expected, place, array[place] > 0)
    np.testing.assert_array_equal(found["y"], np.maximum(array[place], 0))
    np.testing.assert_array_equal(found["d_x"], expected)


def test_a_part_by_a_tensor_of_indices():
    g = og.Graph()
    x, i = g.input("x", og.f32, (None, 3)), g.input("i", og.s64, (2,))
    g.output("y", x[i])
    g.output("z", x[5])
    arrays = {"x": np.eye(3, dtype=np.float32), "i": np.array([2, -1])}
    with pytest.raises(og.ArgumentError, match=r"index 5 .* out of bounds"):
        og.reference.run(g, arrays)
    assert og.reference.run(g, {**arrays, "x": np.ones((6, 3), np.float32)})["z"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (4, "expected an index from -4 to 3 along axis 0"),
        (-5, "expected an index from -4 to 3 along axis 0"),
        ((0, 0, 0, 0), "expected at most 3 indices"),
        ((..., ...), "expected at most 3 indices, and ... once"),
        (np.s_[::0], "expected a step other than 0"),
        (np.s_["a":], "expected integers in a slice; g.slice takes tensors"),
        ((0, [1]), "expected no integer beside a list of indices"),
        (([1], [1]), "expected integers, slices"),
        (True, "expected integers, slices"),
        ("a", "expected integers, slices"),
        (1.5, "expected integers, slices"),
        ([True, False], "expected integers, slices"),
    ],
)
def test_places_that_a_tensor_does_not_have(place, problem):
    g = og.Graph()
    x = g.input("x", og.f32, (4, 5, 6))
    with pytest.raises(og.ArgumentError, match=r"^x\[\.\.\.\]: index .*" + re.escape(problem)):
        x[place]
    assert g.ops == ()


def test_a_mask_is_no_place():
    g = og.Graph()
    x, mask = g.input("x", og.f32, (3,)), g.input("mask", og.boolean, (3,))
    with pytest.raises(og.ArgumentError, match=r"index mask; .* g\.compress takes the rows of a mask, and g\.select"):
        x[mask]
    with pytest.raises(og.ArgumentError, match="expected a tensor of known rank"):
        g.input("any", og.f32, None)[0]
    with pytest.raises(TypeError, match="not iterable"):
        iter(x)


@pytest.mark.parametrize(
    "sign", ["add", "sub", "mul", "mod", "floordiv", "and_", "or_", "xor", "ge", "gt", "le", "lt", "pow"]
)
@pytest.mark.parametrize("dtype", [og.s64, og.s32, og.u8])
def test_operators_of_integers(sign, dtype):
    apply, first, second = getattr(operator, sign), *np.array([[7, 2, 9], [2, 2, 3]], dtype.numpy)
    for other in (second, 3):
        g = og.Graph()
        x, y = g.input("x", dtype, (3,)), g.input("y", dtype, (3,))
        g.output("z", apply(x, y if other is second else other))
        found = og.reference.run(g, {"x": first, "y": second})["z"]
        expected = apply(first, other)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("dtype", [og.s64, og.s32, og.f32])
def test_quotients_are_rounded_down(dtype):
    first, second = np.array([7, -7, 7, -7], dtype.numpy), np.array([2, 2, -2, -2], dtype.numpy)
    g = og.Graph()
    x, y = g.input("x", dtype, (4,)), g.input("y", dtype, (4,))
    for name, result in {"xy": x // y, "number": x // -3, "left": 5 // y, "rest": x % y}.items():
        g.output(name, result)
    found = og.reference.run(g, {"x": first, "y": second})
    assert found["xy"].tolist() == (first // second).tolist()
    assert found["number"].tolist() == (first // -3).tolist()
    assert found["left"].tolist() == (5 // second).tolist()
    assert found["rest"].tolist() == (first % second).tolist()
    with pytest.raises(TypeError):
        x // "a"


def test_operators_of_one_integer_tensor():
    for dtype, apply in itertools.product((og.s64, og.s32), (operator.neg, operator.invert, abs)):
        g = og.Graph()
        g.output("y", apply(g.input("x", dtype, (2,))))
        assert (
            og.reference.run(g, {"x": np.array([-3, 4], dtype.numpy)})["y"].tolist()
            == apply(np.array([-3, 4])).tolist()
        )


@pytest.mark.parametrize("sign", ["and_", "or_", "xor"])
def test_operators_of_booleans(sign):
    apply, first, second = getattr(operator, sign), np.array([True, True, False]), np.array([True, False, False])
    g = og.Graph()
    x, y = g.input("x", og.boolean, (3,)), g.input("y", og.boolean, (3,))
    g.output("z", ~apply(x, y))
    assert og.reference.run(g, {"x": first, "y": second})["z"].tolist() == (~apply(first, second)).tolist()


def test_division_of_integers_is_refused():
    x = (g := og.Graph()).input("x", og.s64, (3,))
    with pytest.raises(og.SpecError, match=r"the host op Divide takes s64: g\.op\('Divide', .* edition='host'\)$"):
        x / 2
    assert g.ops == ()


def test_tensors_compare_by_identity():
    g = og.Graph()
    x, y = g.input("x", og.f32, (3,)), g.input("y", og.f32, (3,))
    for apply, other, holds in itertools.product((operator.eq, operator.ne), (x, y, 0, None, "x"), (True, False)):
        found = apply(x, other)
        assert (found == holds) is (bool(found) is holds)
        assert bool(found) is ((other is x) is (apply is operator.eq))
    assert x not in [y]
    assert {x: 1, y: 2}[y] == 2
    assert len({x, y}) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda g, x: x * (x == 0),
        lambda g, x: (x != x) * x,
        lambda g, x: 1.0 * (x == 0),
        lambda g, x: np.ones(3) * (x != 0),
        lambda g, x: ~(x == 0),
        lambda g, x: g.select(x == 0, x, x),
        lambda g, x: g.where(x == 0, x, x),
        lambda g, x: g.output("y", x == 0),
    ],
)
def test_a_comparison_of_identities_is_no_number(use):
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    with pytest.raises((TypeError, og.ArgumentError), match=r"== and != ask whether .* g\.equal\(a, b\) compares"):
        use(g, x)
    assert g.ops == ()
    assert not g.constants


def test_a_tensor_is_neither_true_nor_false():
    x = og.Graph().input("x", og.f32, (3,))
    with pytest.raises(TypeError, match=r"neither true nor false; g\.select"):
        bool(x)


def test_operators_need_the_graph_of_the_tensor():
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    with pytest.raises(og.ArgumentError, match="tensor 'y' is of another graph"):
        x + og.Graph().input("y", og.f32, (3,))
    with pytest.raises(og.StateError, match="tensor 0, but no graph made it"):
        og.LogicalTensor(0, og.f32, (3,)) + 1
    lonely = og.Graph().input("z", og.f32, (3,))
    with pytest.raises(og.StateError, match="its graph is no longer referenced"):
        lonely + 1


@pytest.mark.library
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_operators_of_a_copied_graph_add_to_the_copy(clone):
    g = og.Graph()
    g.output("y", g.input("x", og.f32, (3,)) + 1)
    other = clone(g)
    other.output("z", other.inputs["x"] * other.outputs["y"])
    assert (len(g.ops), len(other.ops)) == (1, 2)
    assert other.compile()(np.array([1, 2, 3], np.float32)).z.tolist() == [2, 6, 12]


# What methods imply --------------------------------------------------------------------------------------------------


def test_softmax_is_one_tensor_of_the_type_of_its_source():
    g = og.Graph()
    for number, dtype in enumerate((og.f32, og.bf16, og.f16)):
        y = g.softmax(g.input(f"x{number}", dtype, (2, 3)), axis=-1)
        assert (y.dtype, y.shape) == (dtype, (2, 3))
    both = g.softmax(g.input("x", og.f32, (2, 3)), axis=-1, outputs=["stats"])
    assert both._fields == ("dst", "stats")


def test_results_have_the_type_of_the_first_input():
    g = og.Graph()
    x, w = g.input("x", og.bf16, (2, 3)), g.input("w", og.bf16, (3, 4))
    assert g.matmul(x, w).dtype is og.bf16
    assert g.matmul(x, w, dtype=og.f32).dtype is og.f32
    with pytest.raises(og.SpecError, match="dtype: not given; expected one of"):
        g.quantize(g.input("q", og.f32, (2,)), scales=[0.1])


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_convolution_implies_unit_steps_without_padding(rank):
    axes = rank - 2
    g = og.Graph()
    x, w = g.input("x", og.f32, (1, *[6] * axes, 2)), g.input("w", og.f32, (*[3] * axes, 2, 4))
    assert g.convolution(x, w).shape == (1, *[4] * axes, 4)
    assert dict(g.ops[0].attrs) == {
        "strides": (1,) * axes,
        "pads_begin": (0,) * axes,
        "pads_end": (0,) * axes,
        "dilations": (1,) * axes,
    }
    assert g.convolution(x, w, strides=2, pads_begin=1, pads_end=[0] * axes).shape == (1, *[3] * axes, 4)
    assert g.conv_transpose(x, g.input("v", og.f32, (*[3] * axes, 4, 2)), output_padding=0).shape == (1, *[8] * axes, 4)


def test_dictionaries_need_every_attribute_of_the_specification():
    g = og.Graph()
    tensors = [g.input("x", og.f32, (1, 6, 2)), g.input("w", og.f32, (3, 2, 4))]
    with pytest.raises(og.SpecError, match="strides: missing"):
        g.op("Convolution", tensors, {})


def test_unknown_rank_implies_no_list():
    g = og.Graph()
    with pytest.raises(og.SpecError, match="strides: missing"):
        g.convolution(g.input("x", og.f32), g.input("w", og.f32, (3, 2, 4)))


def test_pools_take_one_number_for_every_axis():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 6, 6, 2))
    assert g.max_pool(x, kernel=2, strides=2).shape == (1, 3, 3, 2)


@pytest.mark.parametrize("attrs", [{}, {"pads_begin": 0, "pads_end": [0, 0]}, {"auto_pad": "valid"}])
def test_average_pools_that_stay_inside_need_no_exclude_pad(attrs):
    g = og.Graph()
    x = g.input("x", og.f32, (1, 6, 6, 2))
    assert g.avg_pool(x, kernel=2, strides=2, **attrs).shape == (1, 3, 3, 2)


@pytest.mark.parametrize(
    "attrs", [{"pads_begin": 1}, {"pads_end": [0, 1]}, {"auto_pad": "same_upper"}, {"rounding_type": "ceil"}]
)
def test_average_pools_that_reach_beyond_need_exclude_pad(attrs):
    g = og.Graph()
    x = g.input("x", og.f32, (1, 6, 6, 2))
    with pytest.raises(og.SpecError, match="exclude_pad: missing"):
        g.avg_pool(x, kernel=2, strides=2, **attrs)


def test_one_axis_stands_for_a_list_of_axes():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 6, 2))
    assert g.reduce_sum(x, axes=1).shape == g.reduce_sum(x, axes=[1]).shape == g.reduce_mean(x, axes=-2).shape
    with pytest.raises(og.SpecError, match=r"write \[1\]$"):
        g.op("ReduceSum", [x], {"axes": 1})


@pytest.mark.parametrize(
    "table", [np.ones((5, 3), one) for one in (np.float32, np.int64, np.int32, np.uint8, np.bool_)]
)
def test_a_table_keeps_its_type_beside_indices(table):
    g = og.Graph()
    rows = g.gather(table, g.input("ids", og.s64, (1, 4)))
    assert (rows.dtype.numpy, rows.shape) == (table.dtype, (1, 4, 3))
    assert g.gather(g.input("table", og.f32, (5, 3)), np.array([1, 2])).dtype is og.f32


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g, mask, x: g.where(mask, 1.0, 0.0), og.f32),
        (lambda g, mask, x: g.where(mask, 1, 0), og.s64),
        (lambda g, mask, x: g.where(mask, x, 0), og.u8),
        (lambda g, mask, x: g.one_hot(np.array([0, 2]), 3, [0.0, 1.0]), og.f32),
        (lambda g, mask, x: g.gather([0.5, 1.5], np.array([0])), og.f32),
        (lambda g, mask, x: g.gather(np.ones(3), np.array([0])), og.f32),
        (lambda g, mask, x: g.range(0.0, 1.0, 0.25), og.f32),
        (lambda g, mask, x: g.op("Pad", [x, [1, 1], 3], edition="host"), og.u8),
        (lambda g, mask, x: g.select(g.constant(np.True_), 1.0, 0), og.f32),
    ],
)
def test_numbers_get_the_type_of_their_own_port(build, expected):
    g = og.Graph()
    assert build(g, g.input("mask", og.boolean, (3,)), g.input("x", og.u8, (3,))).dtype is expected


@pytest.mark.parametrize(
    ("build", "hint"),
    [
        (lambda g, i, b: g.type_cast(i, dtype=og.f32), r"the host op Cast takes s64: g\.cast\(tensor, dtype=\.\.\.\)"),
        (lambda g, i, b: g.select(b, i, 0), r"the host op Where takes boolean and s64: g\.where\(cond, src_0, src_1\)"),
        (lambda g, i, b: g.add(i, 1), r"takes s64: g\.op\('Add', \[src_0, src_1\], edition='host'\)"),
        (lambda g, i, b: g.concat(i, i, axis=0), r"g\.op\('Concat', \[\.\.\.\], \{'axis': \.\.\.\}, edition='host'\)"),
        (lambda g, i, b: g.static_reshape(i, shape=(1, 3)), r"g\.op\('Reshape', \[src, shape\], edition='host'\)"),
        (lambda g, i, b: g.relu(i), r"g\.cast\(tensor, dtype=\.\.\.\) converts s64 to another data type"),
        (lambda g, i, b: i * g.cast(i, dtype=og.s32), r"g\.cast\(tensor, dtype=\.\.\.\) converts s32"),
        (lambda g, i, b: g.select(b, 1.0, 0.0), r"the host op Where broadcasts .*: g\.where\(cond, src_0, src_1\)"),
    ],
)
def test_refused_types_name_another_form(build, hint):
    g = og.Graph()
    i, b = g.input("i", og.s64, (3,)), g.input("b", og.boolean, (3,))
    with pytest.raises(og.SpecError, match=hint) as caught:
        build(g, i, b)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.violations == caught.value.violations


@pytest.mark.library
def test_bind_takes_inputs_by_position():
    g = og.Graph()
    g.output("y", g.input("a", og.f32, (3,)) - g.input("b", og.f32, (3,)))
    model, a, b = g.compile(), np.array([5, 6, 7], np.float32), np.array([1, 2, 3], np.float32)
    out = np.empty(3, np.float32)
    for bound in (model.bind(a, b), model.bind(a, b=b), model.bind(a, b, y=out)):
        assert bound.run().tolist() == [4, 4, 4]
    assert out.tolist() == [4, 4, 4]
    with pytest.raises(og.ArgumentError, match="input 'a' is given twice"):
        model.bind(a, a=b)
    with pytest.raises(og.ArgumentError, match="missing inputs: b"):
        model.bind(a)


@pytest.mark.library
def test_bf16_scalar_is_an_operand():
    assert run(lambda x: x * ml_dtypes.bfloat16(0.5), A).tolist() == (A * 0.5).tolist()


@pytest.mark.library
@pytest.mark.parametrize("dtype", [og.bf16, og.f16])
def test_an_f32_bias_is_cast_to_16_bits_once(dtype):
    g = og.Graph()
    x, w = g.input("x", dtype, (2, 3)), g.constant(np.ones((3, 4), dtype.numpy))
    y = g.output("y", g.matmul(x, w, g.constant(np.arange(4, dtype=np.float32))))
    assert y.dtype is dtype
    assert [op.kind for op in g.ops] == ["TypeCast", "MatMul"]
    model = g.compile()
    assert model(np.ones((2, 3), dtype.numpy)).astype(np.float32).tolist() == [[3, 4, 5, 6]] * 2
    assert ("TypeCast",) in [part.kinds for part in model.report().partitions if part.executor == "constant"]


def test_a_refused_op_leaves_no_cast():
    g = og.Graph()
    x, w = g.input("x", og.bf16, (2, 3)), g.input("w", og.bf16, (3, 4))
    bias = g.input("b", og.f32, (7,))
    with pytest.raises(og.SpecError, match="bias"):
        g.matmul(x, w, bias)
    with pytest.raises(og.SpecError, match="f32"):
        g.matmul(g.input("i", og.s8, (2, 3)), w, bias)
    with pytest.raises(og.ArgumentError, match="another graph"):
        g.matmul(og.Graph().input("x", og.bf16, (2, 3)), w, g.input("c", og.f32, (4,)))
    assert g.ops == ()


@pytest.mark.library
def test_report_shows_the_arithmetic_of_each_partition():
    g = og.Graph()
    x, w = g.input("x", og.bf16, (4, 8)), g.constant(np.ones((8, 8), og.bf16.numpy))
    wide = g.matmul(x, w) + g.constant(np.ones(8, np.float32))  # an f32 operand makes the sum and what follows f32
    g.output("y", wide @ np.ones((8, 8)))
    src = g.dequantize(g.input("q", og.u8, (4, 8)), scales=[0.1], zps=[0])
    g.output("z", g.matmul(src, g.dequantize(g.constant(np.ones((8, 8), np.int8)), scales=[0.1], zps=[0])))
    report = g.compile(policy="debug").report()
    products = [part.arithmetic for part in report.partitions if part.kinds == ("MatMul",)]
    first = "bf16" if og.capi.settings.is_native(og.bf16) else "f32"
    assert products[:2] == [first, "f32"]
    (quantized,) = [part for part in g.compile().report().partitions if g.ops[-1].name in part.names]
    assert quantized.arithmetic == ("u8 x s8" if og.capi.settings.has_vnni() else "f32")
    assert f"({first}, " in str(report)
    assert next(part["arithmetic"] for part in report.to_dict()["partitions"] if "MatMul" in part["kinds"]) == first


@pytest.mark.library
def test_reports_types_of_a_replaced_op():
    g = og.Graph()
    g.output("y", g.reduce_sum(g.input("x", og.f32, (16, 32)), axes=[0]))  # an AvgPool
    found = [(partition.kinds, partition.arithmetic) for partition in g.compile().report().partitions]
    assert found[1] == (("ReduceSum: AvgPool", "ReduceSum: Multiply"), "f32")


@pytest.mark.parametrize("method", ["add", "divide", "maximum", "squared_difference", "greater_equal"])
@pytest.mark.parametrize("number", [2, 0.5, np.float32(-1.5), np.int64(3)])
def test_methods_that_broadcast_take_a_number(method, number):
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    g.output("behind", getattr(g, method)(x, number))
    g.output("before", getattr(g, method)(number, x))
    given = np.float32([-2, 0.5, 4])
    same = og.Graph()
    y, scalar = same.input("x", og.f32, (3,)), same.constant(np.float32(number))
    same.output("behind", getattr(same, method)(y, scalar))
    same.output("before", getattr(same, method)(scalar, y))
    found, expected = og.reference.run(g, {"x": given}), og.reference.run(same, {"x": given})
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_select_takes_a_number_of_the_type_beside_it():
    g = og.Graph()
    x = g.input("x", og.bf16, (3,))
    chosen = g.select(g.input("m", og.boolean, (3,)), x, -np.inf)
    assert (chosen.dtype, [c.dtype for c in g.constants.values()]) == (og.bf16, [og.bf16.numpy])
