"""Graphs as plain data and as texts, with drawn reports, violations and times: a material of :mod:`draws`.

Some of what is given is damaged: it has other values somewhere, or lacks some.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og
from onegraph.checker.check import check_graph
from onegraph.errors import ERROR, LIBRARY, Violation
from onegraph.opset.editions.registry import DEFAULT, HOST
from onegraph.view import notebook
from onegraph.view.graphviz import dot
from onegraph.view.model import model
from tests.lowering import test_recorded_graphs as recorded

from .drawn_reports import SETS, chain, reports
from .draws import material

FORMS = ("data", "dot", "damaged", "summary")
OTHERS: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 1.5, float("nan"), float("inf"), 2**64 - 1, 2**64, -(2**64), "", "x", b"x", (), [3]),
    *(["x"], [["x"]], [""], {}, {"a": [None]}, {1: 2}, np.int64(3), np.float32(0.5), np.float64(2), "a 'x'", 1j),
)
PLAIN_HOST = ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Floor", "Ceil", "Sign", "Erf")
UNARY = ("Abs", "Exp", "Log", "ReLU", "Tanh", "Sqrt", "Round", "Sigmoid", "Square", "Reciprocal", *PLAIN_HOST)
TIMES = (0.0, 1e-6, 3e-6, 2.5e-5, 1e-3, np.float32(2e-6), 1)


class Told:
    """Stands for the report of an executable."""

    def __init__(self, facts: object) -> None:
        self._facts = facts

    def to_dict(self) -> object:
        """What is told."""
        return self._facts

    def __repr__(self) -> str:
        return "Told"


def laid(drawn: Random, end: Any) -> Any:
    """What a report says of an input or output."""
    strides, is_dense = tuple(range(len(end.shape))), drawn.random() < 0.8
    return SimpleNamespace(name=end.name, dtype=end.dtype, shape=end.shape, strides=strides, dense=is_dense)


def facts_of(drawn: Random, graph: og.Graph) -> dict[str, Any]:
    """The dictionary of a report, some of whose entries say less."""
    entries = []
    for made in reports(drawn, graph):
        sides = ((laid(drawn, end) for end in side) for side in (made.sources, made.results))
        one = replace(made, **dict(zip(("sources", "results"), map(tuple, sides), strict=True)))
        facts = one.to_dict()
        if drawn.random() < 0.3:
            facts["names"] = tuple(f"{name}/{number}" for number, name in enumerate(one.names))
        if drawn.random() < 0.4:
            kept = drawn.sample([*facts], drawn.randrange(len(facts)))
            facts = {key: value for key, value in facts.items() if key in kept}
        entries.append(facts)
    more = {"library": "oneDNN 3.2.0", "note": "by itself", "edition": 1}
    return {"partitions": entries} | {key: value for key, value in more.items() if drawn.random() < 0.6}


def violations_of(drawn: Random, graph: og.Graph) -> list[Any]:
    """What is said of ops, also of one that is not there."""
    found = [*check_graph(graph, library="3.2@avx2")][:4]
    for op in graph.ops:
        if drawn.random() < 0.2:
            labels = (f"{op.kind} {op.name!r}", f'{op.kind} "{op.name}"', op.name, f"{op.kind} 'x\\'", "A 1")
            label = drawn.choice(labels)
            message = drawn.choice(("; expected a number; pass 1", "no such word", "a; expected b; expected c"))
            severity = drawn.choice((ERROR, LIBRARY))
            found.append(Violation("a_rule", severity, label, "axis", "9", "a number", message, "", ""))
    return found


def damaged(drawn: Random, given: Any) -> Any:
    """The same with another value in one place, or without one."""
    if drawn.random() < 0.2 or not isinstance(given, (dict, list, tuple)) or not given:
        return drawn.choice(OTHERS)
    if isinstance(given, dict):
        key = drawn.choice([*given])
        if drawn.random() < 0.1:
            return {name: one for name, one in given.items() if name != key}
        return given | {drawn.choice((key, key, key, "more")): damaged(drawn, given[key])}
    place = drawn.randrange(len(given))
    return type(given)([*given[:place], damaged(drawn, given[place]), *given[place + 1 :]])


def mark(drawn: Random, graph: og.Graph) -> None:
    """Add ops with names, shapes and constants as few graphs have them."""
    shape = drawn.choice(((3, None), (2, 7), None, (0, 5), (13,)))
    graph.output("more", graph.op("Abs", [graph.input('a "b\\c', "f32", shape, constant=drawn.random() < 0.5)]))
    numbers = np.arange(drawn.choice((1, 11, 12, 13, 14)), dtype=np.float32)
    graph.output("few", graph.op("Abs", [graph.constant(numbers)], name=drawn.choice(("it's", "new\nline", "x\x1f"))))


@material(lambda: FORMS)
def pictured(name: str, number: int) -> list[str]:
    """What is drawn of a graph."""
    return recorded.outcome(told, name, Random(f"{name} {number}"))


def large(drawn: Random) -> og.Graph:
    """A graph of many ops, with many outputs or kinds."""
    graph, kinds = og.Graph(), drawn.choice((UNARY[:2], UNARY[:20], UNARY[:21], UNARY))
    end = graph.input("x0", "f32", (2,))
    for place in range(drawn.choice((3, 20, 40))):
        kind = kinds[place % len(kinds)] if drawn.random() < 0.9 else drawn.choice(kinds)
        end = graph.op(kind, [end], edition=HOST if kind in PLAIN_HOST else DEFAULT)
        if drawn.random() < 0.6:
            graph.output(f"y{place} <", end)
    for place in range(drawn.choice((0, 0, 1, 20, 21))):
        graph.assign(graph.variable(f"v{place}", np.ones(2, np.float32)), end)
    return graph


def told(name: str, drawn: Random) -> str:
    if name == "summary":
        return notebook.summary(large(drawn))
    graph = chain(drawn.choice([*SETS]), drawn)
    facts: Any = facts_of(drawn, graph)
    mark(drawn, graph)
    found: Any = violations_of(drawn, graph)
    times: Any = [drawn.choice(TIMES) for _ in facts["partitions"]]
    if drawn.random() < 0.4:
        times = {place: one for place, one in enumerate(times) if drawn.random() < 0.7}
    if name == "damaged":
        part = drawn.choice("rrrrvtt")
        facts = damaged(drawn, facts) if part == "r" else facts
        times = drawn.choice((damaged(drawn, times), b"12", "12", bytearray(b"12"))) if part == "t" else times
        if part == "v" and found:
            field = drawn.choice(("rule", "severity", "op", "where", "given", "expected", "message"))
            found[0] = replace(found[0], **{field: drawn.choice((3, None, "x"))})
            found = drawn.choice((found, tuple(found), iter(found), found[0], [*found, "x"]))
    if name == "dot":
        return dot(graph, facts, found, times)
    report = drawn.choice((facts, facts, facts, Told(facts), None, Told))
    data = model(graph, report, found, times, specification=drawn.random() < 0.2)
    return json.dumps(data, indent=1, default=str)
