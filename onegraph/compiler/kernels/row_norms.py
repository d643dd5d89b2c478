"""RMSNorm and LayerNorm over the last axes of f32, f16 or bf16, which read and write memory once."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ..ir.step import Step
from ..rewrites.norms import layer_norm_width, rms_norm_width
from .adding import Adding
from .kernel import COMPILED_ANEW, Kernel, call_of
from .native import Numbers

WIDTHS = {"RMSNorm": rms_norm_width, "LayerNorm": layer_norm_width}


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    width = WIDTHS[call.schema.kind](call)
    assert width is not None
    return {"width": width, "epsilon": call.f32("epsilon")}


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    kind = call_of(step).schema.kind
    if WIDTHS[kind](call_of(step)) is None:
        return "it does not normalize the last axes, or an operand has another type or shape"
    return adding.plainly(BY_KIND[kind], step, reasons)


def _numbers_of_part(step: Step) -> Numbers:
    assert step.part is not None
    width = layer_norm_width(step.part.call)
    assert width is not None
    return {"width": width, "epsilon": step.part.call.f32("epsilon")}


RMS_NORM = Kernel("rms_norm", kinds=("RMSNorm",), numbers=_numbers, fails=OutOfMemoryError, add=_add)
LAYER_NORM = Kernel("layer_norm", kinds=("LayerNorm",), numbers=_numbers, fails=OutOfMemoryError, add=_add)
# In the place of the library, where sizes are open.
OPEN_LAYER_NORM = Kernel("layer_norm", COMPILED_ANEW, "layer norm", numbers=_numbers_of_part, fails=OutOfMemoryError)
KERNELS = (RMS_NORM, LAYER_NORM, OPEN_LAYER_NORM)
BY_KIND = {kernel.kinds[0]: kernel for kernel in (RMS_NORM, LAYER_NORM)}
