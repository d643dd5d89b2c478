"""Graphs made of parts of others: what runs first, what nothing reads, constants for inputs, sums of known shapes."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.transform.part import part_of, without_unread
from onegraph.transform.stages import stages
from onegraph.transform.with_values import with_values

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def host(graph, kind, *inputs, dtype=None, **attrs):
    return graph.op(kind, list(inputs), attrs, dtype=dtype, edition="host")


def kinds(graph):
    return None if graph is None else [op.kind for op in graph.ops]


def staged(first, middle, last):
    """A graph of x with a NonZero between other ops, and an op beside them."""
    graph = og.Graph()
    x = graph.input("x", og.f32, (2, 3))
    value = graph.relu(x) if first else x
    value = host(graph, "NonZero", value) if middle else value
    value = host(graph, "Cast", value, dtype=og.f32) if middle and last else value
    graph.output("y", graph.exp(value) if last else value)
    return graph, x


@pytest.mark.parametrize(
    ("parts", "before", "heads", "after"),
    [
        ((1, 1, 1), ["ReLU"], [], ["NonZero", "Cast", "Exp"]),
        ((0, 1, 1), None, ["NonZero"], ["Cast", "Exp"]),
        ((1, 1, 0), ["ReLU"], [], ["NonZero"]),
        ((0, 1, 0), None, ["NonZero"], []),
    ],
)
def test_what_runs_before_shapes_are_known(parts, before, heads, after):
    graph, _ = staged(*parts)
    found = stages(graph)
    assert (kinds(found.first), [op.kind for op in found.heads], kinds(found.rest)) == (before, heads, after)
    assert [*found.rest.inputs] == [*found.needed]
    assert [*found.rest.outputs] == ["y"]
    made = {tensor.id for op in graph.ops for tensor in op.outputs}
    assert all(tensor.id in made for tensor in found.needed.values())
    assert found.first is None or [*found.first.outputs] == [*found.needed]


def test_a_graph_of_known_shapes_has_one_stage():
    assert stages(staged(1, 0, 1)[0]) is None


def test_the_rest_reads_inputs_and_returns_them_itself():
    graph, x = staged(0, 1, 1)
    graph.output("z", graph.add(x, graph.abs(x)))
    found = stages(graph)
    assert (kinds(found.first), kinds(found.rest)) == (["Abs", "Add"], ["NonZero", "Cast", "Exp"])
    assert [*found.rest.outputs] == ["y", "z"]
    assert {tensor.id for tensor in found.needed.values()} == {x.id, graph.outputs["z"].id}
    assert len(found.first.outputs) == 1


def test_an_op_runs_before_the_shape_it_makes():
    graph = og.Graph()
    x, n = graph.input("x", og.f32, (2, 3)), graph.input("n", og.s64, (1,))
    graph.output("y", host(graph, "Reshape", x, host(graph, "Abs", n)))
    known = graph.specialise({}, {"n": np.int64([6])})
    assert kinds(stages(graph).first) == ["Abs"]
    assert stages(known) is None
    assert known.outputs["y"].shape == (6,)


def read_and_unread():
    graph = og.Graph()
    x, unread = graph.input("x", og.f32, (2, 3)), graph.input("unread", og.f32, (3,))
    y = graph.multiply(graph.relu(x), graph.constant(np.float32([2, 3, 4]), name="factors"))
    graph.abs(graph.add(unread, graph.constant(np.float32([1]), name="dead")))
    graph.output("y", y)
    return graph


def test_without_unread_ops_all_inputs_stay():
    graph = read_and_unread()
    left = without_unread(graph)
    assert (kinds(left), [*left.inputs], [*left.constants]) == (["ReLU", "Multiply"], ["x", "unread"], ["factors"])
    given = {"x": X, "unread": np.float32([1, 2, 3])}
    np.testing.assert_array_equal(reference.run(left, given)["y"], np.maximum(X, 0) * [2, 3, 4])


def test_a_part_has_the_named_ends():
    graph = read_and_unread()
    relu, multiply = graph.ops[:2]
    part = part_of(graph, [multiply], {"a": relu.outputs[0]}, {"b": multiply.outputs[0].id})
    assert (kinds(part), [*part.constants]) == (["Multiply"], ["factors"])
    assert ([*part.inputs], [*part.outputs]) == (["a"], ["b"])
    np.testing.assert_array_equal(reference.run(part, {"a": X})["b"], X * np.float32([2, 3, 4]))


def test_constants_take_the_place_of_inputs():
    graph = read_and_unread()
    relu, multiply = graph.ops[:2]
    ids = {"y": multiply.outputs[0].id}
    known = with_values(graph, {"x": X}, ids, {})
    assert (kinds(known), [*known.inputs]) == (["ReLU", "Multiply"], [])
    assert "x" in known.constants
    np.testing.assert_array_equal(reference.run(known, {})["y"], np.maximum(X, 0) * [2, 3, 4])
    behind = with_values(graph, {}, ids, {"r": relu.outputs[0].id})
    assert (kinds(behind), [*behind.inputs]) == (["Multiply"], ["r"])
    np.testing.assert_array_equal(reference.run(behind, {"r": X})["y"], X * np.float32([2, 3, 4]))
    both = with_values(graph, {"r": X}, ids, {"r": relu.outputs[0].id})
    assert (kinds(both), [*both.inputs]) == (["Multiply"], [])


@pytest.mark.parametrize(
    ("dims", "target", "dtype", "expected"),
    [
        ((2, 3), (2, 3), "f32", []),
        ((2, 3), (1, 3), "f32", ["ReduceSum"]),
        ((2, 3), (2, 1), "s32", ["ReduceSum"]),
        ((2, 3), (3,), "f32", ["ReduceSum", "StaticReshape"]),
        ((2, 3), (1,), "bf16", ["ReduceSum", "StaticReshape"]),
        ((2, 3), (), "s32", ["ReduceSum", "Squeeze"]),
        ((4, 1, 3), (1, 3), "f32", ["ReduceSum", "StaticReshape"]),
        ((1, 3), (1, 3), "f32", []),
    ],
)
def test_sums_to_known_shapes_are_plain_sums(dims, target, dtype, expected):
    graph = og.Graph()
    x, shape = graph.input("x", dtype, (None,) * len(dims)), graph.input("shape", og.s64, (len(target),))
    graph.output("y", host(graph, "SumTo", x, shape))
    known = graph.specialise({"x": dims}, {"shape": np.int64(target)})
    assert kinds(known) == expected
    assert known.outputs["y"].shape == target
    given = np.arange(np.prod(dims)).reshape(dims).astype(og.DataType(dtype).numpy)
    wide = given.astype(np.float64)
    axes = tuple(at for at, dim in enumerate((1,) * (len(dims) - len(target)) + target) if dim == 1)
    found = reference.run(known, {"x": given, "shape": np.int64(target)})["y"]
    np.testing.assert_array_equal(found.astype(np.float64), wide.sum(axes, keepdims=True).reshape(target))
