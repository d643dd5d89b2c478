"""Single patterns that are asked about each op of a graph: a material of :mod:`draws`.

The graphs are those of cases that the pattern takes, and graphs beside them. Other patterns change nothing before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.ir.op import Op, make_op
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.patterns import REWRITES

from .drawn_calls import told
from .draws import material, pattern_cases, recorded
from .wider_graphs import wider

INTERNAL = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, recorded.NotLowered)


@cache
def patterns() -> dict[str, tuple[Callable[[Emitter, Op], Any], bool, frozenset[str]]]:
    """The patterns by name: the function, whether the op is not added yet, and the kinds of ops that it takes."""
    found: dict[str, tuple[Callable[[Emitter, Op], Any], bool, frozenset[str]]] = {}
    for is_early, table in ((False, REWRITES.late), (True, REWRITES.early)):
        for kind, functions in table.items():
            for one in functions:
                name = f"{one.__module__.rpartition('.')[2]}.{one.__name__}{' before' * is_early}"
                kinds = found[name][2] if name in found else frozenset[str]()
                found[name] = one, is_early, kinds | {kind}
    return found


def plain(case: str) -> og.Graph:
    from tests.lowering import test_near_patterns as cases

    cases.RNG = np.random.default_rng(0)  # what was drawn before decides nothing
    return cases.built(case, with_patterns=False)


def asked(pattern: str, graph: og.Graph) -> list[Any]:
    """What a pattern makes of each op of a graph that it may take."""
    function, is_early, kinds = patterns()[pattern]
    emit = Emitter(graph)
    emit._makers.update({end.id: op for op in graph.ops for end in op.outputs})
    found = []
    for op in graph.ops:
        if op.kind in kinds and (len(op.outputs) == 1 or not is_early):
            given = make_op(-1, op.kind, op.inputs, (), op.attrs, "", op.edition, None) if is_early else op
            try:
                found.append(function(emit, given))
            except (OneGraphError, *INTERNAL) as error:
                found.append(type(error).__name__)
    return found


def pairs() -> Iterable[str]:
    """Each pattern with each case of which it makes another op."""
    for case in pattern_cases():
        graph = plain(case)
        kinds = {op.kind for op in graph.ops}
        for name, (_, _, taken) in patterns().items():
            if kinds & taken:
                with suppress(OneGraphError):
                    if any(one is not None for one in asked(name, plain(case))):
                        yield f"{name}: {case}"


@material(pairs)
def replaced(name: str, number: int) -> list[str]:
    """What a pattern makes of the ops of a graph beside one that it takes."""
    pattern, _, case = name.partition(": ")
    graph = plain(case)
    if number:
        graph = wider(graph, Random(f"{name} {number}"))
    count = len(graph.ops)
    made = [told(one) for one in asked(pattern, graph)]
    read = {end.id for op in graph.ops for end in op.inputs if end is not None}
    for op in graph.ops[count:]:
        for end in op.outputs:
            if end.id not in read:
                graph.output(f"z{len(graph.outputs)}", end)
    return [*made, *recorded.lines_of(graph)]
