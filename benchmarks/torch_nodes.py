"""Runs the nodes of a decoder in eager PyTorch, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Node = tuple[str, Sequence[str], str, Mapping[str, Any]]


def tensor_of(proto: onnx.TensorProto) -> Any:
    """A constant as a tensor; numpy has no bf16."""
    import torch

    if proto.data_type == TensorProto.BFLOAT16:
        halves = np.frombuffer(proto.raw_data, np.int16).reshape(proto.dims).copy()
        return torch.from_numpy(halves).view(torch.bfloat16)
    return torch.from_numpy(numpy_helper.to_array(proto).copy())


def _normalized(source: Any, gamma: Any, attrs: Mapping[str, Any]) -> Any:
    import torch

    return torch.nn.functional.rms_norm(source, gamma.shape, gamma, attrs["epsilon"])


def _cast(source: Any, attrs: Mapping[str, Any]) -> Any:
    import torch

    return source.to(torch.bfloat16 if attrs["to"] == TensorProto.BFLOAT16 else torch.float32)


def _slice(source: Any, start: Any, end: Any, axis: Any, _: Mapping[str, Any]) -> Any:
    return source.narrow(int(axis), int(start), int(end - start))


def _concat(*sources: Any) -> Any:
    import torch

    return torch.cat(sources[:-1], sources[-1]["axis"])


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": lambda x, y, _: x + y,
    "Cast": _cast,
    "Concat": _concat,
    "MatMul": lambda x, y, _: x @ y,
    "Mul": lambda x, y, _: x * y,
    "Neg": lambda x, _: -x,
    "Reshape": lambda x, dims, _: x.reshape(dims.tolist()),
    "Sigmoid": lambda x, _: x.sigmoid(),
    "SimplifiedLayerNormalization": _normalized,
    "Slice": _slice,
    "Softmax": lambda x, attrs: x.softmax(attrs["axis"]),
    "Transpose": lambda x, attrs: x.permute(attrs["perm"]),
}


def runner(model: onnx.ModelProto, given: Mapping[str, Any]) -> Callable[[], list[Any]]:
    """A function that runs a model on these inputs and returns its results as arrays."""
    import torch

    graph = model.graph
    known = {proto.name: tensor_of(proto) for proto in graph.initializer}
    known |= {name: torch.from_numpy(array) for name, array in given.items()}
    nodes: list[Node] = []
    for node in graph.node:
        attrs = {attr.name: helper.get_attribute_value(attr) for attr in node.attribute}
        nodes.append((node.op_type, [*node.input], node.output[0], attrs))

    def run() -> list[Any]:
        values = dict(known)
        with torch.inference_mode():
            for kind, sources, result, attrs in nodes:
                values[result] = FUNCTIONS[kind](*[values[name] for name in sources], attrs)
        return [values[end.name].numpy() for end in graph.output]

    return run
