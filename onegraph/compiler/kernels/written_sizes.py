"""Integers that sizes decide: the numbers of a Range, and the dims of a Shape. In numpy, a program would leave C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._util.open_sizes import is_whole
from ...opset.dtypes import DataType
from ..ir.step import Step
from .adding import Adding
from .kernel import HOST_OP, NOT_EMPTY, REGULAR, Kernel, of_types, refusal
from .native import Numbers

LARGEST = 1 << 31  # C++ reads numbers below


def _sizes(step: Step) -> list[Any] | None:
    """The dims of a Shape, or the first number and the step of a Range; None if they are not known."""
    inputs = step.op.inputs
    if step.op.kind == "Shape":
        sizes: Sequence[Any] | None = None if inputs[0] is None else inputs[0].shape
    else:
        arrays = [None if tensor is None else tensor.value for tensor in inputs]
        first_and_step = [array.ravel().tolist()[0] for array in arrays[::2] if array is not None]
        sizes = None if any(array is None for array in arrays) else first_and_step
    if sizes is None or not all(is_whole(size) and -LARGEST <= size < LARGEST for size in sizes):
        return None
    return [*sizes]


def _numbers(step: Step) -> Numbers:
    return {"is_range": int(step.op.kind == "Range"), "of": _sizes(step)}


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    refused = refusal(WRITTEN_SIZES.takes, adding.at(step.outputs))
    if refused or _sizes(step) is None:
        return refused or "its numbers are not known before a run"
    return adding.plainly(WRITTEN_SIZES, step, reasons)


WRITTEN_SIZES = Kernel(
    "written_sizes",
    HOST_OP,
    kinds=("Range", "Shape"),
    takes=(NOT_EMPTY, REGULAR, of_types(DataType.s64, DataType.s32)),
    n_read=0,
    numbers=_numbers,
    add=_add,
)
KERNELS = (WRITTEN_SIZES,)
