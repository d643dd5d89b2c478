"""What the checker says of calls that lie one change beside a valid one: the record call_verdicts.json.

The specification alone says which calls are valid, so the record is a second copy of what was read there: a change of a
rule, of a shape function or of a message must change it too. Run as a script, this file writes it anew.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.neighbours import attributes_beside, neighbours
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph.inference.infer import infer_op
from onegraph.ir.tensor_type import tensor_type
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.schema import TensorType
from onegraph.testing.cases import CASES

KEPT = Path(__file__).parents[1] / "recorded" / "call_verdicts.json"
BOUNDS = (2, 3, 4)
PARTS = 4  # cases of an op, or a few more
MOST = 100  # calls of a case
EDITION = edition("onednn-3.13")
CATEGORIES = sorted({schema.category for schema in BASE.values()})


def chosen():
    """Some cases of each op, by category."""
    of_kind = {}
    for case in CASES:
        of_kind.setdefault(case.kind, []).append(case)
    found = {category: [] for category in CATEGORIES}
    for kind, cases in of_kind.items():
        found[BASE[kind].category] += cases[:: max(1, len(cases) // PARTS)]
    return found


def type_of(array):
    return tensor_type(array.astype(np.int32) if array.dtype == np.int64 else array)


CHOSEN = chosen()


def calls(case):
    """A case and its neighbours, as arguments of ``infer_op``; some have an unknown dim, rank or data type."""
    schema, drawn = BASE[case.kind], Random(str(case))
    types = tuple(type_of(array) for array in case.inputs)
    others = [(case.attrs, inputs) for inputs in neighbours(types, BOUNDS)]
    for place, known in enumerate(types):
        for shape in (None, tuple(None for _ in known.shape), (*known.shape[:-1], None)):
            others.append((case.attrs, (*types[:place], TensorType(known.dtype, shape), *types[place + 1 :])))
        others.append((case.attrs, (*types[:place], *types[place + 1 :])))
    others += [(attrs, types) for attrs in attributes_beside(schema, case.attrs, BOUNDS)]
    several = [(case.attrs, inputs) for inputs in scarce(types)]
    return [(case.attrs, types), *several, *drawn.sample(others, min(MOST, len(others)))]


def scarce(types):
    """Inputs of which less is known: all of them, all but one, or one that is a scalar."""
    unranked = [TensorType(known.dtype, None) for known in types]
    yield unranked
    yield [TensorType(known.dtype, tuple(None for _ in known.shape)) for known in types]
    for place, known in enumerate(types):
        yield [*unranked[:place], known, *unranked[place + 1 :]]
        yield [*types[:place], TensorType(known.dtype, ()), *types[place + 1 :]]


def verdict(case, attrs, inputs):
    found = infer_op(case.kind, attrs, list(inputs), edition=EDITION)
    told = [(one.rule, one.severity, one.where, one.message) for one in found.violations]
    return told, found.shapes, [str(dtype) for dtype in found.dtypes]


def recorded(category):
    found = {}
    for case in CHOSEN[category]:
        verdicts = [verdict(case, *call) for call in calls(case)]
        valid = sum(not told for told, _, _ in verdicts)
        found[str(case)] = f"{valid} of {len(verdicts)} {digest(verdicts)}"
    return found


LIBRARIES = ("3.2@avx2", "3.2", "3.6@avx512_core", "3.13@avx2", "3.13")


def told_of_libraries(category):
    """By library, a digest of what is said of cases, alone and with inputs that are not dense."""
    found = {}
    for library in LIBRARIES:
        told = []
        for case in CHOSEN[category]:
            types = [type_of(array) for array in case.inputs]
            checked = [og.check_op(case.kind, case.attrs, types, library=library)]
            if not checked[0].errors:
                checked.append(og.check_graph(strided(case, types), library=library))
            told += [[(one.rule, one.severity, one.where, one.message) for one in each] for each in checked]
        found[library] = f"{sum(map(len, told))} {digest(told)}"
    return found


def strided(case, types):
    """A graph of a case whose inputs have their axes in the reverse order in memory."""
    graph = og.Graph()
    ends = []
    for place, known in enumerate(types):
        strides = tuple(prod(known.shape[:axis]) for axis in range(len(known.shape)))
        ends.append(graph.input(f"x{place}", known.dtype, known.shape, strides=strides))
    options = {name: value for name, value in (("dtype", case.dtype), ("outputs", case.outputs)) if value}
    made = graph.op(case.kind, ends, case.attrs, **options)
    for place, tensor in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"y{place}", tensor)
    return graph


@pytest.mark.parametrize("category", CATEGORIES)
def test_libraries_get_the_recorded_reports(category):
    assert told_of_libraries(category) == kept(KEPT)["libraries"][category]


@pytest.mark.parametrize("category", CATEGORIES)
def test_calls_beside_valid_ones_get_the_recorded_verdicts(category):
    assert recorded(category) == kept(KEPT)[category]


if __name__ == "__main__":
    libraries = {category: told_of_libraries(category) for category in CATEGORIES}
    keep(KEPT, {**{category: recorded(category) for category in CATEGORIES}, "libraries": libraries})
