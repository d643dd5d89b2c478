"""Loops over bags of rows, and loops that lie beside one in a place or two: a material of :mod:`draws`."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.builder.graph import DataGraph
from onegraph.lowering.bags import loop_of_bags
from onegraph.lowering.emitter import Emitter
from onegraph.opset.editions.registry import HOST

from .draws import material, recorded

FAR = 2**31 - 1
PLACES = (
    *("number", "shaped", "kind", "axes", "keep", "rows", "axis", "index", "turn", "vector", "table", "indices"),
    *("bounds", "ends", "begin", "end", "until", "outside", "trips", "dims"),
)


class Loop:
    """A loop of which some places are others than those of a loop over bags."""

    def __init__(self, drawn: Random) -> None:
        self.drawn, self.other = drawn, {*drawn.sample(PLACES, drawn.choice((0, 1, 1, 1, 2)))}
        self.graph, self.body = og.Graph(), DataGraph()
        self.emit, self.inside = Emitter(self.graph), Emitter(self.body)

    def one(self, place: str, right: Any, *others: Any) -> Any:
        return self.drawn.choice(others) if place in self.other else right

    def bounds(self, place: str) -> list[Any]:
        """The axes and the steps of a Slice, as far as they are given."""
        zero, one = np.array([0]), np.array([1])
        right = self.drawn.choice(([], [zero], [zero, one]))
        if place in self.other and self.drawn.random() < 0.3:
            graph = self.body if place == "bounds" else self.graph
            return [graph.input(f"s{len(graph.inputs)}", "s64", (1,))]
        return [*self.one(place, right, [one], [zero, np.array([2])], [zero, one * -1])]

    def around(self) -> tuple[list[Any], Any]:
        """The values around the body: the table, the indices, where bags start and end; and the number of bags."""
        bags = self.drawn.choice((1, 3))
        size = self.one("dims", 2, None)
        table = self.graph.input("table", "f32", self.one("table", (5, size), (5, size, 2), (5,), (None, size), None))
        indices = self.graph.input("indices", "s64", self.one("indices", (7,), (7, 1), (None,), None))
        starts = self.graph.input("starts", "s64", self.one("vector", (bags,), (bags, 1), (None,), None))
        far = self.one("end", FAR, FAR - 1, FAR + 1, 2)
        begin = self.one("begin", np.array([1]), np.array([0]), np.array([1, 1]), np.array([2]))
        until = self.one("until", np.array([far]), self.graph.input("until", "s64", (1,)))
        source = self.one("ends", starts, self.graph.input("others", "s64", (bags,)))
        begin = self.one("begin", begin, self.graph.input("begin", "s64", (1,)))
        ends = self.emit.op("Slice", [source, begin, until, *self.bounds("outside")])
        ends = self.one("ends", ends, ends, starts, self.emit.op("Minimum", [starts, np.array(FAR)], edition=HOST))
        trips = np.array(self.one("trips", bags - 1, bags, bags + 1))
        if self.drawn.random() < 0.3:
            trips = self.graph.input("trips", "s64", ())
        return [table, indices, starts, ends], trips

    def number(self, vector: Any) -> Any:
        """The element of a vector at the number of the iteration, with an axis."""
        body = self.body
        number = body.inputs["i" if "i" in body.inputs else "s0"]
        number = self.one("turn", number, body.inputs["s0"], np.array(0))
        shape = self.drawn.choice(([], [1]))
        index = number if not shape or isinstance(number, np.ndarray) else self.shaped(number, [1])
        found = self.inside.op("Gather", [vector, index], {"axis": self.drawn.choice((0, -1))})
        return found if shape else self.shaped(found, [1])

    def shaped(self, value: Any, shape: list[int]) -> Any:
        kind = self.one("shaped", self.drawn.choice(("Unsqueeze", "Reshape")), "Abs", "Negative")
        if kind == "Unsqueeze":
            return self.inside.op(kind, [value], {"axes": [0]})
        return self.inside.op(kind, [value, np.array(shape)] if kind == "Reshape" else [value])

    def shifted(self, value: Any) -> Any:
        return self.inside.op("Add", [value, np.ones((), value.dtype.numpy)], edition=HOST)

    def lines(self) -> Any:
        """The graph that a loop becomes, or None."""
        captured, trips = self.around()
        body = self.body
        if "number" not in self.other:
            body.input("i", "s64", ())
        body.input("s0", "s64", ())
        table, indices, starts, ends = (
            self.body.input(f"c{place}", one.dtype, one.shape) for place, one in enumerate(captured)
        )
        if "index" in self.other:  # what the body computes, or has
            place, given = self.drawn.randrange(4), [table, indices, starts, ends]
            given[place] = np.arange(7) if place == 1 and self.drawn.random() < 0.5 else self.shifted(given[place])
            table, indices, starts, ends = given
        part = [indices, self.number(starts), self.number(ends), *self.bounds("bounds")]
        rows = self.inside.op("Slice", part) if "rows" not in self.other else indices
        axis = self.one("axis", self.drawn.choice(({}, {"axis": 0})), {"axis": -1}, {"axis": 1})
        rows = self.inside.op("Gather", [table, rows], axis)
        rows = self.one("rows", rows, rows, table)
        kind = self.one("kind", self.drawn.choice(("ReduceSum", "ReduceMean", "ReduceMax")), "ReduceMin", "ReduceL2")
        keep = self.one("keep", False, True)
        axes = self.one("axes", [0], [0, 1], [1], [-1], [-2])
        body.output("y0", self.inside.op(kind, [rows], {"axes": axes, "keep_dims": keep}))
        found = loop_of_bags(self.emit, body, captured, trips)
        if found is not None:
            self.graph.output("y", self.emit.tensor(found))
        return self.graph


@material(lambda: ("bags",))
def loops(name: str, number: int) -> list[str]:
    """What becomes of a loop over bags of rows, or of one beside such a loop."""
    return recorded.outcome(Loop(Random(f"{name} {number}")).lines)
