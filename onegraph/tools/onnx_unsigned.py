"""Rewrites models of ONNX so that ONNX Runtime multiplies bytes exactly on every CPU.

Without VNNI, ONNX Runtime multiplies unsigned by signed bytes and adds pairs of products in 16 bits, which saturates.
Products of unsigned bytes are added in 32 bits. A signed operand and its zero point become unsigned if 128 is added to
both, and the product stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .onnx_types import graphs_of

MICROSOFT = "com.microsoft"
# For each kind of node the places of its operands of 8 bits, each with the place of its zero point.
OPERANDS = {
    ("", "MatMulInteger"): ((0, 2), (1, 3)),
    ("", "ConvInteger"): ((0, 2), (1, 3)),
    ("", "QLinearMatMul"): ((0, 2), (3, 5)),
    ("", "QLinearConv"): ((0, 2), (3, 5)),
    (MICROSOFT, "QGemm"): ((0, 2), (3, 5)),
    (MICROSOFT, "MatMulIntegerToFloat"): ((0, 4), (1, 5)),
    (MICROSOFT, "DynamicQuantizeMatMul"): ((1, 3),),
    (MICROSOFT, "QAttention"): ((0, 6), (1, 7)),
}
LARGEST = 2**31 - 1  # bytes of a message of protobuf, which the inference of types writes


def with_unsigned_operands(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or a copy of it in which operands of integer products that are known to be signed are unsigned.

    Args:
        model: with its external data. What computes the operands is kept; nodes behind it add 128.
    """
    kinds = {(_domain(node), node.op_type) for graph in graphs_of(model.graph) for node in graph.node}
    if kinds.isdisjoint(OPERANDS) or model.ByteSize() > LARGEST:
        return model
    typed = onnx.shape_inference.infer_shapes(model)  # for its types alone
    signed = {name for graph in graphs_of(typed.graph) for name in _signed(graph)}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graphs = [graph for graph in graphs_of(made.graph) if graph.node]
    for graph in reversed(graphs):  # a graph copies its nodes, with the graphs in them
        nodes = []
        for node in graph.node:
            for place, zero in OPERANDS.get((_domain(node), node.op_type), ()):
                if node.input[place] in signed:
                    nodes += _made_unsigned(node, place, zero)
            nodes.append(node)
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    return made


def _domain(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def _signed(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the values of signed bytes, by what a graph and the inference of types say."""
    for port in (*graph.input, *graph.output, *graph.value_info):
        if port.type.tensor_type.elem_type == TensorProto.INT8:
            yield port.name
    yield from (one.name for one in graph.initializer if one.data_type == TensorProto.INT8)


def _made_unsigned(node: onnx.NodeProto, place: int, zero: int) -> list[onnx.NodeProto]:
    """Nodes that add 128 to an operand of a node and to its zero point; the node then takes their results."""
    node.input.extend([""] * (zero + 1 - len(node.input)))
    prefix = f"unsigned_{place}_{node.output[0]}"
    offset = helper.make_node("Constant", [], [f"{prefix}_128"], value=numpy_helper.from_array(np.int32(128)))
    made = [offset]
    for at in (place, zero):
        name = f"{prefix}_{at}"
        if node.input[at]:
            wide = helper.make_node("Cast", [node.input[at]], [f"{name}_wide"], to=TensorProto.INT32)
            made += [wide, helper.make_node("Add", [wide.output[0], offset.output[0]], [f"{name}_moved"])]
        source = made[-1].output[0] if node.input[at] else offset.output[0]
        made.append(helper.make_node("Cast", [source], [name], to=TensorProto.UINT8))
        node.input[at] = name
    return made


__all__ = ["with_unsigned_operands"]
