"""Every op of the base vocabulary, compiled, against the numpy reference."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from conftest import draws
from helpers.grouped import grouped

import onegraph as og
from onegraph.errors import UnsupportedError
from onegraph.ir.op import LogicalTensor
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.reference import run
from onegraph.testing.cases import CASES, Case

# The reference computes in float64 and rounds once. The library computes in float32; some of its kernels use
# approximations with errors of a few 1e-6 of the largest value. It rounds to the type of the result: half a unit in the
# last place, or a whole one where the reference rounds the other way.
TOLERANCES = {
    np.dtype(np.float32): 1e-5,
    np.dtype(ml_dtypes.bfloat16): 2.0**-7,
    np.dtype(np.float16): 2.0**-9,
}
RUNNABLE = [case for case in CASES if case.kind != "Wildcard"]
# The first case of every op runs with unknown dims, and make test-long adds every tenth case.
STEP = draws(len(RUNNABLE), 10)
OPEN = [case for n, case in enumerate(RUNNABLE) if n % STEP == 0 or case.kind != RUNNABLE[n - 1].kind]


def build(case: Case, known: bool = True) -> og.Graph:
    graph = og.Graph()
    inputs = []
    for number, array in enumerate(case.inputs):
        dtype = "s64" if array.dtype == np.int64 else array.dtype
        inputs.append(graph.input(f"x{number}", dtype, array.shape if known else (None,) * array.ndim))
    result = graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    results = (result,) if isinstance(result, LogicalTensor) else result
    for number, tensor in enumerate(results):
        graph.output(f"y{number}", tensor)
    if not results:
        graph.output("y", inputs[0])
    return graph


def arguments(case: Case) -> dict[str, np.ndarray]:
    return {f"x{number}": array for number, array in enumerate(case.inputs)}


def results(executable: og.runtime.executable.Executable, case: Case) -> dict[str, np.ndarray]:
    got = executable(**arguments(case))
    names = [port.name for port in executable.outputs]
    return dict(zip(names, got if isinstance(got, tuple) else (got,), strict=True))


def assert_close(got: dict[str, np.ndarray], graph: og.Graph, case: Case) -> None:
    for name, wanted in run(graph, arguments(case)).items():
        assert (got[name].shape, got[name].dtype) == (wanted.shape, wanted.dtype)
        actual, expected = got[name].astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(actual[~finite], expected[~finite])
        largest = np.abs(expected[finite]).max(initial=0)
        limit = TOLERANCES.get(wanted.dtype, 0.0) * largest
        np.testing.assert_allclose(actual[finite], expected[finite], rtol=0, atol=limit, err_msg=f"{case} {name}")


@pytest.mark.library
@grouped("case", RUNNABLE)
def test_matches_the_reference(case: Case) -> None:
    graph = build(case)
    refusal = None
    try:
        executable = graph.compile(fallback=False)
        got = results(executable, case)
    except UnsupportedError as error:
        refusal, executable = str(error), graph.compile()
        got = results(executable, case)
    assert_close(got, graph, case)
    for name, port in graph.outputs.items():
        assert port.dtype is DataType.of(got[name].dtype)
        unknown = any(array.dtype == np.int32 for array in case.inputs) and None in (port.shape or (None,))
        assert unknown or port.shape == got[name].shape
    by_numpy = any(partition.executor == "reference" for partition in executable.report().partitions)
    assert by_numpy == (refusal is not None)
    assert refusal is None or case.kind in refusal


@pytest.mark.library
@grouped("case", OPEN)
def test_matches_the_reference_with_unknown_dims(case: Case) -> None:
    graph = build(case, known=False)
    assert_close(results(graph.compile(), case), build(case), case)


@pytest.mark.library
@pytest.mark.parametrize("case", [case for case in CASES if case.kind == "Wildcard"], ids=str)
def test_never_runs_a_wildcard(case: Case) -> None:
    with pytest.raises(UnsupportedError, match="Wildcard"):
        results(build(case).compile(), case)


@pytest.mark.library
def test_every_fallback_has_a_reason() -> None:
    for case in RUNNABLE[::7]:
        executable = build(case).compile()
        results(executable, case)
        for partition in executable.report().partitions:
            assert partition.reason or partition.executor in ("oneDNN", "kernel"), str(case)


@grouped("kind", BASE, key=lambda kind: BASE[kind].category)
def test_every_type_table_row_has_a_case(kind: str) -> None:
    schema = BASE[kind]
    uses = []
    for case in CASES:
        if case.kind == kind:
            op = build(case).ops[0]
            ports = [schema.input_port(index) for index in range(len(op.inputs))]
            pairs = [*zip(ports, op.inputs, strict=True), *zip(schema.outputs, op.outputs, strict=False)]
            uses.append({port.type: tensor.dtype for port, tensor in pairs if tensor is not None})
    assert uses
    for row in schema.types:
        fitting = [use for use in uses if all(use.get(name) in (None, *types) for name, types in row.types.items())]
        for name, types in row.types.items():
            assert types <= {use.get(name) for use in fitting}, f"{row}: {name}"


TANH_INNER = math.sqrt(2 / math.pi) * (-6 - 0.044715 * 216)
# The normal distribution: its tail beyond 9, its density at 9.
TAIL, DENSITY = 1.1285884059538407e-19, 1.0279773571668917e-18


@pytest.mark.parametrize(
    ("kind", "attrs", "x", "wanted"),
    [
        ("GELU", {}, -9, -9 * TAIL),
        ("GELUBackward", {}, -9, TAIL - 9 * DENSITY),
        ("GELU", {"mode": "gelu_tanh"}, -6, -6 / (1 + math.exp(-2 * TANH_INNER))),
        ("SigmoidBackward", {"use_dst": False}, 40, math.exp(-40)),
        ("TanhBackward", {"use_dst": False}, 12, 1 / math.cosh(12) ** 2),
        ("TanhBackward", {"use_dst": False}, -12, 1 / math.cosh(12) ** 2),
    ],
    ids=str,
)
def test_reference_is_accurate_for_large_arguments(kind: str, attrs: dict[str, object], x: int, wanted: float) -> None:
    graph = og.Graph()
    ends = [graph.input(name, "f32", (1,)) for name in ("x", "dy")[: 1 + kind.endswith("Backward")]]
    graph.output("y", graph.op(kind, ends, attrs))
    given = {"x": np.float32([x]), "dy": np.float32([1])}
    np.testing.assert_allclose(run(graph, {name: given[name] for name in graph.inputs})["y"], [wanted], rtol=1e-6)
