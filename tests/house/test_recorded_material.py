"""The cases and random graphs that other tests run, and the defaults of arguments, are those of material.json.

A change of their makers changes what is tested, and no test of the package fails; nor does one where a default changes
that all tests state. ``python tests/house/test_recorded_material.py`` writes the record anew.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import library
from helpers.recorded import digest, keep, kept

import onegraph as og
import onegraph.judging.contents
import onegraph.testing
import onegraph.training
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


def defaults():
    """The arguments of what users call, with their defaults, by module."""
    found = {}
    for module in (og, og.training, onegraph.judging.contents, onegraph.testing):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in sorted(names):
            for label, made in members(name, getattr(module, name)):
                found.setdefault(module.__name__, []).append(f"{label}{made}")
    return {name: digest(lines) for name, lines in found.items()}


def members(name, given):
    """The signatures of a function, or of a class and its methods, without annotations."""
    methods = vars(given).items() if isinstance(given, type) else ()
    for label, one in [(name, given), *((f"{name}.{key}", one) for key, one in methods if not key.startswith("_"))]:
        one = getattr(one, "__func__", one)
        if callable(one) and str(getattr(one, "__module__", "")).startswith("onegraph"):
            try:
                parameters = inspect.signature(one).parameters.values()
            except (TypeError, ValueError):
                continue
            yield label, [(part.name, str(part.kind), repr_of(part.default)) for part in parameters]


def repr_of(default):
    return re.sub(" at 0x[0-9a-f]+", "", repr(default))


MATERIAL = {"cases": cases, "graphs": graphs, "defaults": defaults}


@pytest.mark.parametrize("name", [library(name) if name == "defaults" else name for name in MATERIAL])
def test_material_of_tests_is_the_recorded_one(name):
    assert MATERIAL[name]() == kept(KEPT)[name]


if __name__ == "__main__":
    keep(KEPT, {name: make() for name, make in MATERIAL.items()})
