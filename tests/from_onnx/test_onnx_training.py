"""The steps of optimizers of ONNX, compared with its reference evaluator."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: pip install onegraph[onnx]")

from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onegraph.onnx

DOMAIN = "ai.onnx.preview.training"
# By kind: the number of its states for each tensor, and its attributes, which binary fractions hold.
MOMENTUM = {"norm_coefficient": 0.25, "alpha": 0.5, "beta": 0.75}
STEPS = [
    ("Adagrad", 1, {"norm_coefficient": 0.25, "decay_factor": 0.5, "epsilon": 0.125}),
    ("Adagrad", 1, {}),
    ("Adam", 2, {"norm_coefficient": 0.25, "norm_coefficient_post": 0.125, "alpha": 0.5, "beta": 0.75, "epsilon": 0.5}),
    ("Adam", 2, {}),
    ("Momentum", 1, {**MOMENTUM, "mode": "standard"}),
    ("Momentum", 1, {**MOMENTUM, "mode": "nesterov"}),
]


def model_of(kind, shapes, states, attrs):
    """A model of one node for tensors of these shapes, and the names of its inputs behind the first two."""
    names = [f"{name}{place}" for name in "xgsu"[: 2 + states] for place in range(len(shapes))]
    results = [f"new_{name}" for name in names if name[0] != "g"]

    def end(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[int(name[-1])])

    first = [helper.make_tensor_value_info(*one, ()) for one in (("rate", TensorProto.FLOAT), ("n", TensorProto.INT64))]
    node = helper.make_node(kind, ["rate", "n", *names], results, domain=DOMAIN, **attrs)
    graph = helper.make_graph([node], kind, [*first, *map(end, names)], [*map(end, results)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets), {name: shapes[int(name[-1])] for name in names}


@pytest.mark.library
@pytest.mark.parametrize("shapes", [[(2, 3)], [(2, 3), (2,)]], ids=len)
@pytest.mark.parametrize(("kind", "states", "attrs"), STEPS)
def test_steps_of_optimizers(kind, states, attrs, shapes):
    rng, (model, inputs) = np.random.default_rng(0), model_of(kind, shapes, states, attrs)
    executable = onegraph.onnx.load(model).compile()
    for number in (0, 1, 3):
        arrays = {name: rng.uniform(0.5, 2, shape).astype(np.float32) for name, shape in inputs.items()}
        given = {"rate": np.array(0.125, np.float32), "n": np.array(number), **arrays}
        for found, wanted in zip(executable(**given), ReferenceEvaluator(model).run(None, given), strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
