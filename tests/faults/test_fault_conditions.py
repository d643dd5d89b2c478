"""Where each fault begins and ends: the record fault_conditions.json, which a change of a condition must change too.

A bound of a fault is measured, so nothing but a record knows it. For each fault the record has how many neighbours of
its examples the condition holds for, of how many, and a digest of the verdicts; the same for cases of single ops; and
for each example a digest of what was tried and seen. Run as a script, this file writes it anew, after the outcomes of
changed examples were measured by ``make test-newer``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.fault_subjects import OF_SINGLE_OPS, graph_of, subjects
from helpers.graphs import graph_of_case
from helpers.neighbours import bounds_of, neighbours
from helpers.recorded import digest, keep, kept

from onegraph.errors import OneGraphError
from onegraph.faults.api import API
from onegraph.faults.catalogue import CATALOGUE
from onegraph.faults.cpus import CPU_SUPPORT
from onegraph.testing.cases import CASES

FIRST, SECOND = 6, 20  # neighbours of which neighbours are drawn too, and how many
KEPT = Path(__file__).parents[1] / "recorded" / "fault_conditions.json"


def verdict(condition, subject):
    """Whether a condition holds; ``x`` where the subject is no valid use, so that it is never asked."""
    try:
        return str(int(bool(condition(subject))))
    except (OneGraphError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return "x"


def verdicts(fault):
    """How many neighbours of the examples a fault holds for, of how many, and a digest."""
    bounds, drawn, found = bounds_of(fault), Random(fault.name), []
    for example in fault.examples:
        of_example = subjects(fault, graph_of(example.build)) or ()
        for subject in of_example[:1]:  # the others have other flags, as some neighbours have
            near = [*of_example, *neighbours(subject, bounds)]
            for first in drawn.sample(near, min(FIRST, len(near))):
                second = [*neighbours(first, bounds)]
                near += drawn.sample(second, min(SECOND, len(second)))
            for condition in filter(None, (fault.when, fault.certain)):
                found += [verdict(condition, other) for other in near]
    return f"{found.count('1')} of {len(found) - found.count('x')} {digest(found)}" if found else ""


@cache
def graphs_of_cases():
    """Graphs of the cases of each op."""
    found = {}
    for case in CASES:
        found.setdefault(case.kind, []).append(graph_of_case(case))
    return found


def verdicts_on_cases(fault):
    """For how many valid uses of its ops a fault of single ops holds, of how many, and a digest."""
    bounds, drawn, found = bounds_of(fault), Random(fault.name), []
    is_single = fault in OF_SINGLE_OPS or fault in CPU_SUPPORT
    for kind in sorted(fault.ops & graphs_of_cases().keys()) if is_single else ():
        near = [part for graph in graphs_of_cases()[kind] for part in subjects(fault, graph)]
        for subject in near[:: len(near) // 2 + 1]:
            others = [*neighbours(subject, bounds)]
            near += drawn.sample(others, min(SECOND, len(others)))
        for condition in filter(None, (fault.when, fault.certain)):
            found += [verdict(condition, other) for other in near]
    return f"{found.count('1')} of {len(found) - found.count('x')} {digest(found)}" if found else ""


def described(graph):
    """The ops of a graph with their types, and what its constants contain."""
    for op in graph.ops:
        yield op.kind, sorted(op.attrs.items()), *(ends_of(side) for side in (op.inputs, op.outputs))


def ends_of(tensors):
    for tensor in tensors:
        if tensor is None:
            yield None
            continue
        value = None if tensor.value is None else digest(np.asarray(tensor.value).astype(np.float64).ravel().tolist())
        yield tensor.dtype, tensor.shape, tensor.strides, value


def tried(fault):
    """By name of an example, a digest of its graph and of what was seen."""
    for example in fault.examples:
        ops = [str((kind, attrs, [*ins], [*outs])) for kind, attrs, ins, outs in described(graph_of(example.build))]
        seen = sorted(example.seen.items()), sorted(example.on.items()), example.runs, example.policy
        yield example.name, digest([*ops, seen])


def recorded(fault):
    bounds = [sorted(fault.seen.items()), fault.since, fault.mended, sorted(fault.ops), fault.where, fault.severity]
    bounds += ["of NaN"] if fault.of_nan else []
    found = {"fault": digest(bounds), **dict(tried(fault))}
    if fault in API:
        return found
    return {**found, "holds": verdicts(fault), "holds for cases": verdicts_on_cases(fault)}


FAULTS = {**CATALOGUE, "API": [*API]}


@pytest.mark.parametrize("title", FAULTS)
def test_faults_hold_for_recorded_neighbours_of_examples(title):
    assert {fault.name: recorded(fault) for fault in FAULTS[title]} == kept(KEPT)[title]


if __name__ == "__main__":
    keep(KEPT, {title: {fault.name: recorded(fault) for fault in faults} for title, faults in FAULTS.items()})
