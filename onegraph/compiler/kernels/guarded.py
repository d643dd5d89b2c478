"""Ops that the library computes wrong where an element is NaN or infinite: the kernel computes them again there."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.step import Step
from .adding import Adding
from .kernel import AGAIN, Kernel
from .max_pool import pool_numbers
from .native import Numbers

OPS = {
    "MaxPoolBackward": "max_pool_backward",
    "SoftMax": "softmax",
}


def _numbers(call: Call) -> Numbers:
    kind, rank = call.schema.kind, len(known_dims(call.shape("src")))
    of = OPS[kind]
    if kind == "SoftMax":
        is_zero = call.string("mode") == "inf_as_zero"
        return {"of": of, "axis": call.s64("axis") % rank, "zero": is_zero, "windows": ()}
    channels, windows = pool_numbers(call)
    return {"of": of, "axis": channels, "zero": 0, "windows": windows}


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    assert step.part is not None
    schedule, note = adding.schedule, adding.note_also(AGAIN)
    inputs = adding.at([schedule.forwards(number) for number in step.inputs[: 2 if "Pool" in step.kind else 1]])
    outputs = adding.at(step.outputs[:2] if step.kind == "SoftMax" else step.outputs)
    schedule.add_kernel("guarded", inputs, outputs, note, _numbers(step.part.call))
    return ""


KERNELS = (
    Kernel("guarded", AGAIN, "guarded", (*OPS,), is_dense=False, fails=OutOfMemoryError, follows=True, add=_add),
)
