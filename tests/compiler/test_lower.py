"""Lowering: the compiler passes parts of ops to the library unchecked; here each part passes every check."""

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.capi.op_template import OpTemplate
from onegraph.compiler.kernels.elementwise import KERNELS
from onegraph.compiler.kernels.registry import exact_kernel
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph


def parts_in_order(graph, finite_math):
    """Check every part that the library gets of a graph as the one-to-one objects check ops; return the parts."""
    options = Options(finite_math=finite_math)
    lowered = run_passes(lower(graph, finite_math=finite_math), options, ["special_values"])
    steps = [step for step in lowered.steps if step.executor in ("library", "guarded", "patched", "copy")]
    parts = [step.part for step in steps if step.part is not None and step.op.signature is not None]
    for part in parts:
        OpTemplate.checked(part.kind, part.attrs, part.types, part.outputs)
    return parts


def graph_of(case, source):
    """The graph of a case whose inputs ``source`` adds, from a graph, a number, a data type and a shape."""
    graph = og.Graph()
    inputs = []
    for number, array in enumerate(case.inputs):
        dtype = "s64" if array.dtype == np.int64 else array.dtype
        if array.dtype == np.int32:  # it may give a shape, which must be known
            inputs.append(graph.constant(array))
        else:
            inputs.append(source(graph, number, dtype, array.shape))
    graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    return graph


def test_an_edited_graph_becomes_the_steps_of_a_new_one():
    """Tensors that left the graph leave gaps in the ids, and what the lowering adds takes the id of no other value."""
    for case in {case.kind: case for case in CASES if case.kind != "Wildcard"}.values():
        found = []
        for is_edited in (False, True):
            graph = graph_of(case, lambda graph, n, dtype, shape: graph.input(f"x{n}", dtype, shape))
            if is_edited:
                graph = behind_gaps(graph)
            made = run_passes(lower(graph, finite_math=False), Options(), ["special_values"])
            steps = [(step.executor, step.kind, len(step.inputs), len(step.outputs)) for step in made.steps]
            found.append((len(made.values), steps))
            results = [number for step in made.steps for number in step.outputs]
            assert len({*results}) == len(results)
        assert found[0] == found[1], case.kind


def behind_gaps(graph):
    """The graph, with ids of tensors between which some are missing."""
    gone = og.Graph()
    for number in range(3):
        gone.input(f"gone{number}", og.f32, (1,))
    made = {}
    for tensor in graph._tensors:
        if tensor.value is not None:
            made[tensor.id] = gone.constant(tensor.value, dtype=tensor.dtype)
        elif graph.inputs.get(tensor.name) is tensor:
            made[tensor.id] = gone.input(tensor.name, tensor.dtype, tensor.shape)
    for op in graph.ops:
        ends = [None if end is None else made[end.id] for end in op.inputs]
        results = gone._repeat_op(op, ends)
        made.update(zip((end.id for end in op.outputs), results, strict=True))
    for name, tensor in graph.outputs.items():
        gone.output(name, made[tensor.id])
    for number in range(3):
        gone.remove(f"gone{number}")
    return gone


EXACT = {kind for kernel in KERNELS if kernel.executor == "exact" for kind in kernel.kinds}


def plain(graph, number, dtype, shape):
    return graph.input(f"x{number}", dtype, shape)


def dequantized(graph, number, dtype, shape):
    codes = graph.input(f"x{number}", "u8", shape)
    return graph.op("Dequantize", [codes], {"scales": [0.1], "zps": [3]})


@pytest.mark.parametrize("finite_math", [False, True], ids=["all numbers", "finite numbers"])
@grouped("case", [case for case in CASES if case.kind != "Wildcard"])
def test_parts_of_every_case(case, finite_math):
    parts = parts_in_order(graph_of(case, plain), finite_math)
    # A kernel of the package computes an op for which the library's loses NaN.
    assert finite_math or not [part for part in parts if exact_kernel(part.call)]


# Dequantized numbers are finite, so that the library may compute the op if it can.
@grouped("case", [case for case in CASES if case.kind in EXACT and case.inputs[0].dtype == np.float32])
def test_parts_behind_dequantize(case):
    parts_in_order(graph_of(case, dequantized), finite_math=False)


@pytest.mark.parametrize("finite_math", [False, True], ids=["all numbers", "finite numbers"])
@pytest.mark.parametrize("seed", range(40))
def test_parts_of_random_graphs(seed, finite_math):
    assert parts_in_order(random_graph(seed, n_ops=30), finite_math)
