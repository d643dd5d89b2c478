"""A factor for each channel of a part of rows, a number that is added, and a ReLU behind it.

The library's kernel for a normalization by constants of a part of rows is a reference kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...opset.dtypes import DataType
from ..growing_concats import is_scaling, scaling_rows
from ..ir.step import Step
from ..ir.value import Value
from ..notes import Note
from ..shared_constants import derived
from .adding import Adding
from .kernel import NOT_EMPTY, REGULAR, Kernel, refusal

REASON = "scaled by onegraph: the library has no such kernel"


def _is_scaled(values: Sequence[Value]) -> bool:
    source, factor, shift, result = (value.dtype for value in values)
    return factor is shift is DataType.f32 and source is result and source in (DataType.f32, DataType.bf16)


TAKES = NOT_EMPTY, REGULAR, (_is_scaled, "the source is neither f32 nor bf16")
SCALE = Kernel("scale", REASON, takes=TAKES, is_dense=False, is_movement=True)
SCALE_RELU = Kernel("scale_relu", REASON, takes=TAKES, is_dense=False, is_movement=True)
KERNELS = SCALE, SCALE_RELU


def add_scaling(adding: Adding, steps: Sequence[Step]) -> bool:
    """Add a normalization by constants, and a ReLU behind it; returns False for other steps, and adds nothing."""
    first, *rest = steps
    if not is_scaling(first, adding.values) or [step.kind for step in rest] not in ([], ["ReLU"]):
        return False
    schedule, inner = adding.schedule, first.outputs[0]
    source, target = adding.values[first.inputs[0]], adding.values[steps[-1].outputs[0]]
    if source.dense or source.dtype != target.dtype or (rest and rest[0].inputs != first.outputs):
        return False
    if rest and (inner in schedule.returned or inner in schedule.viewed):
        return False
    made_from = [adding.lowered.key(value) for value in adding.at(first.inputs[1:])]
    key = derived(("scaling", first.attrs["epsilon"]), *made_from)
    rows = adding.lowered.shared.once(key, partial(scaling_rows, first, adding.values))
    vectors = adding.at([schedule.new_constant(row, first.op.name) for row in rows])
    kernel = SCALE_RELU if rest else SCALE
    if refusal(kernel.takes, (source, *vectors, target)):
        return False
    schedule.notes.append(Note("copy", steps, (kernel.reason,), [source], [target]))
    schedule.add_kernel(kernel.name, [source, *vectors], [target], len(schedule.notes) - 1)
    return True
