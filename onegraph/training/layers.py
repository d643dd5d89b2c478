"""Adds layers: those that remember something between steps, such as BatchNorm and Dropout, and recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._util.validation import integer, number, string
from ..builder.graph import DataGraph
from ..builder.operators import is_array
from ..builder.transaction import atomic
from ..errors import ArgumentError
from ..ir.op import LogicalTensor
from ..lowering.emitter import Emitter, Value, numbers
from ..lowering.movement import reshape
from ..lowering.recurrence import layer
from ..opset.dtypes import DataType
from ..opset.host.recurrence import GATES
from ..opset.shapes import show
from ..opset.signature import Shape
from .arguments import expect_free, expect_shape, tensor_of

if TYPE_CHECKING:
    from ..builder.op_methods import Operand


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
        tensor_of(graph, f"batch_norm: {end}", tensor, [DataType.f32])
        for end, tensor in (("mean", mean), ("variance", variance))
    ]
    expect_free(graph, "batch_norm: mean and variance", kept)
    normal = graph.batch_norm_forward_training(
        x, mean, variance, gamma, beta, momentum=momentum, epsilon=epsilon, data_format=data_format
    )
    graph.assign(mean, normal.running_mean)
    graph.assign(variance, normal.running_variance)
    return normal.dst


@atomic
def dropout(
    graph: DataGraph, x: LogicalTensor, probability: float, *, seed: int | None = None, name: str = ""
) -> LogicalTensor:
    """Dropout with other random numbers in every call: elements of x become 0, the others grow to keep the mean.

    The numbers depend on the seed and on the variable ``<name>/offset``, which counts the calls. A run that starts with
    the same variables therefore drops the same elements.

    Args:
        graph: the graph to add ops to.
        x: the tensor.
        probability: the chance of each element to become 0, from 0 up to 1.
        seed: an integer; by default the number of Dropout ops that the graph has: 0 for the first. Layers with
            different seeds drop different elements.
        name: of the layer, unique in the graph; by default ``dropout``, then ``dropout_1`` and so on.

    Raises:
        ArgumentError: an argument is wrong, or the name is taken.
    """
    x = tensor_of(graph, "dropout: x", x)
    chance = number("dropout: probability", probability, 0, 1)
    layers = sum(op.kind == "Dropout" for op in graph._ops)
    number_of_layer = integer("dropout: seed", layers if seed is None else seed, 0, 2**63 - 1)
    names = (f"dropout_{further}" if further else "dropout" for further in count())
    label = string("dropout: name", name) or next(free for free in names if f"{free}/offset" not in graph._inputs)
    # The library draws one number for four elements if the offset is 0.
    offset = graph.variable(f"{label}/offset", np.int64(1), dtype=DataType.s64)
    fixed = graph.constant(np.int64(number_of_layer), dtype=DataType.s64)
    dropped: LogicalTensor = graph.dropout(x, fixed, offset, graph.constant(np.float32(chance)), outputs=["dst"])
    emit = Emitter(graph)
    graph.assign(offset, emit.tensor(emit.op("Add", [offset, np.array(1)])))
    return dropped


class Recurrent(NamedTuple):
    """What a recurrent layer returns.

    Attributes:
        states: the states of all steps (steps, batch, units).
        last: the last state (batch, units).
        last_cell: the last cell state (batch, units) of an LSTM, else None.
    """

    states: LogicalTensor
    last: LogicalTensor
    last_cell: LogicalTensor | None


@atomic
def lstm(
    graph: DataGraph,
    x: Operand,
    weights: Operand,
    recurrence: Operand,
    bias: Operand | None = None,
    *,
    state: Operand | None = None,
    cell: Operand | None = None,
) -> Recurrent:
    """A layer of an LSTM over all steps, with the weights of ``torch.nn.LSTM``.

    Args:
        graph: the graph to add ops to.
        x: f32 (steps, batch, inputs); the numbers of steps and of sequences may be unknown.
        weights: f32 (4 * units, inputs); the gates are in, forget, cell, out.
        recurrence: f32 (4 * units, units).
        bias: f32 (4 * units,), the sum of PyTorch's two; zeros by default.
        state, cell: the first states, f32 (batch, units); zeros by default. Each operand is a tensor of the graph, or
            an array, which becomes a constant.

    Raises:
        ArgumentError: a tensor is of another graph, another data type or another shape.
    """
    return _recurrent(
        graph, "lstm", x, weights, recurrence, {"bias": bias, "state_bias": None}, {"state": state, "cell": cell}
    )


@atomic
def gru(
    graph: DataGraph,
    x: Operand,
    weights: Operand,
    recurrence: Operand,
    bias: Operand | None = None,
    state_bias: Operand | None = None,
    *,
    state: Operand | None = None,
) -> Recurrent:
    """A layer of a GRU over all steps, with the weights of ``torch.nn.GRU``.

    Args:
        graph: the graph to add ops to.
        x: f32 (steps, batch, inputs); the numbers of steps and of sequences may be unknown.
        weights: f32 (3 * units, inputs); the gates are reset, update, new.
        recurrence: f32 (3 * units, units).
        bias, state_bias: f32 (3 * units,), of the inputs and of the state; zeros by default.
        state: the first state, f32 (batch, units); zeros by default. Each operand is a tensor of the graph, or an
            array, which becomes a constant.

    Raises:
        ArgumentError: a tensor is of another graph, another data type or another shape.
    """
    biases = {"bias": bias, "state_bias": state_bias}
    return _recurrent(graph, "gru", x, weights, recurrence, biases, {"state": state})


def _recurrent(
    graph: DataGraph,
    cell: str,
    x: Operand,
    weights: Operand,
    recurrence: Operand,
    biases: Mapping[str, Operand | None],
    firsts: Mapping[str, Operand | None],
) -> Recurrent:
    def f32(name: str, argument: object, shape: Shape, why: str) -> LogicalTensor:
        given = graph.constant(argument) if is_array(argument) else argument
        tensor = tensor_of(graph, f"{cell}: {name}", given, [DataType.f32])
        expect_shape(f"{cell}: {name}", tensor, shape, why)
        return tensor

    def weight(name: str, argument: object, units: int, columns: int | None) -> LogicalTensor:
        tensor = f32(name, argument, (gates * units, columns), f"as recurrence has {units} units")
        if tensor.shape is None or None in tensor.shape:
            raise ArgumentError(f"{cell}: {name}: shape {show(tensor.shape)}; expected known dims")
        return tensor

    emit, gates = Emitter(graph), GATES[cell]
    x = f32("x", x, (None, None, None), "which are steps, batch, inputs")
    recurrence = f32("recurrence", recurrence, (None, None), "which are gates * units, units")
    _, batch, inputs = x.shape or (None, None, None)
    _, units = recurrence.shape or (None, None)
    if units is None:
        raise ArgumentError(f"{cell}: recurrence: shape {show(recurrence.shape)}; expected known dims")
    if inputs is None:
        raise ArgumentError(
            f"{cell}: x: shape {show(x.shape)}; expected a known number of inputs in (steps, batch, inputs)"
        )
    parts: list[Value] = [
        weight("weights", weights, units, inputs),
        weight("recurrence", recurrence, units, units),
    ]
    if any(bias is not None for bias in biases.values()):
        zeros = np.zeros(gates * units, np.float32)
        parts += [
            zeros if bias is None else f32(name, bias, (gates * units,), f"as recurrence has {units} units")
            for name, bias in biases.items()
        ]
    begin: list[Value | None] = [None] * len(firsts)
    for place, (name, first) in enumerate(firsts.items()):
        if first is not None:
            tensor = f32(name, first, (batch, units), "which are batch, units")
            begin[place] = reshape(emit, tensor, numbers(1, -1, units))
    states, *lasts = layer(emit, cell, x, [parts], begin)
    ends = [emit.tensor(reshape(emit, last, numbers(-1, units))) for last in lasts]
    return Recurrent(emit.tensor(states), ends[0], ends[1] if cell == "lstm" else None)
