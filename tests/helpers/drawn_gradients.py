"""Gradients of small graphs, asked for with arguments that fit or nearly: a material of :mod:`draws`."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.lowering.emitter import Emitter
from onegraph.opset.editions.registry import HOST

from .draws import material, recorded

ONE = ("ReLU", "Tanh", "Exp", "Sqrt", "Round", "Sigmoid", "Abs", "Square")
TWO = ("Add", "Multiply", "Subtract", "Divide", "Maximum")


class Chain:
    """A graph of some ops."""

    def __init__(self, drawn: Random) -> None:
        self.drawn, self.graph = drawn, og.Graph()
        self.emit = Emitter(self.graph)
        dtype = self.one("f32", "f32", "f32", "bf16", "f16")
        dims = self.one((2, 3), (2, 3), (None, 3), (1, 3))
        self.values = [self.graph.input(name, dtype, dims) for name in ("x", "y")]
        self.values.append(self.graph.variable("w", np.ones((2, 3), self.values[0].dtype.numpy)))
        for _ in range(self.one(1, 2, 3, 5, 8)):
            self.values += self.step()

    def one(self, *choices: Any) -> Any:
        return self.drawn.choice(choices)

    def flag(self, share: float) -> bool:
        return self.drawn.random() < share

    def step(self) -> list[Any]:
        """The results of one more op."""
        end, emit, second = self.one(*self.values[-3:], *self.values), self.emit, self.one(*self.values)
        makers = [
            lambda: self.graph.op(self.one(*ONE), [end]),
            lambda: self.graph.op(self.one(*ONE), [end], name=self.one("a/gradient", "a.again", "c")),
            lambda: self.graph.op(self.one(*TWO), [end, second]),
            lambda: self.graph.op(self.one(*TWO), [end, end]),
            lambda: self.graph.op("ReduceSum", [end], {"axes": [self.one(0, -1)], "keep_dims": self.flag(0.5)}),
            lambda: emit.op("Cast", [end], {"saturate": True}, dtype=self.one(og.s32, og.DataType.float64, og.f32)),
            lambda: self.graph.op("TypeCast", [end], dtype=self.one(og.f32, og.bf16)),
            lambda: [emit.op("Slice", [end, *map(np.array, ([0], [1], [self.one(0, 1)]))]), end],
            lambda: emit.op("ArgMax", [end], {"axis": 0, "keep_dims": True}, edition=HOST),
            lambda: emit.op("CumProd", [end], {"axis": 0}, edition=HOST),
            lambda: self.graph.op("LayerNorm", [end], {"use_affine": False, "keep_stats": True}),
        ]
        try:
            made = self.one(*makers, *makers[:4])()
        except og.OneGraphError:
            return []
        return [
            one for one in (made if isinstance(made, (list, tuple)) else [made]) if isinstance(one, og.LogicalTensor)
        ]

    def some(self, ends: list[Any]) -> Any:
        """One tensor, or several, by name or not; seldom what is none."""
        if self.flag(0.06):
            return self.one("none", 3, None, [None], [3.0], og.Graph().input("x", "f32", (2,)), [[ends[0]]])
        few = [
            one.name if self.flag(0.15) else one for one in self.drawn.sample(ends, min(self.one(1, 1, 2), len(ends)))
        ]
        return self.one(few, few, tuple(few), few[0])

    def seeds(self, count: int) -> Any:
        end = self.values[-1]
        dims = [dim or 2 for dim in end.shape or ()]
        one = [
            *(None, None, 1.0, 2, -0.5, end, end, self.values[0]),
            *(np.ones(dims, end.dtype.numpy), np.ones(dims, np.float64), np.ones((3,), np.float32), "y", np.float32(3)),
        ]
        few = [self.one(*one) for _ in range(count if self.flag(0.85) else self.one(0, 1, 2, 3))]
        return self.one(few, few, tuple(few), few[0] if few else None, None)

    def asked(self) -> list[str]:
        """The gradients, once or twice."""
        lines = []
        for _ in range(self.one(1, 1, 2)):
            outputs = self.some([*self.values[3:], *self.values[-3:], *self.values[-3:]])
            count = len(outputs) if isinstance(outputs, (list, tuple)) else 1
            options: dict[str, Any] = {}
            if self.flag(0.5):
                options["grad_outputs"] = self.seeds(count)
            if self.flag(0.3):
                options["checkpoint"] = self.one([], [], [self.values[-1]], self.some(self.values))
            found = self.graph.gradient(outputs, self.some(self.values), **options)
            lines += [f"{one.name} {one.dtype} {one.shape}" for one in found]
            self.values += [one for one in found if one.value is None]
        return lines


@material(lambda: ("chains",))
def backwards(name: str, number: int) -> list[str]:
    """What gradients add to a graph, or why there are none."""
    chain = Chain(Random(f"{name} {number}"))
    lines = recorded.outcome(chain.asked)
    for place, one in enumerate(chain.values):
        if one.id not in {end.id for op in chain.graph.ops for end in op.inputs if end is not None}:
            chain.graph.output(f"out{place}", one)
    return [*lines, *recorded.lines_of(chain.graph)]
