"""Runs ONNX models with ONNX Runtime and with the reference of the package onnx."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from .onnx_session import session_of

# Data types that numpy lacks: ONNX Runtime gets and returns them in a wider type, and casts.
WIDER = {
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FN: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2: TensorProto.FLOAT,
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
}
BF16 = TensorProto.BFLOAT16
# Nodes that ONNX Runtime runs on every data type.
ANY_TYPE = {"Cast", "Identity", "Shape", "Size"}


def for_runtime(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for ONNX Runtime on a CPU, which has few kernels for bf16: each node computes in f32 and rounds.

    Inputs and outputs whose data type numpy lacks are cast at the border.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    inferred = onnx.shape_inference.infer_shapes(made).graph
    types = {one.name: one.data_type for one in graph.initializer}
    ports = (*inferred.input, *inferred.output, *inferred.value_info)
    types.update((one.name, one.type.tensor_type.elem_type) for one in ports)
    before, after, nodes = [], [], []
    for port in graph.input:
        kind = port.type.tensor_type
        if kind.elem_type in WIDER:
            inner = port.name
            port.name = f"{inner}/given"
            before.append(helper.make_node("Cast", [port.name], [inner], to=kind.elem_type))
            kind.elem_type = WIDER[kind.elem_type]
    for port in graph.output:
        kind = port.type.tensor_type
        if kind.elem_type in WIDER:
            inner = port.name
            port.name = f"{inner}/returned"
            after.append(helper.make_node("Cast", [inner], [port.name], to=WIDER[kind.elem_type]))
            kind.elem_type = WIDER[kind.elem_type]
    for number, node in enumerate(graph.node):
        if node.domain or node.op_type in ANY_TYPE or BF16 not in map(types.get, (*node.input, *node.output)):
            nodes.append(node)
            continue
        inner = onnx.NodeProto()
        inner.CopyFrom(node)
        for index, name in enumerate(node.input):
            if types.get(name) == BF16:
                inner.input[index] = f"{name}/wide_{number}_{index}"
                nodes.append(helper.make_node("Cast", [name], [inner.input[index]], to=TensorProto.FLOAT))
        nodes.append(inner)
        for index, name in enumerate(node.output):
            if types.get(name) == BF16:
                inner.output[index] = f"{name}/wide"
                nodes.append(helper.make_node("Cast", [f"{name}/wide"], [name], to=BF16))
    del graph.node[:]
    graph.node.extend([*before, *nodes, *after])
    return made


def run_in_runtime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name, as ONNX Runtime computes them with its default optimizations."""
    ready = for_runtime(model)
    wide = {one.name.removesuffix("/given"): one for one in ready.graph.input}
    feeds = {}
    for name, port in wide.items():
        feeds[port.name] = np.asarray(inputs[name]).astype(
            helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        )
    found = session_of(ready).run(None, feeds)
    types = {one.name: helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type) for one in model.graph.output}
    names = [one.name for one in model.graph.output]
    with np.errstate(invalid="ignore"):
        return {name: array.astype(types[name]) for name, array in zip(names, found, strict=True)}


def run_in_reference(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name, as the package onnx computes them in numpy."""
    from onnx.reference import ReferenceEvaluator

    found = ReferenceEvaluator(model).run(None, inputs)
    return dict(zip([one.name for one in model.graph.output], found, strict=True))
