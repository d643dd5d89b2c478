"""Rows times the packed matrices that they have chosen of several, of which each is read once."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .kernel import Kernel
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    return step.attrs


PACKED_EXPERTS = Kernel(
    "packed_experts", executor="packed experts", numbers=_numbers, varies=True, fails=OutOfMemoryError
)
KERNELS = (PACKED_EXPERTS,)
