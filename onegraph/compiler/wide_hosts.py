"""Computes host ops of 16-bit floats, and reductions that the library has not, in f32, between casts.

numpy takes 5 to 25 times as long for such floats, and the kernels of the package on arrays lack them. The numbers are
the same: host ops of 16 bits compute in f32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.op import LogicalTensor, Op
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST
from .ir.step import Step
from .schedule import Schedule

NARROW = frozenset([DataType.f16, DataType.bf16])
FLOATS = NARROW | {DataType.f32}
# Ops that compute nothing with their floats, or run what others define.
OTHERS = kinds.MOVES | kinds.OPAQUE | kinds.PER_RUN | {"Where", "OneHot"}
REASON = "numpy computes in f32 in less time"


def _computes(step: Step) -> bool:
    """Whether a host op, or a whole reduction, computes with 16-bit floats."""
    op = step.op
    is_known = op.edition == HOST or (step.whole and op.kind in kinds.REDUCTIONS)
    if not is_known or op.kind in OTHERS or op.attrs.get("reduction") == "none":
        return False
    ends = [tensor.dtype for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    return DataType.float64 not in ends and not NARROW.isdisjoint(ends)


def add_widened(schedule: Schedule, step: Step, add: Callable[[Step], None]) -> bool:
    """Add an op of 16-bit floats as one of f32, with ``add``, between casts; returns False for other steps."""
    op, new = step.op, dict[int, int]()
    if not _computes(step):
        return False
    if op.kind == "Cast" and FLOATS.issuperset([end.dtype for end in (op.inputs[0], op.outputs[0]) if end is not None]):
        schedule.cast(step.inputs, step.outputs, schedule.note("copy", step, "one cast between floats"))
        return True
    for number in step.inputs:
        if number not in schedule.wide and schedule.values[number].dtype in NARROW:
            schedule.prepare_cast(number)
    note = schedule.note("copy", step, REASON)

    def wide(tensor: LogicalTensor, *, is_source: bool) -> LogicalTensor:
        if tensor.dtype not in NARROW:
            return tensor
        if is_source and tensor.id in schedule.wide:
            new[tensor.id] = schedule.wide[tensor.id]
        if tensor.id not in new:
            value = schedule.values[tensor.id]
            constant = None if value.constant is None else value.constant.astype(DataType.f32.numpy)
            new[tensor.id] = schedule.values.new(DataType.f32, value.shape, value.name, constant)
            if is_source and constant is None:
                schedule.cast((tensor.id,), (new[tensor.id],), note)
            if is_source:
                schedule.wide[tensor.id] = new[tensor.id]
        known = None if tensor.value is None else tensor.value.astype(DataType.f32.numpy)
        return LogicalTensor(new[tensor.id], DataType.f32, tensor.shape, None, tensor.name, known)

    sources = tuple([wide(tensor, is_source=True) for tensor in op.inputs])
    results = tuple([wide(tensor, is_source=False) for tensor in op.outputs])
    inputs, outputs = (tuple([new.get(number, number) for number in ends]) for ends in (step.inputs, step.outputs))
    computed = Op(op.id, op.kind, sources, results, op.attrs, op.name, op.edition)
    add(step._replace(op=computed, inputs=inputs, outputs=outputs))
    for number in step.outputs:
        if number in new:
            schedule.cast((new[number],), (number,), note)
    return True
