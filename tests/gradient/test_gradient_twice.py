"""Second derivatives: the gradient of a gradient against finite differences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.gradient_cases import BASE_CASES, HOST_CASES, STEP, Subject, subject_of
from helpers.grouped import grouped
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.opset.editions.registry import HOST


def first_cases(cases: list[Any]) -> dict[str, Any]:
    """Two f32 cases of each op, and more of MaxPool, whose second derivative is a composition for itself."""
    found: dict[str, list[Any]] = {}
    for case in cases:
        found.setdefault(case.kind, []).append(case)
    return {
        f"{kind} {place}": case
        for kind, some in found.items()
        for place, case in enumerate(some[: 20 if kind == "MaxPool" else 2])
    }


BASE = first_cases(BASE_CASES)
ON_HOST = first_cases(HOST_CASES)


def check(subject: Subject) -> None:
    """Compare the gradient of a gradient times random numbers with differences of the gradient."""
    first = subject.differentiate()
    seeds = [subject.graph.input(f"s{place}", one.dtype, one.shape) for place, one in enumerate(first)]
    factors = [subject.rng.normal(size=one.shape) for one in first]
    subject.arrays.update((one.name, array) for one, array in zip(seeds, factors, strict=True))
    wrt = [one for name, one in subject.graph.inputs.items() if not name.startswith("s") and one.dtype in og_floats()]
    wrt = [one for one in wrt if one in subject.wrt or one.name.startswith("d")]
    found = run_wide(subject.graph, subject.arrays, subject.graph.gradient(first, wrt, seeds))

    def total(arrays: dict[str, Any]) -> float:
        parts = run_wide(subject.graph, arrays, first)
        return float(sum((one * factor).sum() for one, factor in zip(parts, factors, strict=True)))

    for _ in range(2):
        direction = {one.name: subject.rng.normal(size=one.shape) for one in wrt}
        ends = [
            total({name: one + step * STEP * direction.get(name, 0) for name, one in subject.arrays.items()})
            for step in (-2, -1, 1, 2)
        ]
        slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * STEP)
        ours = sum(float((direction[one.name] * part).sum()) for one, part in zip(wrt, found, strict=True))
        size = sum(float(np.abs(direction[one.name] * part).sum()) for one, part in zip(wrt, found, strict=True))
        assert ours == pytest.approx(slope, rel=1e-4, abs=1e-5 * max(size, 1))


def og_floats() -> frozenset[og.DataType]:
    return frozenset([og.f32, og.bf16, og.f16])


def examine(subject: Subject) -> None:
    if subject.wrt and subject.results:
        check(subject)


@grouped("name", BASE, key=lambda name: BASE[name].kind[0])
def test_base_op_has_a_second_derivative(name):
    examine(subject_of(BASE[name]))


@grouped("name", ON_HOST, key=lambda name: ON_HOST[name].kind[0])
def test_host_op_has_a_second_derivative(name):
    examine(subject_of(ON_HOST[name], HOST))
