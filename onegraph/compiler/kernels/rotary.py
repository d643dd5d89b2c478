"""Rotary embeddings of f32, f16 or bf16, which read and write memory once."""

from __future__ import annotations

from ...errors import ArgumentError
from ..ir.step import Step
from .kernel import NOT_EMPTY, OF_FLOATS, Kernel, call_of
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    flags = {name: call.flag(name) for name in ("interleaved", "whole")}
    return {**flags, "lengths": call.input("lengths") is not None}


KERNELS = (
    Kernel(
        "rotary",
        "by onegraph, in one pass",
        kinds=("Rotary",),
        takes=(NOT_EMPTY, OF_FLOATS),
        is_dense=False,
        numbers=_numbers,
        varies=True,
        fails=ArgumentError,
    ),
)
