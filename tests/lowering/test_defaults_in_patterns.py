"""Patterns take an attribute with its default for one that is left out."""

import numpy as np
import pytest
from helpers.recorded import numbers_of

import onegraph as og
from onegraph.ir.op import schema_of
from onegraph.lowering.patterns.table import OF_KNOWN_DIMS, REWRITES
from onegraph.opset.editions.registry import EDITIONS, edition
from tests.lowering import test_near_patterns as cases

# The first words of cases whose patterns read attributes that have defaults, and the attributes.
FAMILIES = (
    *("affine", "changing", "codes", "convolution", "depthwise", "mean", "norm", "pool", "scales"),
    *("signed", "turned", "zeros"),
)
LEFT_OUT = ("data_format", "weights_format", "groups", "qtype", "axis", "auto_pad", "transpose_a", "transpose_b")
NAMES = [name for name in (*cases.CASES, *cases.BESIDE) if name.split()[0] in FAMILIES]


def defaults(op):
    return {one.name: one.default for one in schema_of(op).attributes if one.name in LEFT_OUT and not one.required}


def without_defaults(graph):
    """The graph without attributes that have their defaults, and how many there are."""
    made, values, count = og.Graph(), {}, 0
    for name, tensor in graph.inputs.items():
        values[tensor.id] = made.input(name, tensor.dtype, tensor.shape)
    for op in graph.ops:
        known = defaults(op)
        attrs = {name: one for name, one in op.attrs.items() if name not in known or known[name] != one}
        count += len(op.attrs) - len(attrs)
        for end in op.inputs:
            if end is not None and end.id not in values:
                values[end.id] = made.constant(end.value, dtype=end.dtype)
        ends = [None if end is None else values[end.id] for end in op.inputs]
        types, names = tuple(end.dtype for end in op.outputs), [end.name for end in op.outputs]
        results = made._add_op(edition(op.edition), op.kind, attrs, ends, types, name=op.name, names=names)
        values.update((end.id, one) for end, one in zip(op.outputs, results, strict=True))
    for name, tensor in graph.outputs.items():
        made.output(name, values[tensor.id])
    return made, count


def numbers(array):
    return None if array is None else numbers_of(array)


def told(graph):
    """The ops of a graph with all attributes, and their inputs."""
    return [
        (
            op.kind,
            sorted({**defaults(op), **op.attrs}.items(), key=str),
            [None if end is None else (end.dtype, end.shape, numbers(end.value)) for end in op.inputs],
        )
        for op in graph.ops
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_attributes_that_are_left_out_have_their_defaults(family):
    total = 0
    for name in (name for name in NAMES if name.split()[0] == family):
        cases.RNG = np.random.default_rng(0)
        plain = cases.built(name, with_patterns=False)
        bare, count = without_defaults(plain)
        if count:
            assert told(cases.rewritten(bare)) == told(cases.rewritten(plain)), name
        total += count
    assert total


@pytest.mark.parametrize("table", [REWRITES, OF_KNOWN_DIMS], ids=["all", "of known dims"])
def test_early_patterns_are_of_ops_with_one_result(table):
    every = [edition(name).schemas for name in EDITIONS]
    schemas = [one[kind] for one in every for kind in table.early if kind in one]
    assert schemas
    assert all(len(schema.outputs) == 1 and not schema.outputs[0].variadic for schema in schemas)
