"""The bodies of composed ops compute what the specification says, whatever they are made into."""

import ast
from pathlib import Path

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.builder.graph import DataGraph
from onegraph.compiler.rewrites import bodies as parts_of_bodies
from onegraph.errors import UnsupportedError
from onegraph.frontends.onnx.saving.bodies import NODES_ALONE
from onegraph.lowering.bodies import add_body
from onegraph.lowering.control import branch
from onegraph.lowering.emitter import Emitter
from onegraph.opset.bodies import BODIES
from onegraph.opset.bodies.normalization import factor_and_shift
from onegraph.opset.editions.registry import BASE, base_of, edition
from onegraph.opset.schema import Call, TensorType
from onegraph.reference import run_op
from onegraph.testing.cases import CASES, Case

PACKAGE = Path(og.__file__).parent
LEGACY = [base_of(edition("legacy-1").schemas[kind]) for kind in ("PowBackprop", "PowBackpropExponent")]
SCHEMAS = {**BASE, **{schema.kind: schema for schema in LEGACY}}
X, ROW = np.float32([[0.5, 0, 2], [1, 1.5, 0.25]]), np.float32([[0, 0.5, 2]])
GRADIENTS_OF_POWERS = [
    Case("PowBackprop-1", "", (X, X + 1, ROW), {}),
    Case("PowBackpropExponent-1", "", (X, X + 1, X**ROW, ROW), {}),
    Case("PowBackpropExponent-1", "vector", (X, X + 1, X ** ROW[0], ROW[0]), {}),
]
CASES_OF_BODIES = [*GRADIENTS_OF_POWERS, *(case for case in CASES if case.kind in BODIES)]
F32 = [case for case in CASES_OF_BODIES if all(array.dtype == np.float32 for array in case.inputs)]


def call_of(case):
    types = [TensorType(og.f32, array.shape) for array in case.inputs]
    schema = SCHEMAS[case.kind]
    n_outputs = len(case.outputs) if case.outputs else len(schema.outputs)
    return Call(schema, case.attrs, types, n_outputs, [og.f32] * n_outputs)


def op_of(case):
    g = DataGraph()
    inputs = [g.input(f"x{i}", array.dtype, array.shape) for i, array in enumerate(case.inputs)]
    language = "legacy-1" if case.kind.endswith("-1") else None
    kind = case.kind.removesuffix("-1")
    g.op(kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs, edition=language)
    return g.ops[-1]


def test_each_body_has_cases():
    assert {case.kind for case in F32} == {*BODIES}


@grouped("case", F32, key=lambda case: case.kind[0])
def test_a_body_computes_the_op(case):
    with np.errstate(all="ignore"):  # a body of known arrays is computed by the reference of its ops
        results = add_body(Emitter(DataGraph()), call_of(case), case.inputs)
        expected = run_op(op_of(case), case.inputs)
    assert len(results) >= len(expected)
    for found, exact in zip(results, expected, strict=False):
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)


def test_no_other_module_spells_out_a_body():
    """A composition or a writer that names the kind would be a second body; a node of ONNX alone is none."""
    for path in [*(PACKAGE / "gradient/rules").glob("*.py"), *(PACKAGE / "frontends/onnx/saving").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("composed", "composes", "writes"):
                text = ast.unparse(node).replace(", ", "', '")
                assert not [kind for kind in BODIES.keys() - {*NODES_ALONE} if f"'{kind}'" in text], path.name


@pytest.mark.parametrize(
    ("kind", "ports"), [("RMSNorm", ["src"]), ("LogSoftmaxBackward", ["diff_dst", "dst"])], ids=["RMSNorm", "softmax"]
)
def test_a_body_needs_a_known_rank(kind, ports):
    call = Call(BASE[kind], {}, [TensorType(og.f32, None)] * len(ports), 1)
    with pytest.raises(UnsupportedError, match=f"{kind}: the rank of .* is unknown"):
        add_body(Emitter(DataGraph()), call, [np.ones((2, 3), np.float32)] * len(ports))


def test_the_library_gets_a_body_as_parts():
    call = Call(BASE["GELU"], {"mode": "gelu_tanh"}, [TensorType(og.bf16, (2, 3))], 1, [og.bf16])
    form = parts_of_bodies.by_body(call, "by Sigmoid")
    kinds = [part.kind for part in form.parts]
    assert kinds == ["TypeCast", "Square", "Multiply", "Add", "Multiply", "Sigmoid", "Multiply", "TypeCast"]
    assert form.note == "by Sigmoid"


def test_factor_and_shift_fold_bias_and_normalization():
    gamma, beta, mean, bias = (np.float32([one]) for one in (3.0, 0.5, 2.0, 4.0))
    factor, shift = factor_and_shift([gamma, beta, mean, np.float32([3.0])], 1.0, bias)
    assert (factor, shift) == (1.5, 0.5 + (4.0 - 2.0) * 1.5)
    factor, shift = factor_and_shift([gamma, beta, mean, np.float32([-2.0])], 1.0)
    assert np.isnan([factor, shift]).all()


def test_a_branch_without_results_is_made_for_known_dims():
    graph = og.Graph()
    x, condition = graph.input("x", "f32", (None,)), graph.input("condition", "boolean", ())
    assert branch(Emitter(graph), condition, lambda _: [], lambda _: []) == []
    graph.output("y", graph.relu(x))
    read = og.Graph.from_json(graph.to_json())
    assert read.specialise({"x": (3,)}).outputs["y"].shape == (3,)
