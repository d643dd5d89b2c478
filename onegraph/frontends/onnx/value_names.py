"""Notes which tensors of a graph are the values of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...builder.graph import DataGraph
from ...builder.model_values import ModelValue, ModelValues, View
from ...ir.op import LogicalTensor
from ...lowering.emitter import Emitter
from ...opset.kinds import HOST_OPAQUE


def model_values(values: Mapping[str, Any], emit: Emitter, graph: DataGraph) -> ModelValues:
    """What the graph has of each value of a model, by its name in the model.

    Args:
        values: by name, what the nodes have become: tensors, arrays, and others.
        emit: has added the ops.
        graph: without the ops that nothing reads.
    """
    names = {tensor.name for tensor in graph._tensors}
    by_name: dict[str, ModelValue] = {}
    for name, value in values.items():
        tensor = emit.constant_of(value) if isinstance(value, np.ndarray) else value
        if name not in names:
            by_name[name] = _model_value(tensor, emit, names) if isinstance(tensor, LogicalTensor) else ModelValue("")
    return by_name


def _model_value(tensor: LogicalTensor, emit: Emitter, names: set[str]) -> ModelValue:
    if tensor.name in names:
        return ModelValue(tensor.name)
    maker = emit.maker(tensor)
    if maker is not None and len(maker.inputs) == len(maker.outputs) == 1 and maker.kind not in HOST_OPAQUE:
        source = maker.inputs[0]
        if source.name in names:
            return ModelValue(source.name, View(maker.kind, dict(maker.attrs), maker.edition, tensor.dtype))
    return ModelValue("")


def renamed(graph: DataGraph, tensors: Mapping[int, Any]) -> ModelValues:
    """The values of the model of a graph in a graph made of it, whose tensors are given by the ids of the old ones."""
    by_name = {tensor.name: tensors.get(tensor.id) for tensor in graph._tensors}
    value_names: dict[str, ModelValue] = {}
    for name, value in graph._model_values.items():
        tensor = by_name.get(value.tensor)
        value_names[name] = ModelValue(tensor.name, value.view) if isinstance(tensor, LogicalTensor) else ModelValue("")
    return value_names
