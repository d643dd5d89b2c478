"""Computes the gradient of a cross-entropy by the logits in the memory of the log-probabilities.

The gradient of a LogSoftmax is ``diff - exp(dst) * sum(diff)``. With labels, diff is zero but for one element of each
row, so that most of what LogSoftmaxBackward reads is zeros. A step of executor ``labels`` writes ``-exp(dst) * sum``
over dst, if nobody reads it any more, and the gradients of the labels are added there. That saves a tensor as large as
the logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST
from .lowered import Lowered, Step
from .report import nbytes

LEAST = 1 << 22  # bytes of the gradient; fewer are not worth further steps
NOTE = "in the memory of the log-probabilities, as the gradient behind it is zero except for the labels"


def add_at_labels(lowered: Lowered) -> Lowered:
    """The graph with the gradients of large LogSoftmaxes whose result is read for labels alone computed in place."""
    return _Labels(lowered).run()


class _Labels:
    def __init__(self, lowered: Lowered) -> None:
        self._lowered, self._values = lowered, dict(lowered.values)
        self._makers = {number: step for step in lowered.steps for number in step.outputs}
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}

    def run(self) -> Lowered:
        """The graph; called once."""
        found = {step.id: maker for step in self._lowered.steps if (maker := self._labels(step)) is not None}
        if not found:
            return self._lowered
        dropped, steps = {maker.id for maker in found.values()}, list[Step]()
        for step in self._lowered.steps:
            if step.id in found:
                steps += self._in_place(step, found[step.id])
            elif step.id not in dropped:
                steps.append(step)
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        return replace(self._lowered, values=self._values, steps=numbered)

    def _labels(self, step: Step) -> Step | None:
        """The step that scatters the gradients of labels among zeros for a LogSoftmaxBackward, and for nothing else."""
        if step.kind != "LogSoftmaxBackward" or step.executor != "library":
            return None
        diff, maker = self._values[step.inputs[0]], self._makers.get(step.inputs[0])
        known = self._values[step.inputs[1]]
        if maker is None or maker.op.edition != HOST or maker.op.kind != "ScatterElements" or len(maker.inputs) != 3:
            return None
        is_own = self._lowered.readers[diff.id] == 1 and diff.id not in self._returned
        if not is_own or diff.dtype is not DataType.f32 or nbytes(diff) < LEAST or not diff.dense:
            return None
        zeros, updates = (self._values[number] for number in (maker.inputs[0], maker.inputs[2]))
        axis, rank = int(step.attrs.get("axis", -1)), len(diff.shape)  # type: ignore[arg-type]
        is_label = axis % rank == rank - 1 and updates.shape == (*diff.shape[:-1], 1) and updates.dense and known.dense
        is_along = int(maker.op.attrs["axis"]) % rank == axis % rank  # type: ignore[arg-type]
        is_added = maker.op.attrs.get("reduction") == "add" and updates.dtype is DataType.f32
        if not (is_label and is_along and is_added) or zeros.constant is None or zeros.constant.any():
            return None
        return maker

    def _in_place(self, step: Step, maker: Step) -> Iterator[Step]:
        (_, known), (_, indices, updates) = step.inputs, maker.inputs
        number, value = len(self._values), self._values[known]
        self._values[number] = value._replace(id=number, name=f"{value.name} (gradient)").placed(number, value.strides)
        made = step._replace(
            executor="labels", inputs=(known, updates), outputs=(number,), attrs={}, note=NOTE, part=None
        )
        yield made._replace(whole=False)
        ends = (number, indices, updates), step.outputs
        ins, outs = (tuple(map(self._tensor, numbers)) for numbers in ends)
        old = maker.op
        op = Op(old.id, old.kind, ins, outs, old.attrs, old.name, old.edition)
        yield maker._replace(inputs=ends[0], outputs=ends[1], op=op, note=NOTE)

    def _tensor(self, number: int) -> LogicalTensor:
        value = self._values[number]
        return LogicalTensor(number, value.dtype, value.shape, None, value.name)
