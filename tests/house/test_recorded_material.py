"""The cases and random graphs that other tests run are those of the record material.json.

A change of their makers changes what is tested, and no test of the package fails. ``python
tests/house/test_recorded_material.py`` writes the record anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.recorded import digest, keep, kept

from onegraph.opset.editions.registry import EDITIONS
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph

KEPT = Path(__file__).parents[1] / "recorded" / "material.json"
SEEDS = range(12)
OTHERS = {"floats": {"dtypes": ("f32", "f16")}, "pools": {"kinds": ("MaxPool", "AvgPool", "Convolution"), "n_ops": 4}}


def described(array):
    """A text of the numbers of an array, to four digits."""
    if array is None:
        return ""
    numbers = np.asarray(array)
    with np.errstate(all="ignore"):
        texts = [f"{number:.3e}" for number in numbers.astype(np.float64).ravel().tolist()]
    return f"{numbers.dtype} {numbers.shape} {digest(texts)}"


def cases():
    found = {}
    for case in CASES:
        parts = [*map(described, case.inputs), sorted(case.attrs.items()), case.dtype, case.outputs]
        found.setdefault(case.kind, []).extend([case.label, *parts])
    return {kind: digest(parts) for kind, parts in found.items()}


def lines_of(graph):
    for op in graph.ops:
        ends = [None if t is None else (t.id, t.dtype, t.shape, described(t.value)) for t in (*op.inputs, *op.outputs)]
        yield op.kind, sorted(op.attrs.items()), ends
    yield [*graph.inputs], [(name, tensor.id) for name, tensor in graph.outputs.items()]


def graphs():
    options = {**{name: {"edition": name} for name in EDITIONS}, **OTHERS}
    return {
        name: digest(line for seed in SEEDS for line in lines_of(random_graph(seed, **given)))
        for name, given in options.items()
    }


MATERIAL = {"cases": cases, "graphs": graphs}


@pytest.mark.parametrize("name", MATERIAL)
def test_material_of_tests_is_the_recorded_one(name):
    assert MATERIAL[name]() == kept(KEPT)[name]


if __name__ == "__main__":
    keep(KEPT, {name: make() for name, make in MATERIAL.items()})
