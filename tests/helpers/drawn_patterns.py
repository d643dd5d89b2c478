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
from onegraph.opset.editions.registry import edition

from .drawn_calls import told
from .draws import material, pattern_cases, recorded
from .wider_graphs import built, form_of, wider

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


def normal(emit: Emitter, x: Any, form: str) -> Any:
    vectors = [np.array([1, 2, 0.5], np.float32) for _ in range(4)]
    return emit.op("BatchNormInference", [x, *vectors], {"epsilon": 1e-3, "data_format": form})


def behind(emit: Emitter, x: Any, kind: str, attrs: Any = {}, dtype: Any = None) -> Any:  # noqa: B006
    """An op behind a transpose."""
    turned = emit.op("StaticTranspose", [emit.op("ReLU", [x])], {"order": [0, 2, 1]})
    if kind == "Dequantize":
        codes = emit.op("Quantize", [x], {"scales": [0.5], "zps": [0]}, dtype=og.u8)
        turned = emit.op("Transpose", [codes], {"order": [0, 2, 1]})
    return emit.op(kind, [turned], attrs, dtype=dtype)


def by(emit: Emitter, kind: str, x: Any, shape: tuple[int, ...], numbers: Any = (2, 3, 5)) -> Any:
    return emit.op(kind, [x, np.array(numbers, np.float32).reshape(shape)])


CODED = {"scales": [0.5, 1.0, 2.0, 4.0], "zps": [0, 0, 0, 0], "qtype": "per_channel", "axis": 1}
# Cases beside those that compare numbers: the shapes of the inputs, and what is added.
MORE: dict[str, tuple[Any, Callable[..., Any]]] = {
    "scaled norm of rows": (
        [(2, 4, 3)],
        lambda e, x: by(e, "Multiply", e.op("RMSNorm", [x], {"begin_norm_axis": -1, "epsilon": 1e-3}), (3,)),
    ),
    "scaled norm": ([(2, 4, 3)], lambda e, x: by(e, "Multiply", normal(e, x, "NXC"), (3,))),
    "shifted norm": ([(2, 4, 3)], lambda e, x: by(e, "Add", normal(e, x, "NXC"), (1, 1, 3))),
    "scaled norm, channels first": ([(2, 3, 4)], lambda e, x: by(e, "Multiply", normal(e, x, "NCX"), (3, 1))),
    "shifted norm, channels first": ([(2, 3, 4)], lambda e, x: by(e, "Add", normal(e, x, "NCX"), (1, 3, 1))),
    "cast of a turn": ([(2, 3, 4)], lambda e, x: behind(e, x, "TypeCast", dtype=og.bf16)),
    "codes of a turn": ([(2, 3, 4)], lambda e, x: behind(e, x, "Quantize", {"scales": [0.5], "zps": [0]}, og.u8)),
    "codes of a turn by channels": ([(2, 3, 4)], lambda e, x: behind(e, x, "Quantize", CODED, og.s8)),
    "numbers of turned codes": ([(2, 3, 4)], lambda e, x: behind(e, x, "Dequantize", {"scales": [0.5], "zps": [0]})),
    "numbers of turned codes by channels": ([(2, 3, 4)], lambda e, x: behind(e, x, "Dequantize", CODED)),
}


def plain(case: str) -> og.Graph:
    """The graph of a case, without patterns."""
    from tests.lowering import test_near_patterns as cases

    if case not in MORE:
        cases.RNG = np.random.default_rng(0)  # what was drawn before decides nothing
        return cases.built(case, with_patterns=False)
    shapes, add = MORE[case]
    graph = og.Graph()
    emit = Emitter(graph)
    graph.output("y", emit.tensor(add(emit, *[graph.input(f"x{n}", "f32", one) for n, one in enumerate(shapes)])))
    return graph


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
    for case in (*pattern_cases(), *MORE):
        graph = plain(case)
        kinds = {op.kind for op in graph.ops}
        for name, (_, _, taken) in patterns().items():
            if kinds & taken:
                with suppress(OneGraphError):
                    if any(one is not None for one in asked(name, plain(case))):
                        yield f"{name}: {case}"


def without_defaults(graph: og.Graph) -> og.Graph:
    """The graph without attributes that say what their absence says too."""
    form = form_of(graph)
    for op in form.ops:
        schema = edition(op.words).schemas[op.kind]
        needless = {one.name for one in schema.attributes if not one.required and op.attrs.get(one.name) == one.default}
        op.attrs = {name: value for name, value in op.attrs.items() if name not in needless}
    return built(form)


GIVEN = 80  # numbers of draws with all attributes that are given


@material(pairs)
def replaced(name: str, number: int) -> list[str]:
    """What a pattern makes of the ops of a graph beside one that it takes."""
    pattern, _, case = name.partition(": ")
    graph = plain(case)
    if number >= GIVEN:
        with suppress(ValueError):
            graph = without_defaults(graph)
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
