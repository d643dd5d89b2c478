"""Lowering: the compiler passes parts of ops to the library unchecked; here each part passes every check."""

import numpy as np
import pytest

import onegraph as og
from onegraph.capi.op_template import OpTemplate
from onegraph.compiler.lower import lower
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph


def assert_parts_in_order(graph):
    """Check every part of a lowered graph as the one-to-one objects check ops; return their number."""
    parts = [step.part for step in lower(graph).steps if step.part is not None and step.op.signature is not None]
    for part in parts:
        OpTemplate.checked(part.kind, part.attrs, part.types, part.outputs)
    return len(parts)


@pytest.mark.parametrize("case", [case for case in CASES if case.kind != "Wildcard"], ids=str)
def test_parts_of_every_case(case):
    graph = og.Graph()
    inputs = []
    for number, array in enumerate(case.inputs):
        dtype = "s64" if array.dtype == np.int64 else array.dtype
        if array.dtype == np.int32:  # it may give a shape, which must be known
            inputs.append(graph.constant(array))
        else:
            inputs.append(graph.input(f"x{number}", dtype, array.shape))
    graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    assert_parts_in_order(graph)


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_random_graphs(seed):
    assert assert_parts_in_order(random_graph(seed, n_ops=30)) > 0
