"""NaN in a result that the library has computed, where an input has NaN."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.step import Step
from .adding import Adding
from .guarded import GUARD, with_reason
from .kernel import Kernel

PATCHED = {"LogSoftmaxBackward": 1}  # the input of which NaN is kept, by kind


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    source = adding.values[adding.schedule.forwards(step.inputs[PATCHED[step.kind]])]
    result = adding.values[step.outputs[0]]
    adding.schedule.add_kernel("keep_nan", [source, result], [result], with_reason(adding.schedule, GUARD))
    return ""


KERNELS = (Kernel("keep_nan", GUARD, "patched", (*PATCHED,), is_dense=False, follows=True, add=_add),)
