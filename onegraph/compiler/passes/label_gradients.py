"""Computes the gradient of a cross-entropy by the logits in the memory of the log-probabilities.

The gradient of a LogSoftmax is ``diff - exp(dst) * sum(diff)``. With labels, diff is zero but for one element of each
row, so that most of what LogSoftmaxBackward reads is zeros. A step of executor ``labels`` writes ``-exp(dst) * sum``
over dst, if nobody reads it any more, and the gradients of the labels are added there. That saves a tensor as large as
the logits.
"""

from __future__ import annotations

from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.log_softmax_gradient import EXECUTOR
from ..options import Options
from ..report import nbytes

LEAST = 1 << 22  # bytes of the gradient; fewer are not worth further steps
NOTE = "in the memory of the log-probabilities, as the gradient behind it is zero except for the labels"


def add_at_labels(edit: Edit, _: Options) -> None:
    """Compute the gradients of large LogSoftmaxes whose result is read for labels alone in place."""
    for step in edit.graph.steps:
        scatter = _scatter_of_labels(edit.graph, step)
        if scatter is not None:
            _compute_in_place(edit, step, scatter)


def _scatter_of_labels(graph: Lowered, step: Step) -> Step | None:
    """The step that scatters the gradients of labels among zeros for a LogSoftmaxBackward, and for nothing else."""
    if step.kind != "LogSoftmaxBackward" or step.executor != "library":
        return None
    diff, indices = (graph.values[number] for number in step.inputs[:2])
    scatter = graph.maker(diff.id)
    if scatter is None or scatter.op.kind != "ScatterElements" or graph.only_consumer(diff.id) is None:
        return None
    if diff.dtype is not DataType.f32 or nbytes(diff) < LEAST:
        return None
    zeros, updates = (graph.values[number] for number in (scatter.inputs[0], scatter.inputs[2]))
    axis, rank = int(step.attrs.get("axis", -1)), len(diff.shape)  # type: ignore[arg-type]
    is_label = axis % rank == rank - 1 and updates.shape == (*diff.shape[:-1], 1) and updates.dense and indices.dense
    is_along = int(scatter.op.attrs["axis"]) % rank == axis % rank  # type: ignore[arg-type]
    is_added = scatter.op.attrs.get("reduction") == "add"
    is_zero = zeros.constant is not None and not zeros.constant.any()
    return scatter if is_label and is_along and is_added and is_zero else None


def _compute_in_place(edit: Edit, step: Step, scatter: Step) -> None:
    (_, labels), (_, indices, updates) = step.inputs, scatter.inputs
    gradient = edit.values.like(labels, "gradient", strides=edit.values[labels].strides)
    inputs, old = (gradient, indices, updates), scatter.op
    ins, outs = (tuple([_tensor(edit, number) for number in ends]) for ends in (inputs, step.outputs))
    op = Op(old.id, old.kind, ins, outs, old.attrs, old.name, old.edition)
    edit.replace(scatter)
    edit.replace(
        step,
        step.instead(EXECUTOR, (labels, updates), (gradient,), note=NOTE),
        scatter._replace(inputs=inputs, outputs=step.outputs, op=op, note=NOTE),
    )


def _tensor(edit: Edit, number: int) -> LogicalTensor:
    value = edit.values[number]
    return LogicalTensor(number, value.dtype, value.shape, None, value.name)
