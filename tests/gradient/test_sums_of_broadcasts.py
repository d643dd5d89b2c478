"""Where a gradient sums over what an op may broadcast, by the shapes that are known before a call."""

import pytest

import onegraph as og


def sums(build, *shapes):
    """The inputs whose gradients are sums to their shapes, by name."""
    graph = og.Graph()
    tensors = [graph.input(name, "f32", shape) for name, shape in zip("xyz", shapes, strict=False)]
    found = graph.gradient(build(graph, *tensors), tensors)
    makers = {end.id: op.kind for op in graph.ops for end in op.outputs}
    return "".join(x.name for x, one in zip(tensors, found, strict=True) if makers.get(one.id) == "SumTo")


def add(graph, x, y):
    return graph.add(x, y)


CASES = {
    "both open": (add, [(None, 4), (None, 4)], "xy"),
    "open beside a size": (add, [(None, 4), (3, 4)], "x"),
    "open beside 1": (add, [(None, 4), (1, 4)], ""),
    "lower rank": (add, [(None,), (2, None)], "xy"),
    "lower rank beside 1": (add, [(None, 1), (None,)], ""),
    "unknown ranks": (add, [None, None], "xy"),
    "an unknown rank may be longer": (add, [None, (3, 4)], "xy"),
    "one operand without a rank": (lambda g, x: g.relu(x), [None], ""),
    "one operand of open dims": (lambda g, x: g.relu(x), [(None, 4)], ""),
    "resized": (
        lambda g, x: g.interpolate(x, mode="nearest", sizes=[4, 4], data_format="NCX"),
        [(None, 2, None, None)],
        "",
    ),
    "product": (lambda g, x, y: g.matmul(x, y), [(None, 3, 4), (None, 4, 2)], "xy"),
    "product of rows": (lambda g, x, y: g.matmul(x, y), [(None, 4), (4, 2)], ""),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient_sums_what_may_be_repeated(name):
    build, shapes, wanted = CASES[name]
    assert sums(build, *shapes) == wanted
