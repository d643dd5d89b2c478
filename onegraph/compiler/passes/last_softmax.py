"""Computes a SoftMax of long rows of f32 in the package's kernel, where no step of the library reads its result.

The library takes up to twice as long, and its result has to be searched for NaN. It fuses a SoftMax with the product
and the conversions behind it, as in attention, so those stay.
"""

from __future__ import annotations

from math import prod

from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.softmax import LAST_SOFTMAX, MANY, has_plain_result
from ..options import Options

LONG = 96  # elements of a row, from which on the kernel takes less time than the library


def take_last_softmax(edit: Edit, _: Options) -> None:
    """Make a step of the kernel of each such SoftMax."""
    for step in edit.graph.steps:
        if step.kind == "SoftMax" and _is_taken(step, edit):
            edit.replace(step, step._replace(executor=LAST_SOFTMAX.executor))


def _is_taken(step: Step, edit: Edit) -> bool:
    part = step.library_part
    if part is None or not has_plain_result(part.call):
        return False
    ends = [edit.values[number] for number in (*step.inputs, *step.outputs)]
    shape = ends[0].shape
    if not all(value.dtype is DataType.f32 and value.dense for value in ends):
        return False
    is_last = part.call.s64("axis") % len(shape) == len(shape) - 1
    is_large = prod(shape) >= MANY and shape[-1] >= LONG
    readers = edit.graph.consumers(step.outputs[0])
    return is_last and is_large and all(reader.library_part is None for reader in readers)
