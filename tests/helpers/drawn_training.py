"""Losses, optimizers and layers with arguments that fit, or nearly: a material of :mod:`draws`."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph import training

from .draws import material, recorded

FLOATS = ("f32", "f32", "f32", "bf16", "f16", "s32")
CLASSES = {"SGD": training.SGD, "Adam": training.Adam, "AdamW": training.AdamW}


class Lesson:
    """A graph with a variable and what a name adds to it."""

    def __init__(self, drawn: Random) -> None:
        self.drawn, self.graph = drawn, og.Graph()
        self.batch, self.width = drawn.choice((None, 1, 4)), drawn.choice((2, 3))
        self.x = self.input("x", drawn.choice(FLOATS), (self.batch, self.width))

    def one(self, *choices: Any) -> Any:
        return self.drawn.choice(choices)

    def flag(self, share: float) -> bool:
        return self.drawn.random() < share

    def input(self, name: str, dtype: str, shape: Any) -> Any:
        """An input, seldom of another rank or size."""
        if self.flag(0.06) and shape is not None:
            shape = self.one(None, (), (*shape, 1), shape[1:], tuple(None for _ in shape), (5, *shape[1:]))
        return self.graph.input(name, dtype, shape)

    def options(self, share: float = 0.35, **choices: Any) -> dict[str, Any]:
        return {name: self.one(*given) for name, given in choices.items() if self.flag(share)}

    def optimizer(self, kind: str) -> Any:
        """A variable or two updated, or a loss of them made smaller."""
        graph, one = self.graph, self.one
        fitting = (0.9, 0.99), (0.0, 0.5), (0.5, 0.0), (math.nextafter(1, 0), 1e-31), (0.5, 1e-30)
        betas = one(*fitting, *fitting, (1.0, 0.9), (0.9,), 0.9, (-0.1, 0.9))
        rates = -0.1, 4e38, "x", math.nan
        rate = one(*rates) if self.flag(0.08) else one(0.5, 0.5, 0.0, 1, 3e38, "rate", "rate")
        if rate == "rate":
            rate = graph.input("rate", one("f32", "f32", "f32", "bf16"), one((), (), (1,), (2,), (None,), None))
        options = self.options(weight_decay=(0.25, 0, 3e38), name=("mine", ""))
        if kind == "SGD":
            options |= self.options(0.5, momentum=(0.5, 0.5, 0.0, 1.0), nesterov=(True, False))
        else:
            options |= self.options(betas=(betas,), epsilon=(1e-3, 0, 3e38))
        if self.flag(0.1):
            wrong = {"weight_decay": (-1, 4e38), "name": (3,)}
            wrong |= {"momentum": (1.1, -1), "nesterov": (1,)} if kind == "SGD" else {"epsilon": (-1, 4e38)}
            key = one(*wrong)
            options[key] = one(*wrong[key])
        made = CLASSES[kind](*([] if kind != "SGD" and self.flag(0.4) else [rate]), **options)
        w = graph.variable("w", np.ones((2, 3), one(*[np.float32] * 9, np.int32)))
        b = graph.variable("b", np.zeros(3, np.float32))
        if self.flag(0.15):
            graph.assign(b, graph.relu(b))
        slopes = (
            graph.input("dw", one("f32", "f32", "f32", "bf16", "bf16", "s32"), one(*[(2, 3)] * 5, (2, None), (3, 2))),
            b,
        )
        variables = one([w], [w], ["w"], [w, b], (w, b), None)
        if self.flag(0.12):
            variables = one([b], [w, w], [graph.inputs["x"]], [], "w", ["no"])
        if self.flag(0.45):
            total = w * w + one(b, w, b * 2.0) if w.dtype is og.f32 and self.flag(0.9) else graph.relu(b)
            total = total if self.flag(0.9) else self.x
            loss = graph.output("loss", total)
            return made.minimize(
                graph, one(loss, loss, "loss", "loss", "no"), *([] if variables is None else [variables])
            )
        made.update(
            graph,
            variables or [w],
            slopes[: len(variables or [w])] if self.flag(0.9) else one(slopes, slopes[:1], [slopes[0]] * 2),
        )
        if self.flag(0.3):
            one(made, CLASSES[kind](0.5)).update(graph, one(["b"], ["w"]), [b])
        return None

    def cross_entropy(self) -> Any:
        dims: Any = (self.batch, self.width) if self.flag(0.7) else (2, self.batch, self.one(self.width, None))
        logits = self.input("logits", self.drawn.choice(FLOATS), dims)
        whole = self.flag(0.7)
        labels = self.input(
            "labels",
            self.one("s32", "s64", "s8", "u8", "boolean") if whole else self.one(*FLOATS),
            dims[:-1] if whole else dims,
        )
        options = self.options(
            reduction=("sum", "mean", "none"), ignore_index=(0, -100, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 1.5)
        )
        if whole and self.flag(0.3):
            options = {"ignore_index": 0, "reduction": self.one("sum", "mean")}
        return training.cross_entropy(self.graph, self.one(logits, "logits"), self.one(labels, "labels"), **options)

    def mean_squared_error(self) -> Any:
        target = self.input("target", self.one(*FLOATS), self.one(*[(self.batch, self.width)] * 5, None))
        return training.mean_squared_error(self.graph, self.x, target, **self.options(reduction=("sum", "mean", "x")))

    def batch_norm(self) -> Any:
        form = self.one("NXC", "NCX")
        graph = self.graph
        image = self.input("image", self.one("f32", "f32", "bf16"), (2, 4, 3) if form == "NXC" else (2, 3, 4))
        vectors = [graph.constant(np.ones(3, np.float32)) for _ in range(2)]
        kept = [graph.variable(name, np.ones(self.one(3, 3, 3, 3, 3, 2), np.float32)) for name in ("mean", "variance")]
        if self.flag(0.3):
            kept[self.one(0, 1)] = self.one(*kept, vectors[0])
        if self.flag(0.1):
            graph.assign(kept[0], graph.relu(kept[0]))
        if self.flag(0.1):
            graph, self.graph = self.graph, og.Graph()
            vectors = kept = [self.graph.constant(np.ones(3, np.float32)) for _ in range(2)]
            graph, image = self.graph, self.graph.input("image", "f32", (2, 4, 3))
        options = self.options(momentum=(0.5, 1.0, 2.0), epsilon=(1e-3, 0.0))
        return training.batch_norm(graph, image, *vectors, *kept, data_format=form, **options)

    def dropout(self) -> Any:
        if self.flag(0.4):
            training.dropout(self.graph, self.one(self.x, "x"), 0.5, **self.options(name=("dropout", "dropout_1", "a")))
        for _ in range(self.one(0, 0, 2)):
            self.graph.relu(self.x)
        options = self.options(0.5, seed=(0, 3, 2**63 - 1, 2**63, -1, 1.5), name=("dropout", "a", 3))
        return training.dropout(self.graph, self.x, self.one(0.5, 0, 1, 1.1, -0.1), **options)

    def recurrent(self, kind: str) -> Any:
        graph, gates = self.graph, 4 if kind == "lstm" else 3
        units, inputs = self.one(1, 2), self.one(2, 3)
        x = self.input(
            "sequence", self.one("f32", "f32", "f32", "f32", "bf16"), (self.one(None, 1, 3), self.batch, inputs)
        )

        def weights(*shape: int) -> Any:
            array = np.ones(shape, np.float32)
            if self.flag(0.08):
                array = self.one(array[:-1], array[..., :-1], array[None], array.astype(np.float64))
            if self.flag(0.4):
                dims: Any = [None if self.flag(0.03) else dim for dim in shape]
                return graph.input(f"v{len(graph.inputs)}", "f32", None if self.flag(0.06) else dims)
            return array

        first = (self.batch or self.one(1, 2), units)
        biases = {"bias": gates * units, **({"state_bias": gates * units} if kind == "gru" else {})}
        firsts = ("state", "cell") if kind == "lstm" else ("state",)
        options = {name: weights(size) for name, size in biases.items() if self.flag(0.4)}
        options |= {name: weights(*first) for name in firsts if self.flag(0.4)}
        made = training.lstm if kind == "lstm" else training.gru
        return made(graph, x, weights(gates * units, inputs), weights(gates * units, units), **options)

    def bare(self) -> Any:
        """What only classes of optimizers have."""
        made, w = training.Optimizer(0.5, "bare"), self.graph.variable("w", np.ones(3, np.float32))
        return self.one(lambda: made._shared(self.graph, w), lambda: made._step(self.graph, (), w, w))()

    def norms(self) -> Any:
        others = [self.x, self.graph.input("y", "f32", (3,)), self.input("z", "f32", self.one((2, 2), (2, 2), None))]
        chosen = self.one(others, others[1:], others[1:], others[2:], [], others[1], ["y", "z"], ("y",))
        return self.one(
            lambda: training.global_norm(self.graph, chosen),
            lambda: training.clip_by_norm(self.graph, chosen, self.one(1.0, 2, 0, 5e-324, math.inf)),
            lambda: training.low_precision(self.graph, chosen, *self.one([], [og.f16], ["bf16"], [og.f32], ["x"])),
        )()


LESSONS: dict[str, Callable[[Lesson], Any]] = {
    **{kind: lambda lesson, kind=kind: lesson.optimizer(kind) for kind in CLASSES},  # type: ignore[misc]
    "cross_entropy": Lesson.cross_entropy,
    "mean_squared_error": Lesson.mean_squared_error,
    "batch_norm": Lesson.batch_norm,
    "dropout": Lesson.dropout,
    **{kind: lambda lesson, kind=kind: lesson.recurrent(kind) for kind in ("lstm", "gru")},  # type: ignore[misc]
    "norms": Lesson.norms,
    "no optimizer": Lesson.bare,
}


@material(lambda: LESSONS)
def trained(name: str, number: int) -> list[str]:
    """What a loss, an optimizer or a layer adds to a graph."""
    lesson = Lesson(Random(f"{name} {number}"))

    def made() -> str:
        found = LESSONS[name](lesson)
        ends = found if isinstance(found, tuple) else (found,)
        return f"{[None if end is None else (end.id, end.shape, end.dtype) for end in ends]}"

    lines = recorded.outcome(made, also=[NotImplementedError])
    graph = lesson.graph
    begin = [(key, str(array.dtype), array.ravel()[:2].tolist()) for key, array in graph._initial.items()]
    names = begin, [(key, one.name) for key, one in graph.assignments.items()]
    return [*lines, *recorded.lines_of(graph), str(names)]
