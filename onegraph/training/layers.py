"""Adds layers that remember something between steps: the statistics of a BatchNorm, the random numbers of a Dropout."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._util.validation import integer, number, string
from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..ir.op import LogicalTensor
from ..lowering.emitter import Emitter
from ..opset.dtypes import DataType
from .arguments import expect_free, tensor_of


@atomic
def batch_norm(
    graph: DataGraph,
    x: LogicalTensor,
    gamma: LogicalTensor,
    beta: LogicalTensor,
    mean: LogicalTensor,
    variance: LogicalTensor,
    *,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: Literal["NXC", "NCX"] = "NXC",
) -> LogicalTensor:
    """BatchNormForwardTraining, which assigns the running statistics to variables.

    A graph for inference takes the statistics of ``model.variables`` for its BatchNormInference.

    Args:
        graph: the graph to add ops to.
        x: the tensor to normalize.
        gamma, beta: the affine parameters, f32 (channels,).
        mean, variance: variables of the graph, f32 (channels,). After a call they are ``momentum`` times their old
            value plus ``1 - momentum`` times the mean and the (biased) variance of the batch.
        momentum: the share of the old statistics. PyTorch's ``momentum`` is 1 minus this one.
        epsilon: is added to the variance.
        data_format: ``NXC`` or ``NCX``.

    Raises:
        ArgumentError: mean or variance is no variable of the graph, or another call assigns it.
        SpecError: the op cannot have these inputs or attributes.
    """
    kept = [
        tensor_of(graph, f"batch_norm: {end}", one, [DataType.f32])
        for end, one in (("mean", mean), ("variance", variance))
    ]
    expect_free(graph, "batch_norm: mean and variance", kept)
    found = graph.batch_norm_forward_training(
        x, mean, variance, gamma, beta, momentum=momentum, epsilon=epsilon, data_format=data_format
    )
    graph.assign(mean, found.running_mean)
    graph.assign(variance, found.running_variance)
    return found.dst


@atomic
def dropout(
    graph: DataGraph, x: LogicalTensor, probability: float, *, seed: int = 0, name: str = "dropout"
) -> LogicalTensor:
    """Dropout with other random numbers in every call: elements of x become 0, the others grow to keep the mean.

    The numbers depend on the seed and on the variable ``<name>/offset``, which counts the calls. A run that starts with
    the same variables therefore drops the same elements.

    Args:
        graph: the graph to add ops to.
        x: the tensor.
        probability: the chance of each element to become 0, from 0 up to 1.
        seed: an integer. Layers with different seeds drop different elements.
        name: of the layer, unique in the graph.

    Raises:
        ArgumentError: an argument is wrong, or the name is taken.
    """
    x = tensor_of(graph, "dropout: x", x)
    chance = number("dropout: probability", probability, 0, 1)
    label, number_of_layer = string("dropout: name", name), integer("dropout: seed", seed, 0, 2**63 - 1)
    # The library draws one number for four elements if the offset is 0.
    offset = graph.variable(f"{label}/offset", np.int64(1), dtype=DataType.s64)
    fixed = graph.constant(np.int64(number_of_layer), dtype=DataType.s64)
    found: LogicalTensor = graph.dropout(x, fixed, offset, graph.constant(np.float32(chance)), outputs=["dst"])
    emit = Emitter(graph)
    graph.assign(offset, emit.tensor(emit.op("Add", [offset, np.array(1)])))
    return found
