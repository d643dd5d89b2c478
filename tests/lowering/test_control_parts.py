"""Loops in parts: how many results they have, which become bags, and shapes without attributes that have defaults."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.lowering.control import Looping, Scans, Turn, _looped
from onegraph.lowering.emitter import Emitter, NotLowered

TRUE = np.array(True)


def loop_of(states, results, scans=None, trips=2):
    """A loop that returns its states, and so many copies of the first state or slice."""
    graph = og.Graph(strict=False)
    x = graph.input("x", "f32", (3, 4))

    def iteration(body, number, now, slices):
        first = [*now, *slices, body.capture(x)][0]
        return Turn(TRUE, now, [body.emit.op("Abs", [first]) for _ in range(results)])

    given = Scans() if scans is None else scans(x)
    return Looping(Emitter(graph), np.array(trips), TRUE, [x] * states, given, iteration), graph


@pytest.mark.parametrize(("states", "results"), [(0, 16), (5, 11), (16, 0)])
def test_states_and_results_are_sixteen_at_most(states, results):
    assert len(loop_of(states, results)[0].results()) == states + results == 16
    with pytest.raises(NotLowered, match=r"^more than 16 results$"):
        loop_of(states, results + 1)


@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_loop_over_slices_is_no_loop_over_bags(is_scanned):
    """Its slices decide how many iterations there are."""
    graph = og.Graph(strict=False)
    table, z = graph.input("table", "f32", (5, 2)), graph.input("z", "f32", (1, 2))
    indices, starts = (graph.input(name, "s64", (size,)) for name, size in (("indices", 7), ("starts", 2)))
    emit = Emitter(graph)
    ends = emit.op("Slice", [starts, *map(np.array, ([1], [2**31 - 1], [0]))])

    def iteration(body, number, now, slices):
        bounds = [
            body.emit.op("Unsqueeze", [body.emit.op("Gather", [body.capture(one), number])], {"axes": [0]})
            for one in (starts, ends)
        ]
        part = body.emit.op("Slice", [body.capture(indices), *bounds, np.array([0])])
        rows = body.emit.op("Gather", [body.capture(table), part])
        return Turn(TRUE, [], [body.emit.op("ReduceSum", [rows], {"axes": [0]})])

    scans = Scans([z], [0], [False], [0], [False]) if is_scanned else Scans()
    loop = Looping(emit, np.array(1), TRUE, [], scans, iteration)
    assert (loop.bags() is None) is is_scanned


@pytest.mark.parametrize(
    ("states", "scanned", "left"),
    [
        (1, 1, ()),
        (1, 0, ("n_scanned", "axes", "result_axes")),
        (0, 2, ("axes", "result_axes")),
        (0, 1, ("result_axes",)),
    ],
)
def test_attributes_of_loops_have_defaults(states, scanned, left):
    """The axes of slices and of results are the first ones."""
    loop, graph = loop_of(states, 2, lambda x: Scans([x] * scanned, [0] * scanned, [False] * scanned))
    results, op = loop.results(), graph.ops[-1]
    attrs = {name: value for name, value in op.attrs.items() if name not in left}
    assert _looped(SimpleNamespace(attrs=attrs, outputs=op.outputs), op.inputs) == [end.shape for end in results]
