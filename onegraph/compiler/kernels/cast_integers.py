"""Casts between f32 and integers of 8 and 32 bits, as numpy does."""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.dtypes import DataType
from ..ir.step import Step
from .adding import Adding
from .elements import ELEMENTS
from .kernel import NOT_EMPTY, Kernel, of_types

TYPES = frozenset([DataType.f32, DataType.s32, DataType.s8, DataType.u8])


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    return adding.add(ELEMENTS, step, *reasons) if adding.plainly(CAST_INTEGERS, step, reasons) else ""


CAST_INTEGERS = Kernel(
    "cast_integers",
    "by onegraph",
    kinds=("Cast",),
    takes=(NOT_EMPTY, of_types(*TYPES)),
    is_dense=False,
    add=_add,
)
KERNELS = (CAST_INTEGERS,)
