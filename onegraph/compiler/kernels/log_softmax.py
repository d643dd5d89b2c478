"""LogSoftmax along any axis of f32, f16 or bf16, whose results near 0 have right digits, and which keeps NaN."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import DIGITS, Kernel
from .native import Numbers
from .registry import LOG_SOFTMAX


def _numbers(step: Step) -> Numbers:
    assert step.part is not None
    return {"axis": step.part.call.s64("axis") % len(step.part.types[0].shape or ())}


KERNELS = (Kernel("log_softmax", DIGITS, LOG_SOFTMAX, ("LogSoftmax",), numbers=_numbers, fails=OutOfMemoryError),)
