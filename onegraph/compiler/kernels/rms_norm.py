"""RMSNorm over the last axes of f32, f16 or bf16, which reads and writes memory once."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ..ir.step import Step
from ..rewrites.norms import rms_norm_width
from .adding import Adding
from .kernel import Kernel, call_of
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    return {"width": rms_norm_width(call) or 0, "epsilon": call.f32("epsilon")}


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    if rms_norm_width(call_of(step)) is None:
        return "it does not normalize the last axes, or an operand has another type or shape"
    return adding.plainly(RMS_NORM, step, reasons)


RMS_NORM = Kernel("rms_norm", kinds=("RMSNorm",), numbers=_numbers, fails=OutOfMemoryError, add=_add)
KERNELS = (RMS_NORM,)
