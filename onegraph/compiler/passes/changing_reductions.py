"""Computes sums, means and products along axes by a kernel of the package where sizes change.

The library would compile them for each size. Where its reductions are slow, they are pools and products with ones,
whose windows are as large as the axes, so that not even their ops are the same for two sizes.
"""

from __future__ import annotations

from itertools import groupby

from ...ir.op import Op
from ...opset.dtypes import DataType
from ...opset.ops.reduction import reduced_axes
from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.arrays import REDUCING
from ..kernels.kernel import call_of
from ..options import Options

CHANGING = "by onegraph: sizes change, and the library would compile the reduction for each of them"
EXTREMES = "ReduceMax", "ReduceMin"  # which have a kernel for all sizes
KINDS = frozenset(REDUCING) - {*EXTREMES}
PARTS = frozenset(["library", "view", "copy"])


def reduce_open(edit: Edit, options: Options) -> None:
    """Put one step of executor ``reference`` in the place of the steps of such an op, which a kernel then takes."""
    if not options.opens:
        return
    for _, together in groupby(edit.graph.steps, lambda step: id(step.op)):
        steps = [*together]
        if steps[0].op.kind in KINDS and _is_changed(edit, steps):
            *parts, last = steps
            for step in parts:
                edit.replace(step)
            edit.replace(last, _whole(last.op, last.id))


def _whole(op: Op, number: int) -> Step:
    """The step that is a whole op."""
    inputs, outputs = (tuple([end.id for end in ends if end is not None]) for ends in (op.inputs, op.outputs))
    return Step(number, "reference", op.kind, inputs, outputs, op, op.attrs, CHANGING)


def _is_changed(edit: Edit, steps: list[Step]) -> bool:
    """Whether the steps of an op are to be one step of the kernel."""
    op = steps[0].op
    (src, *_), (dst,) = op.inputs, op.outputs
    assert src is not None
    if {src.dtype, dst.dtype} != {DataType.f32} or not PARTS.issuperset([step.executor for step in steps]):
        return False
    inside = [number for step in steps for number in step.outputs if number != dst.id]
    read_by = {reader.id for number in inside for reader in edit.graph.consumers(number)}
    is_alone = read_by <= {step.id for step in steps} and not edit.graph.returned.intersection(inside)
    values = [edit.values[tensor.id] for tensor in (src, dst)]
    return is_alone and bool(reduced_axes(call_of(steps[0]))) and not any(0 in value.shape for value in values)
