"""Computes BatchNormInference behind a convolution into its weights and its bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..builder.uses import uses_of
from ..graph import Graph
from ..ir.op import Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT

FOLDED = "/folded"  # behind the name of a convolution


def folded_norms(graph: Graph) -> Graph:
    """The graph with the factors of each norm in the weights of the convolution before it, where those are constant."""
    new = Graph.copy(graph)
    for norm in [op for op in new._ops if op.kind == "BatchNormInference" and op.edition == DEFAULT]:
        convolution = uses_of(new).producers.get(norm.inputs[0].id)
        if convolution is not None and _folds(new, convolution, norm):
            new.replace(norm, _folded(new, convolution, norm))
    return new


def _folds(graph: Graph, convolution: Op, norm: Op) -> bool:
    """Whether nothing else reads the convolution, and all numbers of both are known."""
    if convolution.kind != "Convolution" or convolution.edition != DEFAULT:
        return False
    known = [*convolution.inputs[1:], *norm.inputs[1:]]
    if any(tensor.value is None or tensor.dtype is not DataType.f32 for tensor in known):
        return False
    formats = [op.attrs.get("data_format", "NXC") for op in (convolution, norm)]
    result = convolution.outputs[0].id
    is_read = any(end.id == result for end in graph._outputs.values())
    return formats[0] == formats[1] and len(uses_of(graph).consumers[result]) == 1 and not is_read


def _folded(graph: Graph, convolution: Op, norm: Op) -> Any:
    """The convolution with other weights and another bias."""
    src, weights, *bias = convolution.inputs
    gamma, beta, mean, variance = (_numbers(norm, port) for port in range(1, 5))
    epsilon = norm.attrs["epsilon"]
    assert isinstance(epsilon, float)
    factor = gamma / np.sqrt(variance + epsilon)
    before = _numbers(convolution, 2) if bias else np.zeros_like(mean)
    is_first = convolution.attrs.get("weights_format", "XIO") == "OIX"
    numbers = _numbers(convolution, 1)
    scaled = numbers * (factor.reshape(-1, *[1] * (numbers.ndim - 1)) if is_first else factor)
    ends = [
        src,
        graph.constant(scaled.astype(np.float32), name=weights.name),
        graph.constant(((before - mean) * factor + beta).astype(np.float32), name=f"{norm.name}.bias"),
    ]
    return graph.op("Convolution", ends, dict(convolution.attrs), name=f"{convolution.name}{FOLDED}")


def own_name(op: Op) -> str:
    """The name of an op in the graph before its norm was folded."""
    return op.name.removesuffix(FOLDED)


def _numbers(op: Op, port: int) -> NDArray[np.float64]:
    """The constant of a port in f64."""
    tensor = op.inputs[port]
    return np.asarray(tensor.value, np.float64)
