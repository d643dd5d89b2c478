"""Codes of f32 by the range of all elements: one pass finds the range, a second one writes the codes."""

from __future__ import annotations

from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    return {"low": call.s64("low"), "high": call.s64("high"), "least": call.f32("least")}


KERNELS = (
    Kernel(
        "dynamic_quantize",
        "by onegraph, in two passes over src",
        kinds=("DynamicQuantizeLinear",),
        takes=(NOT_EMPTY,),
        numbers=_numbers,
    ),
)
