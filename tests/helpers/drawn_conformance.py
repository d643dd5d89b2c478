"""Uses of ops and chains of patterns, and how their results are judged: names of :mod:`drawn_by_library`."""

from __future__ import annotations

from contextlib import redirect_stdout, suppress
from io import StringIO
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

import onegraph as og
from onegraph.checker.library_limits import Library
from onegraph.errors import OneGraphError, StatusError
from onegraph.faults.cpus import EVERY_ISA
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import EDITIONS
from onegraph.opset.fusion_graphs import GRAPHS
from onegraph.opset.fusion_patterns import PATTERNS
from onegraph.tools.conformance.drawn import drawing, features
from onegraph.tools.conformance.fused import cases
from tests.lowering import test_recorded_graphs as recorded

from .drawn_tools import tool
from .draws import cases_by_kind
from .recorded import numbers_of

VERSIONS = ((3, 2), (3, 4), (3, 8), (3, 9), (3, 10), (3, 13))
HEADS = sorted({head for pattern in PATTERNS for head in pattern.heads} | {pattern.main for pattern in GRAPHS})


def chains(version: tuple[int, int], head: str) -> tuple[cases.PatternCase, ...]:
    """The chains that begin with an op."""
    return tuple(cases.pattern_cases(version, [head]))


@tool
def patterns(drawn: Random) -> str:
    """The chains of an op, and the graph of one."""
    made = chains(drawn.choice(VERSIONS), drawn.choice(HEADS))
    if not made:
        return "none"
    one = drawn.choice(made)
    given = [f"{name} {numbers_of(array)}" for name, array in one.inputs().items()]
    return "\n".join([recorded.digest(made), f"{len(made)} {one}", *recorded.lines_of(one.graph()), *given])


@tool
def fused(drawn: Random) -> str:
    """What is said of results of a chain."""
    from onegraph.tools.conformance.fused import worker

    kinds = drawn.choice(("ReLU", "Log", "Round", "TypeCast", "Quantize")), drawn.choice(("Add", "Sqrt", "TypeCast"))
    one = cases.PatternCase("", ("MatMul", *kinds), drawn.choice(("f32", "bf16", "f16")), True)
    dtype = DataType(drawn.choice((one.dtype, "u8") if "Quantize" in kinds else (one.dtype,)))
    expected = np.array([drawn.choice((0, 1, 3, 60)) for _ in range(5)]).astype(dtype.numpy)
    largest = float(np.abs(expected.astype(np.float64)).max(initial=1.0))
    unit = max(worker.TOLERANCES.get(one.dtype, 1.0), 1e-3 if "TypeCast" in one.kinds else 0.0)
    got = expected.astype(np.float64) + drawn.choice((0, 0.5, 0.9, 1.5, 2, 20)) * unit * largest
    if drawn.random() < 0.2:
        got = got + drawn.choice((0.5, 1.0, 1.5))
    if drawn.random() < 0.2:
        got.reshape(-1)[0] = np.nan
        expected = expected.copy()
        expected.reshape(-1)[0] = drawn.choice((0, np.nan)) if expected.dtype.kind == "f" else 0
    return f"{one} {worker._difference(got, expected, one)}"


def pages(name: str | None) -> Any:
    """The pages of all ops."""
    return drawing.pages_to_draw(name, (), (3, 13, 0))


def some_use(drawn: Random) -> Any:
    """A drawn use of an op."""
    found = None
    while found is None:
        name = drawn.choice((None, None, *EDITIONS))
        found = drawing.draw(drawn.randrange(1000), drawn.randrange(1000), pages(name))
    return found


@tool
def uses(drawn: Random) -> str:
    """A use of an op, what the specification and the faults say of it, and its features."""
    found = some_use(drawn)
    use = found.use
    changed = drawn.choice((use, use, use.taking(drawn.randrange(4)), use.giving(drawn.randrange(4))))
    if use.attrs and drawn.random() < 0.4:
        name = drawn.choice([*use.attrs])
        others = (use.without(name), use.having(**{name: drawn.choice((0, 1, [1, 2], "x"))}))
        changed = drawn.choice(others)
    if drawn.random() < 0.3:
        changed = changed.typed({0: drawn.choice(("s8", "bf16"))}, {0: drawn.choice(("u8", "f32"))})
    lines = [
        found.number,
        found.edition,
        use.label,
        *recorded.lines_of(found.graph),
        type(use).of_dict(use.to_dict()) == use,
    ]
    lines += [f"{name} {value}" for name, value in changed.to_dict().items() if name != "tensors"]
    lines += [changed.arguments(), sorted(features.features(use))]
    lines += [numbers_of(array) for array in use.arrays]
    lines += [
        changed.broken_rules(drawn.choice(("onednn-3.13", "onednn-3.2")), shapes=shapes) for shapes in (True, False)
    ]
    lines += [changed.faults(drawn.choice(((3, 2, 0), (3, 6, 0)))), changed.known_call is None]
    results = changed.reference()
    lines += [None if results is None else [(one.dtype, one.shape) for one in results]]
    return "\n".join(map(str, lines))


@tool
def known_uses(drawn: Random) -> str:
    """Uses of the cases of an op, and of the examples of a fault."""
    from onegraph.tools.conformance import uses as module

    kind = drawn.choice([*cases_by_kind()])
    found = {one.label: one for one in module.uses_of_cases.__wrapped__(kind)}
    fault = module.SINGLE[drawn.choice(sorted(module.SINGLE))]
    found |= module.uses_of_fault(fault)
    use = drawn.choice([*found.values()])
    lines = [f"{name} {one.to_dict()}" for name, one in found.items()]
    arrays = module._arrays_of.__wrapped__(use.kind, use.source)
    lines += [numbers_of(array) for array in arrays if array.size < 5000]
    with patch.object(module, "Library", lambda version: Library(version, EVERY_ISA[-1])):
        lines += [str(use.claims((3, 2, 0))), str(use.faults((3, 2, 0)))]
    lists = [name for name, value in use.attrs.items() if isinstance(value, (list, tuple)) and value]
    if lists:
        with suppress(TypeError, ValueError):
            lines.append(str(use.with_tensor_for(drawn.choice(lists)).to_dict()))
    values: tuple[Any, ...] = (np.float32(1.5), np.array([1, 2]), (1, 2), range(3), "x", 2)
    lines.append(str([module.plain(value) for value in values]))
    given = [["f32", [2, 3], drawn.choice(([1, 2, 3, 4, 5, 6], [3], None))], ["s8", [4]], ["boolean", [2], [0, 1]]]
    lines += [numbers_of(array) for array in module._given([one for one in given if one[-1] is not None])]
    return "\n".join(lines)


@tool
def asked(drawn: Random) -> str:
    """Which ops uses are drawn of."""
    name = drawn.choice((None, None, *EDITIONS))
    kinds = drawn.choice(((), ("ReLU",), ("ReLU", "Gelu"), ("Blend",), ("Wildcard",), ("RMSNorm",), ("GELU", "End")))
    found = drawing.pages_to_draw(name, kinds, drawn.choice(((3, 2, 0), (3, 6, 1), (3, 13, 0))))
    return "\n".join(f"{kind}: {[page.edition.name for page in several]}" for kind, several in found.items())


@tool
def causes(drawn: Random) -> str:
    """The words that failing uses share."""
    number = drawn.randrange(len(pages("onednn-3.13")))
    several = [drawing.draw(drawn.randrange(99), number, pages("onednn-3.13")) for _ in range(drawn.choice((3, 8, 14)))]
    all_uses = [one.use for one in several if one is not None]
    word = drawn.choice(sorted(features.features(drawn.choice(all_uses))) if all_uses else [""])
    failing = [use for use in all_uses if (word in features.features(use)) != (drawn.random() < 0.15)]
    right = [use for use in all_uses if use not in failing]
    return f"{word} {len(failing)} {len(right)} {features.cause(failing, right)}"


@tool
def answered(drawn: Random) -> str:
    """What a worker says of the results of a use."""
    from onegraph.tools.conformance import worker

    use = some_use(drawn).use
    results = use.reference() or []
    if any(array.size > 500 for array in [*use.arrays, *results]):
        return "large"
    steps: list[object] = []

    def run(name: str, call: Any, types: Any, inputs: Any, outputs: Any, *, edges: bool) -> Any:
        steps.append((name, [*call], types, len(inputs), outputs, edges))
        kind = drawn.random()
        if kind < 0.05:
            raise drawn.choice(
                (StatusError("dnnl_graph_add_op", 2, "no"), og.ArgumentError("no"), worker.OverrunError("x"))
            )
        if kind < 0.1:
            return None
        got = [np.array(one) for one in results]
        for one in got:
            flat, kind = one.reshape(-1), drawn.random()
            if flat.size and kind < 0.6:
                unit = drawn.choice((1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1))
                spoiled = drawn.choice((slice(0, 1), slice(0, 2), slice(None)))
                moved = flat[spoiled].astype(np.float64)
                moved += unit * (np.abs(moved).max() if drawn.random() < 0.5 else 1.0)
                flat[spoiled] = (
                    np.clip(moved, -128, 127).astype(one.dtype) if one.dtype.kind in "iu" else moved.astype(one.dtype)
                )
            elif flat.size and kind < 0.7 and one.dtype.kind == "f":
                flat[0] = drawn.choice((np.nan, np.inf, -np.inf))
        return [got[0].reshape(drawn.choice((-1, got[0].shape))), *got[1:]] if got and drawn.random() < 0.1 else got

    request = {"use": use.to_dict(), "allowed": drawn.random() < 0.9, "name": use.kind, "call": use.arguments()}
    if drawn.random() < 0.5:
        request["edges"] = drawn.random() < 0.5
    with patch.object(worker, "run", run), redirect_stdout(StringIO()):
        try:
            answer: object = worker.answer(request)
        except (OneGraphError, FloatingPointError) as error:
            answer = str(error)
    return f"{answer} {steps}"


@tool
def stored(drawn: Random) -> str:
    """Arrays as the library stores them, and at a page that nobody may touch."""
    from onegraph.tools.conformance.page_ends import at_page_end
    from onegraph.tools.conformance.worker import stored as stored_array

    dtype = DataType(drawn.choice(("s4", "u4", "f32", "s8", "boolean", "s64")))
    shape = drawn.choice(((0,), (1,), (2, 3), (3, 3), ()))
    numbers = np.arange(int(np.prod(shape))).reshape(shape) % 7
    array = numbers.astype(dtype.numpy).T
    made = stored_array(array)
    ended = at_page_end(made)
    last = (ended.ctypes.data + ended.nbytes) % 4096 if ended.size else 0
    return f"{made.shape} {made.tobytes().hex()} {made.flags.c_contiguous} {ended.tobytes().hex()} {ended.dtype} {last}"
