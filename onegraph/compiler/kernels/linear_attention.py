"""Linear attention of f32 over all tokens: the state of a head stays in a cache near the core."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ...opset.dtypes import DataType
from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of, of_types
from .native import Numbers


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    return {name: call.input(name) is not None for name in ("decay", "rate")}


KERNELS = (
    Kernel(
        "linear_attention",
        "by onegraph, all tokens together",
        kinds=("LinearAttention",),
        takes=(NOT_EMPTY, of_types(DataType.f32)),
        numbers=_numbers,
        fails=OutOfMemoryError,
    ),
)
