"""Every op has a gradient or a reason, in every edition, and in every floating-point type."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from conftest import LONG
from helpers.gradient_cases import BASE_CASES, HOST_CASES, NOT_FINITE, Subject, subject_of
from helpers.grouped import grouped
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.gradient.rules import COMPOSED, FLAT, REFUSED, RULES, refusal
from onegraph.gradient.rules.table import entry
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import EDITIONS, HOST, base_of, edition
from onegraph.opset.schema import Schema
from onegraph.reference import run
from onegraph.testing.cases import CASES

SCHEMAS = {f"{name} {kind}": schema for name in [*EDITIONS, HOST] for kind, schema in edition(name).schemas.items()}
# Inputs of floating-point numbers that decide a shape, or the state of a generator, and have no gradient.
WITHOUT = {
    ("Dropout", "probability"): "the gradient with respect to a probability is no op",
}


def floating(schema: Schema, name: str) -> bool:
    """Whether an input may hold floating-point numbers."""
    port = next(one for one in schema.inputs if one.name == name)
    rows = [row.types.get(port.type) for row in schema.types]
    names = {str(dtype) for row in rows for dtype in row or ()} if any(rows) else {port.type}
    return not names.isdisjoint(["f32", "bf16", "f16", "float64"])


@grouped("name", SCHEMAS, key=lambda name: SCHEMAS[name].kind)
def test_op_has_a_gradient_or_a_reason(name):
    base = base_of(SCHEMAS[name])
    for port in base.inputs:
        missing = refusal(base, frozenset([port.name]))
        stated = entry(REFUSED, base) or WITHOUT.get((base.kind, port.name))
        if floating(base, port.name):
            assert not missing or stated, port.name


def test_tables_name_ops_and_ports_that_exist():
    kinds: dict[str, list[Schema]] = {}
    for schema in map(base_of, SCHEMAS.values()):
        kinds.setdefault(schema.kind, []).append(schema)
        kinds.setdefault(schema.kind.removeprefix("host "), []).append(schema)
    assert {*RULES, *COMPOSED, *FLAT, *REFUSED} <= {*kinds}
    for kind, rules in RULES.items():
        ports = {port.name for schema in kinds[kind] for port in schema.inputs}
        assert {port for rule in rules for port in rule.ports if len(rules) > 1 or len(rule.ports) == 1} <= ports


def test_op_is_in_one_table_alone():
    tables = [{*RULES}, {*COMPOSED}, {*FLAT}, {*REFUSED}]
    shared = {kind for first, second in combinations(tables, 2) for kind in first & second}
    assert shared == {"host Recurrence"}  # which is composed for unusual activations alone


# Editions -------------------------------------------------------------------------------------------------------------

OTHERS = ("legacy-1", "oneapi-1.2", "oneapi-1.3", "oneapi-1.4", "onednn-3.0")
F32_CASES = [
    case for case in BASE_CASES if all(str(getattr(a, "dtype", "")) not in ("bfloat16", "float16") for a in case.inputs)
]


def found_gradients(subject: Subject) -> list[Any]:
    gradients = subject.differentiate()
    return run_wide(subject.graph, subject.arrays, gradients)


@cache
def of_the_base(place: int) -> tuple[Subject, dict[str, Any], list[Any]]:
    """A case in the words of the base edition, its arrays, and its gradients, which add the seeds to the arrays."""
    case = F32_CASES[place]
    here = Subject(case.kind, case.inputs, case.attrs, case.dtype, getattr(case, "outputs", None), "onednn-3.13")
    return here, dict(here.arrays), found_gradients(here) if here.wrt and here.results else []


@cache
def in_words() -> dict[tuple[Any, ...], tuple[str, int]]:
    """The edition that is compared and the place of its case, by its words, which others may share."""
    return {}


@pytest.mark.parametrize("name", OTHERS)
def test_edition_has_the_gradients_of_the_base_words(name):
    compared = set()
    for place, case in enumerate(F32_CASES):
        here, given, gradients = of_the_base(place)
        inputs = [None if tensor is None else tensor for tensor in here.op.inputs]
        there = og.translate(case.kind, case.attrs, inputs, outputs=here.op.outputs, source="onednn-3.13", target=name)
        if there.kind is None or there.lost or not here.wrt or not here.results:
            continue
        schema = edition(name).schemas[there.kind]
        compared.add(case.kind)
        signature = repr([schema.attributes, schema.inputs, schema.outputs, there.attrs, there.permutations])
        first = in_words().setdefault((schema.kind, repr(schema.dialect), signature), (name, place))
        if first != (name, place) and not LONG:
            continue
        orders = [there.permutations.get(schema.input_port(place).name) for place in range(len(inputs))]
        arrays = [
            array if order is None else (array.transpose(order) if array.ndim > 1 else array[[*order]])
            for array, order in zip(case.inputs, orders, strict=False)
        ]
        count = len(there.inputs)
        if count != len(arrays):
            continue  # zero points that this edition requires
        dtype = here.op.outputs[0].dtype
        ports = [one.name for one in schema.outputs][: len(here.op.outputs)]
        ours = Subject(there.kind, arrays, there.attrs, dtype, ports, name)
        turns = [there.permutations.get(schema.outputs[here.op.outputs.index(one)].name) for one in here.results]
        ours.seeds = [
            one if order is None else one.transpose(order) for one, order in zip(here.seeds, turns, strict=True)
        ]
        ours.arrays = {
            name: one if orders[int(name[1:])] is None else one.transpose(orders[int(name[1:])])
            for name, one in given.items()
        }
        wanted = dict(zip([one.name for one in here.wrt], gradients, strict=True))
        for tensor, part in zip(ours.wrt, found_gradients(ours), strict=True):
            order = orders[int(tensor.name[1:])]
            expected = wanted[tensor.name]
            expected = expected if order is None else expected.transpose(order)
            np.testing.assert_allclose(part, expected, rtol=1e-7, atol=1e-7, err_msg=str(case))
    assert {"Convolution", "ConvTranspose", "MaxPool", "LayerNorm", "MatMul"} <= compared


# Narrow types ---------------------------------------------------------------------------------------------------------

NARROW = frozenset([og.bf16.numpy, og.f16.numpy])
NARROW_CASES = [case for case in CASES if any(getattr(array, "dtype", None) in NARROW for array in case.inputs)]


@cache
def narrow_kinds() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for case in NARROW_CASES:
        found.setdefault(case.kind, []).append(case)
    return found


@pytest.mark.parametrize("kind", narrow_kinds())
def test_narrow_type_has_the_slope_of_finite_differences(kind):
    for case in narrow_kinds()[kind]:
        subject = subject_of(case)
        if subject.wrt and subject.results and not str(case).startswith(NOT_FINITE):
            subject.check(0.02, directions=1)  # the factors of compositions are rounded to the type


# The library ----------------------------------------------------------------------------------------------------------


@cache
def compiled_cases() -> dict[str, Any]:
    """The first case of each op in f32 and in bf16, and of each host op."""
    found: dict[str, Any] = {}
    for case in [*BASE_CASES, *NARROW_CASES]:
        types = {str(OF_NUMPY[np.asarray(array).dtype]) for array in case.inputs if array is not None}
        word = next((one for one in ("f16", "bf16") if one in types), "f32")
        if word != "f16":
            found.setdefault(f"{case.kind} {word}", (case, "onednn-3.13"))
    for case in HOST_CASES:
        if f"host {case.kind}" not in REFUSED:
            found.setdefault(f"host {case.kind}", (case, HOST))
    return found


@pytest.mark.library
@pytest.mark.parametrize("name", compiled_cases())
def test_compiled_gradient_agrees_with_reference(name):
    case, words = compiled_cases()[name]
    subject = subject_of(case, words)
    if not subject.wrt or not subject.results:
        pytest.skip("no input has a gradient")
    graph = subject.graph
    for place, one in enumerate(subject.differentiate()):
        graph.output(f"g{place}", one)
    given = {key: subject.arrays[key].astype(one.dtype.numpy) for key, one in graph.inputs.items()}
    wanted = run(graph, given)
    results = graph.compile()(**given)
    share = 0.03 if "bf16" in name else 1e-4
    for ours, theirs in zip([results] if len(wanted) == 1 else results, wanted.values(), strict=True):
        exact = theirs.astype(np.float64)
        size = max(float(np.abs(exact).max(initial=0)), 1e-2)
        np.testing.assert_allclose(np.asarray(ours, np.float64), exact, rtol=share, atol=share * size)
