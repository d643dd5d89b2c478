"""A layer of a recurrent network of f32, LSTM, GRU or plain, over all steps."""

from __future__ import annotations

from ...errors import ArgumentError
from ...opset.dtypes import DataType
from ...opset.host.recurrence import GATES
from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of, of_types
from .native import Numbers

DIRECTIONS = {"forward": 0, "reverse": 1, "bidirectional": 2}  # bit d: direction d begins with the last step


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    cell = call.string("cell")
    return {
        "gates": GATES[cell],
        "relu": cell == "relu",
        "reset_first": cell == "reset_gru",
        "reversed": DIRECTIONS[call.string("direction")],
        "hidden": call.input("hidden") is not None,
        "cell": call.input("cell") is not None,
        "lengths": call.input("lengths") is not None,
    }


KERNELS = (
    Kernel(
        "recurrence",
        "by onegraph, all steps together",
        kinds=("Recurrence",),
        takes=(NOT_EMPTY, of_types(DataType.f32, DataType.s32)),
        numbers=_numbers,
        varies=True,
        fails=ArgumentError,  # or OutOfMemoryError
    ),
)
