"""Computes losses in f32. Their gradients are ops of the library: LogSoftmaxBackward is softmax minus labels."""

from __future__ import annotations

import numpy as np

from .._util.validation import choice, integer
from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..errors import ArgumentError
from ..ir.op import LogicalTensor
from ..lowering.elementwise import binary, filled, multiply, negative, select
from ..lowering.emitter import Emitter, Value
from ..lowering.movement import cast, unsqueeze
from ..lowering.reduction import reduce
from ..opset.dtypes import DataType
from ..opset.shapes import show
from .arguments import FLOATS, INTEGERS, expect_rank, expect_shape, tensor_of

REDUCTIONS = {"mean": "ReduceMean", "sum": "ReduceSum"}
LIMIT = 2**31


@atomic
def mean_squared_error(
    graph: DataGraph, prediction: LogicalTensor, target: LogicalTensor, *, reduction: str = "mean"
) -> LogicalTensor:
    """The squared difference of two tensors of one shape, as an f32 scalar.

    Args:
        graph: the graph to add ops to.
        prediction: f32, bf16 or f16; computed in f32.
        target: the same shape.
        reduction: ``mean`` over all elements, or ``sum``.

    Raises:
        ArgumentError: an argument is no such tensor of the graph, the shapes differ, or a rank is unknown.
    """
    prediction = tensor_of(graph, "mean_squared_error: prediction", prediction)
    target = tensor_of(graph, "mean_squared_error: target", target)
    expect_shape("mean_squared_error: target", target, prediction.shape, "as prediction has")
    expect_rank("mean_squared_error: prediction", prediction)
    expect_rank("mean_squared_error: target", target)
    kind = REDUCTIONS[choice("mean_squared_error: reduction", reduction, [*REDUCTIONS])]
    emit = Emitter(graph)
    squares = binary(emit, "SquaredDifference", *(cast(emit, one, DataType.f32) for one in (prediction, target)))
    return emit.tensor(reduce(emit, kind, squares, None, keep=False))


@atomic
def cross_entropy(
    graph: DataGraph,
    logits: LogicalTensor,
    labels: LogicalTensor,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> LogicalTensor:
    """The cross-entropy of labels and the softmax of logits, as an f32 scalar.

    It is computed from LogSoftmax, so that no exponential overflows.

    Args:
        graph: the graph to add ops to.
        logits: f32, bf16 or f16 of shape (..., classes), such as (batch, classes) or (batch, time, classes).
        labels: integers of shape (...): the class of each row of logits. Or floating-point numbers of the shape of
            logits: the probability of each class, such as one-hot labels.
        reduction: ``mean`` over the rows, or ``sum``.
        ignore_index: rows with this integer label add nothing to the loss, and do not count in the mean. Any other
            label that is no class adds nothing either, but counts.

    Raises:
        ArgumentError: an argument is no such tensor of the graph, the shapes do not fit, or the number of classes is
            unknown.
    """
    logits = tensor_of(graph, "cross_entropy: logits", logits)
    labels = tensor_of(graph, "cross_entropy: labels", labels, (*INTEGERS, *FLOATS))
    whole = labels.dtype in INTEGERS
    if not logits.shape or logits.shape[-1] is None:
        raise ArgumentError(f"cross_entropy: logits: shape {show(logits.shape)}; expected a known number of classes")
    why = "one label for each row of logits" if whole else "as logits has"
    expect_shape("cross_entropy: labels", labels, logits.shape[:-1] if whole else logits.shape, why)
    choice("cross_entropy: reduction", reduction, [*REDUCTIONS])
    if ignore_index is not None:
        ignore_index = integer("cross_entropy: ignore_index", ignore_index, -LIMIT, LIMIT - 1)
        if not whole:
            raise ArgumentError("cross_entropy: ignore_index: given; expected None, because labels are probabilities")
    emit = Emitter(graph)
    log_p = emit.op("LogSoftmax", [cast(emit, logits, DataType.f32)], {"axis": -1})
    if whole:
        places = cast(emit, labels, DataType.s64)
        parts = _chosen(emit, log_p, places, logits.shape[-1], ignore_index)
    else:
        places, parts = None, multiply(emit, log_p, cast(emit, labels, DataType.f32))
    losses = negative(emit, reduce(emit, "ReduceSum", parts, [-1], keep=False))
    if reduction == "mean" and ignore_index is not None:
        assert places is not None
        total = reduce(emit, "ReduceSum", losses, None, keep=False)
        return emit.tensor(binary(emit, "Divide", total, _count(emit, places, ignore_index)))
    return emit.tensor(reduce(emit, REDUCTIONS[reduction], losses, None, keep=False))


def _chosen(emit: Emitter, log_p: Value, labels: Value, classes: int, ignored: int | None) -> Value:
    """The element of each row of log_p at its label, and 0 where the label is no class."""
    if ignored is not None:
        labels = select(emit, binary(emit, "Equal", labels, np.array(ignored)), np.array(classes), labels)
    places = binary(emit, "Minimum", binary(emit, "Maximum", labels, np.array(0)), np.array(classes - 1))
    is_class, column = binary(emit, "Equal", places, labels), unsqueeze(emit, places, [-1])
    log_chosen = emit.op("GatherElements", [log_p, column], {"axis": -1})
    return select(emit, unsqueeze(emit, is_class, [-1]), log_chosen, filled(0, log_p))


def _count(emit: Emitter, labels: Value, ignored: int) -> Value:
    """The number of labels that are not ignored, at least 1."""
    equal = cast(emit, binary(emit, "Equal", labels, filled(ignored, labels)), DataType.f32)
    counted = binary(emit, "Subtract", filled(1, equal), equal)
    return binary(emit, "Maximum", reduce(emit, "ReduceSum", counted, None, keep=False), filled(1, equal))
