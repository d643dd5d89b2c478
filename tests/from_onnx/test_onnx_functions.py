"""Functions by which ONNX defines an op: the same ops for every op set within one meaning of the op."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import helper, parser  # noqa: E402

from onegraph import onnx as front  # noqa: E402
from tests.onnx_backend.cases import cases  # noqa: E402

OLDEST, NEWEST = 7, onnx.defs.onnx_opset_version()


def meanings():
    """Kind and op sets of each meaning that a function defines, from op set 7 on."""
    every = [one for one in onnx.defs.get_all_schemas_with_history() if one.domain == ""]
    for schema in every:
        later = [one.since_version for one in every if one.name == schema.name]
        end = min((one for one in later if one > schema.since_version), default=NEWEST + 1)
        op_sets = range(max(schema.since_version, OLDEST), end)
        if (schema.has_function or schema.has_context_dependent_function) and len(op_sets) > 1:
            yield pytest.param(schema.name, op_sets, id=f"{schema.name}-{schema.since_version}")


@cache
def models_by_kind():
    """The backend tests that are one node, by its kind."""
    found = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in cases(("node",)).values():
            if len(one.model.graph.node) == 1:
                found[one.model.graph.node[0].op_type].append(one.model)
    return found


def lowered(model, op_set):
    """The ops and data types that a model of one node becomes; the class of the error if it is refused."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("", op_set))
    try:
        graph = front.load(made)
    except og.FormatError as error:
        return type(error)
    return [(op.kind, [one.dtype for one in op.outputs]) for op in graph.ops]


@pytest.mark.parametrize(("kind", "op_sets"), [*meanings()])
def test_one_meaning_has_one_lowering(kind, op_sets):
    tried = models_by_kind()[kind][:3]
    assert tried
    for model in tried:
        first, *others = [lowered(model, op_set) for op_set in op_sets]
        for op_set, other in zip(op_sets[1:], others, strict=True):
            assert other == first, op_set


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("op_set", [18, 19, 20, 21, 22, 23, 24])
def test_group_norm_of_every_op_set(op_set, dtype):
    """Before op set 21, gamma and beta have an element for each group."""
    x = np.random.default_rng(0).standard_normal((2, 4, 3, 5)) * 400
    factors, each = np.array([1.0, 2.0]), np.repeat([1.0, 2.0], 2)[:, None, None]
    vectors = [(factors if op_set < 21 else each.reshape(-1)).astype(dtype)] * 2
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=2)],
        "g",
        [helper.make_tensor_value_info("x", number, x.shape)],
        [helper.make_tensor_value_info("y", number, None)],
        [onnx.numpy_helper.from_array(vector, name) for vector, name in zip(vectors, "gb", strict=True)],
    )
    loaded = front.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", op_set)]))
    assert [op.kind for op in loaded.ops] == ["GroupNorm"]
    rows = x.astype(dtype).astype(np.float64).reshape(2, 2, -1)
    rows -= rows.mean(-1, keepdims=True)
    normal = (rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    np.testing.assert_allclose(
        loaded.compile()(x.astype(dtype)).astype(np.float64),
        normal * each + each,
        rtol=2 * np.finfo(dtype).eps,
        atol=4 * np.finfo(dtype).eps,
    )


CALLS = (
    '<ir_version: 9, opset_import: ["": 21, "own": 1]> g (float[2] x) => (y) { a = Neg(x) y = own.Outer(a) } '
    '<domain: "own", opset_import: ["": 21, "own": 1]> Outer (x) => (y) { a = own.Inner(x) y = Abs(a) } '
    '<domain: "own", opset_import: ["": 21]> Inner (x) => (y) { a = Exp(x) y = Neg(a) }'
)


@pytest.mark.parametrize(
    ("module", "limit", "least", "text"),
    [
        ("functions", "MAX_NODES", 6, "functions: more than 5 nodes in all"),
        ("importer", "MAX_NODES", 6, "node 1 .Outer.: node 1 .Abs.: more than 5 nodes"),
        ("importer", "MAX_DEPTH", 2, "functions or graphs 1 deep in each other"),
    ],
)
def test_functions_stand_for_so_many_nodes(module, limit, least, text, monkeypatch):
    proto = parser.parse_model(CALLS)
    monkeypatch.setattr(f"onegraph.frontends.onnx.{module}.{limit}", least)
    assert [op.kind for op in front.load(proto).ops] == ["Multiply", "Exp", "Multiply", "Abs"]
    monkeypatch.setattr(f"onegraph.frontends.onnx.{module}.{limit}", least - 1)
    with pytest.raises(og.FormatError, match=text):
        front.load(proto)
