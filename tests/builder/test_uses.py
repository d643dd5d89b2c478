"""Who makes and reads the tensors of a graph: what is known is kept, as long as it still holds."""

import pytest

import onegraph as og
from onegraph.builder.transaction import OpNumbers, atomic
from onegraph.builder.uses import depended_on, in_order, is_same, uses_of, with_inputs


@pytest.fixture
def graph():
    g = og.Graph()
    g.relu(g.input("x", "f32", (2,)), name="first")
    return g


def described(uses):
    """The names of producers and consumers, by the ids of tensors."""
    consumers = {number: [op.name for op in ops] for number, ops in uses.consumers.items()}
    return {number: op.name for number, op in uses.producers.items()}, consumers


def test_uses_follow_the_ops_that_are_added(graph):
    uses = uses_of(graph)
    x, a = graph.inputs["x"], graph.ops[0].outputs[0]
    assert described(uses) == ({a.id: "first"}, {x.id: ["first"]})
    graph.add(a, a, name="second")
    graph.multiply(a, x, name="third")
    assert uses_of(graph) is uses
    assert uses_of(graph) is uses  # with nothing new
    assert uses.consumers.keys() == {x.id, a.id}
    assert described(uses)[1] == {x.id: ["first", "third"], a.id: ["second", "third"]}
    assert (uses.count, uses.last) == (3, graph.ops[2])
    assert described(uses)[0] == {op.outputs[0].id: op.name for op in graph.ops}


def test_uses_of_an_empty_graph_are_kept():
    g = og.Graph()
    uses = uses_of(g)
    assert uses_of(g) is uses
    g.relu(g.input("x", "f32", (2,)), name="first")
    assert uses_of(g) is uses
    assert described(uses)[1] == {g.inputs["x"].id: ["first"]}


@atomic
def failing(graph):
    """Add an op that is known, and fail."""
    graph.tanh(graph.inputs["x"], name="failed")
    assert described(uses_of(graph))[1] == {graph.inputs["x"].id: ["first", "failed"]}
    raise og.ArgumentError("no")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_uses_forget_ops_that_are_taken_back(count, graph):
    uses = uses_of(graph)
    with pytest.raises(og.ArgumentError, match="no"):
        failing(graph)
    names = [f"later{place}" for place in range(count)]
    for name in names:
        graph.abs(graph.inputs["x"], name=name)
    assert uses_of(graph) is not uses
    assert described(uses_of(graph))[1] == {graph.inputs["x"].id: ["first", *names]}


def test_uses_are_found_again_after_an_edit(graph):
    uses = uses_of(graph)
    graph._ops = [*graph._ops]
    assert uses_of(graph) is not uses
    assert described(uses_of(graph)) == described(uses)


def test_numbers_that_are_given_back_come_first():
    numbers = OpNumbers()
    assert [next(numbers) for _ in range(4)] == [0, 1, 2, 3]
    numbers.give_back([3, 1])
    numbers.give_back([2, 1])
    twin = numbers.copy()
    for one in (numbers, twin):
        assert [next(one) for _ in range(5)] == [1, 2, 3, 4, 5]


def test_ops_stand_behind_what_they_read(graph):
    x = graph.inputs["x"]
    a = graph.ops[0].outputs[0]
    left, right = graph.abs(a), graph.tanh(a)
    graph.output("y", graph.add(left, right))
    graph.exp(x)
    first, one, two, last, other = graph.ops
    assert in_order([last, two, other, one, first]) == [first, one, two, last, other]
    assert in_order([other, first, two, one, last]) == [other, first, two, one, last]
    assert depended_on(graph, [left, x]) == {first.id, one.id}
    assert depended_on(graph, graph.outputs.values()) == {first.id, one.id, two.id, last.id}
    changed = with_inputs(one, [x])
    assert (changed.inputs, changed.outputs, changed.name, changed.id) == ((x,), one.outputs, one.name, one.id)
    assert [is_same(one, record) for record in (one, changed, two, with_inputs(two, [x]))] == [True, True, False, False]
