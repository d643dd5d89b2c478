"""Rows of a table of packed codes of 4 or 8 bits, or of f16 or bf16, as numbers: only these rows are read."""

from __future__ import annotations

from ...errors import ArgumentError
from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of
from .native import Numbers

NOTE = "by onegraph, which reads the packed rows alone"


def _numbers(step: Step) -> Numbers:
    call, depth = call_of(step), call_of(step).s64("depth")
    group = call.s64("group")
    numbers = {"coding": call.string("coding"), "group": group if group < depth else 0, "zero": call.s64("zero")}
    return {**numbers, "zeros": call.input("zps") is not None}


def _numbers_of_step(step: Step) -> Numbers:
    return step.attrs


PACKED_GATHER = Kernel(
    "packed_gather", executor="packed rows", numbers=_numbers_of_step, varies=True, fails=ArgumentError
)
KERNELS = (
    PACKED_GATHER,
    Kernel(
        "packed_gather",
        NOTE,
        kinds=("PackedGather",),
        takes=(NOT_EMPTY,),
        numbers=_numbers,
        varies=True,
        fails=ArgumentError,
    ),
)
