"""Arithmetic on 8-bit codes: a table of 256 that is looked up, and numbers, codes or both that are scaled anew.

The last input of a kernel is the table, or the numbers of ``codings.numbers_of``, which the kernel finds behind the
first element.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.dtypes import DataType
from ..codings import CODES, PLAIN, coding, numbers_of
from ..ir.step import Step
from ..ir.value import Value
from .adding import Adding
from .kernel import NOT_EMPTY, REGULAR, Kernel, of_types, refusal

EXECUTOR = "codes"  # of steps whose attribute "kernel" names the kernel


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    schedule, kernel = adding.schedule, BY_NAME[str(step.attrs["kernel"])]
    inputs = adding.at(
        [schedule.dense_copy(value) if value.irregular else value.id for value in adding.at(step.inputs)]
    )
    outputs, note = adding.at(step.outputs), schedule.note("kernel", step, *reasons)
    if not refusal(kernel.takes, (*inputs, *outputs)):  # not for empty tensors
        _add_kernel(adding, kernel, inputs, outputs, note)
    return ""


def _add_kernel(adding: Adding, kernel: Kernel, inputs: Sequence[Value], outputs: Sequence[Value], note: int) -> None:
    first = inputs[-1]._replace(shape=(1,), strides=(1,))
    adding.schedule.add_kernel(kernel.name, [*inputs[:-1], first], outputs, note)


SCALED = NOT_EMPTY, REGULAR, of_types(*CODES, DataType.f32)
LOOK_UP = Kernel("look_up", executor=EXECUTOR, takes=(NOT_EMPTY, REGULAR, of_types(*CODES)), add=_add)
RESCALE = Kernel("rescale", takes=SCALED)
KERNELS = (
    LOOK_UP,
    RESCALE,
    Kernel("add", executor=EXECUTOR, takes=SCALED, add=_add),
    Kernel("multiply", executor=EXECUTOR, takes=SCALED, add=_add),
)
BY_NAME = {kernel.name: kernel for kernel in KERNELS}


def add_rescaling(adding: Adding, step: Step) -> bool:
    """Add a Quantize or Dequantize that no fusion takes in; returns False for other steps, and adds nothing."""
    coding_ = coding(step) if step.kind in ("Quantize", "Dequantize") else None
    (source, *_), (target, *_) = adding.at(step.inputs), adding.at(step.outputs)
    if coding_ is None or refusal(RESCALE.takes, (source, target)):
        return False
    before, after = (PLAIN, coding_) if step.kind == "Quantize" else (coding_, PLAIN)
    numbers = adding.schedule.new_constant(numbers_of((before,), after, target.dtype), "numbers")
    note = adding.schedule.note("kernel", step, step.note)
    _add_kernel(adding, RESCALE, [source, adding.values[numbers]], [target], note)
    return True
