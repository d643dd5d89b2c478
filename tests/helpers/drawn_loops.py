"""Loops over bags of rows and beside them, models with bodies or computed shapes: materials of :mod:`draws`."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.builder.graph import DataGraph
from onegraph.ir.op import LogicalTensor
from onegraph.lowering.bags import loop_of_bags
from onegraph.lowering.control import Looping, Scans, Turn, branch
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.for_shapes import for_shapes
from onegraph.lowering.subgraph import BodyBuilder
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


class Model:
    """A graph of a tensor of unknown dims that has bodies or shapes that are computed."""

    def __init__(self, drawn: Random) -> None:
        self.drawn, self.graph = drawn, og.Graph(strict=False)
        self.emit = Emitter(self.graph)
        self.sizes = [drawn.choice((1, 2, 2, 3, 4, 6)) for _ in range(drawn.choice((1, 2, 2, 3)))]
        self.dtype = drawn.choice((og.f32, og.f32, og.f32, og.bf16, og.s64, og.DataType.float64))
        dims = [None if drawn.random() < 0.6 else size for size in self.sizes]
        shape = None if drawn.random() < 0.05 else dims
        self.x = self.graph.input("x", self.dtype, shape, constant=drawn.random() < 0.3)

    def one(self, *choices: Any) -> Any:
        return self.drawn.choice(choices)

    def op(self, emit: Emitter, value: Any, rest: Any = None) -> Any:
        """A value like another one, or one of another shape."""
        rank = len(self.sizes)
        beside = np.ones((), value.dtype.numpy) if isinstance(value, LogicalTensor) else np.ones((), value.dtype)
        makers = [
            lambda: emit.op("Add", [value, beside], edition=HOST),
            lambda: emit.op("Multiply", [value, beside if rest is None else rest], edition=HOST),
            lambda: emit.op("Concat", [value, value], {"axis": self.drawn.randrange(rank)}, edition=HOST),
            lambda: emit.op("Slice", [value, *map(np.array, ([0], [1], [self.drawn.randrange(rank)]))]),
            lambda: emit.op("Unsqueeze", [value], {"axes": [self.one(0, -1)]}),
            lambda: value,
        ]
        return self.one(*makers, makers[0], makers[0])()

    def known(self) -> str:
        """The graph, and the one for known dims, or for some that are open."""
        before, graph = [*recorded.lines_of(self.graph)], self.graph
        if self.drawn.random() < 0.7:
            graph._n_read = len(graph._ops)
        symbols = OpenSizes(self.sizes).symbols
        is_open = self.drawn.random() < 0.3
        dims = [
            open_ if is_open and self.drawn.random() < 0.5 else size if self.drawn.random() < 0.95 else None
            for open_, size in zip(symbols, self.sizes, strict=True)
        ]
        found = for_shapes(graph, {"x": dims}, sparing=self.one(True, False))
        marks = f"{found._is_as_read()} {sorted(found.constant_inputs)}"
        return "\n".join([*before, *recorded.lines_of(found), marks])

    def shapes(self) -> str:
        """Ops whose shapes are computed of that of the tensor."""
        shape, emit = self.emit.op("Shape", [self.x]), self.emit
        part = emit.op("Slice", [shape, *map(np.array, ([self.one(0, 1)], [self.one(1, 2, FAR)], [0]))])
        rest = emit.op("Gather", [shape, np.array([self.one(0, -1)])], {"axis": 0}, edition=HOST)
        number = np.array([self.one(1, -1, 2, 0)])
        parts = [[number, rest], [part, number], [rest, number], [part], [shape], [rest, part], [number, number]]
        target = emit.op("Concat", self.one(*parts), {"axis": 0}, edition=HOST)
        if self.drawn.random() < 0.2:
            target = self.graph.input("target", "s64", (2,))
        src = self.one(self.x, self.x, emit.op("Abs", [self.x]) if self.dtype is og.f32 else self.x)
        made = self.one(
            lambda: emit.op("Reshape", [src, target]),
            lambda: emit.op("Reshape", [src, target]),
            lambda: emit.op("Expand", [np.ones((), np.float32), target]),
            lambda: emit.op("Slice", [src, np.array([0]), rest, np.array([0])]),
            lambda: emit.op("StaticReshape", [src], {"shape": [-1, *[0] * len(self.sizes[1:])], "special_zero": True}),
        )()
        self.graph.output("y", made)
        return self.known()

    def branches(self) -> str:
        """Two branches that return values of this type, of the graph around, or large ones."""
        large, form = np.arange(self.one(2, 1024, 1025), dtype=np.float32), self.one(*range(6))

        def add(body: BodyBuilder) -> list[Any]:
            x = body.capture(self.x)
            first = self.op(body.emit, x)
            more = (
                list,
                lambda: [large],
                lambda: [x],
                lambda: [self.op(body.emit, first)],
                lambda: [x] * self.one(15, 16),
                lambda: [body.emit.op("Add", [large, np.float32(self.one(0, 1)) + large], edition=HOST)],
            )
            return [first, *(more[form] if self.drawn.random() < 0.9 else self.one(*more))()]

        condition = self.one(self.graph.input("condition", "boolean", ()), np.array(True))
        for place, one in enumerate(branch(self.emit, condition, add, self.one(add, add))):
            self.graph.output(f"y{place}", self.emit.tensor(one))
        return self.known()

    def turns(self) -> str:
        """A loop of states, slices and results."""
        rank = len(self.sizes)
        flag = self.graph.input("condition", "boolean", ())
        states = self.one([], [self.x], [self.x], [self.x, np.zeros((), np.int64)])
        axis = self.one(0, 0, -1, rank - 1)
        scanned = self.one([], [self.x], [self.x, self.graph.input("z", "f32", (self.sizes[0], 2))])
        count = self.one(0, 1, 1, 1, 2, 2, 16 - len(states), 17 - len(states))
        scans = Scans(
            scanned,
            [axis, 0][: len(scanned)],
            [self.one(False, True) for _ in scanned],
            *self.one(
                ([], []), ([0] * count, [False] * count), ([self.one(0, -1)] * count, [self.one(False, True)] * count)
            ),
        )
        going = self.one(np.array(True), np.array(True), np.array([True]), np.array(False), "flag", "number")

        def iteration(body: BodyBuilder, number: Any, now: Any, slices: Any) -> Turn:
            after = [self.op(body.emit, now[0]) if self.drawn.random() < 0.5 else now[0], *now[1:]] if now else []
            if after and self.drawn.random() < 0.05:
                after[0] = body.emit.op("Cast", [after[0]], {"saturate": True}, dtype=og.s32)
            sources = [*slices, *now[:1], body.capture(self.x)]
            few = [self.op(body.emit, self.one(*sources)) for _ in range(count)]
            goes = {"flag": lambda: body.capture(flag)}.get(str(going), lambda: going)()
            if isinstance(going, str) and going == "number":
                goes = body.emit.op("Less", [number, np.array(3)], edition=HOST)
            return Turn(goes, after, few)

        trips = self.one(None, np.array(2), np.array([3]), np.array(-1), self.graph.input("trips", "s64", ()))
        condition = self.one(np.array(True), np.array(True), np.array([True]), np.array(False), flag)
        loop = Looping(self.emit, trips, condition, states, scans, iteration)
        for place, one in enumerate(loop.results()):
            self.graph.output(f"y{place}", self.emit.tensor(one))
        return f"{loop.has_open_shapes}\n{self.known()}"

    def bags(self) -> str:
        """A loop over bags of rows, or one with states, slices or conditions too."""
        table = self.graph.input("table", "f32", (5, 2))
        indices, starts = (self.graph.input(name, "s64", (size,)) for name, size in (("indices", 7), ("starts", 3)))
        ends = self.emit.op("Slice", [starts, *map(np.array, ([1], [FAR], [0]))])
        plain = Scans((), (), (), [0], [False])
        other = Scans((), (), (), [-1], [False]), Scans((), (), (), [0], [True]), Scans()
        scans = self.one(plain, plain, plain, *other, Scans([self.x], [0], [False], [0], [False]))
        states = self.one([], [], [], [np.zeros((), np.int64)])
        right, wrong = np.array(True), np.array(False)
        going, condition = (
            self.one(right, right, np.array([True]), wrong, self.graph.input(name, "boolean", ())) for name in "cd"
        )

        def iteration(body: BodyBuilder, number: Any, now: Any, slices: Any) -> Turn:
            bounds = [
                body.emit.op("Unsqueeze", [body.emit.op("Gather", [body.capture(one), number])], {"axes": [0]})
                for one in (starts, ends)
            ]
            part = body.emit.op("Slice", [body.capture(indices), *bounds, np.array([0])])
            rows = body.emit.op("Gather", [body.capture(table), part])
            return Turn(body.capture(going), [*now], [body.emit.op("ReduceSum", [rows], {"axes": [0]})])

        trips = self.one(np.array(2), np.array(2), np.array(3), self.graph.input("trips", "s64", ()))
        for place, one in enumerate(Looping(self.emit, trips, condition, states, scans, iteration).results()):
            self.graph.output(f"y{place}", self.emit.tensor(one))
        return self.known()


WAYS: dict[str, Any] = {
    "shapes": Model.shapes,
    "branches": Model.branches,
    "turns": Model.turns,
    "bags": Model.bags,
}


@material(lambda: WAYS)
def renewed(name: str, number: int) -> list[str]:
    """Graphs with bodies or computed shapes, and what they become as more dims are known."""
    internal = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError, recorded.NotLowered)
    return recorded.outcome(lambda: WAYS[name](Model(Random(f"{name} {number}"))), also=internal)
