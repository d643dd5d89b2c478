"""Models whose signed bytes become unsigned compute what they did, and ONNX Runtime is exact on them on every CPU."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.tools.onnx_unsigned import MICROSOFT, OPERANDS, with_unsigned_operands  # noqa: E402

SCALE, POINT = np.float32(2.0**-12), np.uint8(3)
SQUARE, IMAGE, FILTERS = (4, 64), (1, 64, 3, 3), (5, 64, 3, 3)
# For each kind its inputs: the shape of an operand, a scale, a zero point that is there or absent, or other numbers.
INPUTS = {
    "MatMulInteger": [SQUARE, (64, 8), None, "zero"],
    "ConvInteger": [IMAGE, FILTERS, "zero"],
    "QLinearMatMul": [SQUARE, SCALE, "zero", (64, 8), SCALE, "zero", np.float32(0.5), POINT],
    "QLinearConv": [IMAGE, SCALE, "zero", FILTERS, SCALE, "zero", np.float32(0.5), POINT],
    "QGemm": [SQUARE, SCALE, "zero", (64, 8), SCALE, "zero"],
    "MatMulIntegerToFloat": [SQUARE, (64, 8), SCALE, SCALE, "zero"],
    "DynamicQuantizeMatMul": [np.linspace(-1, 1, 256, dtype=np.float32).reshape(SQUARE), (64, 8), SCALE, "zero"],
    "QAttention": [(1, 4, 64), (64, 48), np.zeros(48, np.float32), SCALE, SCALE, None, "zero", "zero"],
}
LARGE = np.int8([127, 127, -128, -128, 126, 127, -3, -128])  # whose products with large bytes leave 16 bits


def arrays(kind, mixed):
    """The inputs of a node: operands of signed bytes, of which the first is unsigned if ``mixed``."""
    made, places = [], [place for place, _ in OPERANDS[kind]]
    for place, given in enumerate(INPUTS[kind[1]]):
        own = np.uint8 if mixed and place == places[0] != places[-1] else np.int8
        if isinstance(given, tuple):
            made.append(np.resize(LARGE, given).astype(own) if own is np.int8 else np.full(given, 255, own))
        elif isinstance(given, str):
            of = next(operand for operand, zero in OPERANDS[kind] if zero == place)
            made.append(np.asarray(7 if made[of].dtype == np.uint8 else -7, made[of].dtype))
        else:
            made.append(given)
    return made


def model(kind, given, constants):
    """A model of one node; with constants all inputs but the first are known."""
    domain, name = kind
    names = ["" if array is None else f"x{place}" for place, array in enumerate(given)]
    known = [
        numpy_helper.from_array(np.asarray(array), names[place])
        for place, array in enumerate(given)
        if array is not None and ((place and constants) or not np.ndim(array))
    ]
    inputs = [
        helper.make_tensor_value_info(names[place], helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for place, array in enumerate(given)
        if array is not None and names[place] not in [one.name for one in known]
    ]
    attributes = {"num_heads": 2} if name == "QAttention" else {}
    node = helper.make_node(name, names, ["y"], domain=domain, **attributes)
    end = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    end.ClearField("type")
    graph = helper.make_graph([node], "g", inputs, [end], known)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    feeds = {names[place]: array for place, array in enumerate(given) if names[place] in [one.name for one in inputs]}
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


@pytest.mark.library
@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("kind", OPERANDS, ids=lambda kind: kind[1])
def test_unsigned_operands_have_the_products_of_signed_ones(kind, mixed, constants):
    given, feeds = model(kind, arrays(kind, mixed), constants)
    changed = with_unsigned_operands(given)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(changed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, feeds)[0]
    wanted = onegraph.onnx.load(given).compile()(*feeds.values())
    assert len(changed.graph.node) > len(given.graph.node)
    assert changed.graph.value_info == given.graph.value_info
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 if found.dtype.kind == "f" else 1e-9)


def test_graphs_in_nodes_change_too_and_other_models_do_not():
    product, _ = model(("", "MatMulInteger"), arrays(("", "MatMulInteger"), False), True)

    def chosen(branches, end):
        """A node that computes a product in a graph of its own, in which further graphs may compute one."""
        nodes = [helper.make_node("MatMulInteger", product.graph.node[0].input, [f"inner_{end}"]), *branches]
        graph = onnx.GraphProto(name=end, node=nodes, initializer=product.graph.initializer if branches else ())
        graph.output.append(helper.make_tensor_value_info(f"inner_{end}", TensorProto.INT32, ("m", "n")))
        none = onnx.GraphProto(
            name=f"{end}_else", output=[helper.make_tensor_value_info("c", TensorProto.INT32, ("m", "n"))]
        )
        none.node.append(
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.zeros((1, 1), np.int32)))
        )
        return helper.make_node("If", ["no"], [end], then_branch=graph, else_branch=none)

    outer = onnx.GraphProto(name="g", input=product.graph.input, node=[chosen([chosen([], "z")], "y")])
    outer.input.append(helper.make_tensor_value_info("no", TensorProto.BOOL, ()))
    outer.output.append(helper.make_tensor_value_info("y", TensorProto.INT32, ("m", "n")))
    nested = helper.make_model(outer, opset_imports=product.opset_import, ir_version=10)
    changed = with_unsigned_operands(nested)
    node = changed.graph.node[0]
    for _ in range(2):
        inner = next(attribute.g for attribute in node.attribute if attribute.name == "then_branch")
        assert [one.op_type for one in inner.node].count("MatMulInteger") == 1
        assert [one.op_type for one in inner.node].count("Cast") == 7
        node = inner.node[-1]
    onnx.checker.check_model(changed)
    unsigned, _ = model(("", "MatMulInteger"), [np.zeros(SQUARE, np.uint8), np.zeros((64, 8), np.uint8)], False)
    assert with_unsigned_operands(unsigned).graph.node == unsigned.graph.node
    other = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], []))
    assert with_unsigned_operands(other) is other
