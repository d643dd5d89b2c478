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
        (source,) = inputs
        assert source is not None
        sizes: Sequence[Any] | None = source.shape
    else:
        arrays = [tensor.value for tensor in inputs if tensor is not None]
        known = [array.ravel().tolist()[0] for array in arrays if array is not None]
        sizes = known[::2] if len(known) == len(arrays) else None
    if sizes is None or not all(is_whole(size) and -LARGEST <= size < LARGEST for size in sizes):
        return None
    return [*sizes]


def _numbers(step: Step) -> Numbers:
    return {"is_range": int(step.op.kind == "Range"), "of": _sizes(step)}


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    if refused := refusal(WRITTEN_SIZES.takes, adding.at(step.outputs)):
        return refused
    if _sizes(step) is None:
        return "its numbers are not known before a run"
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
