"""A layer of a recurrent network of f32, LSTM, GRU or plain, over all steps."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...errors import ArgumentError
from ...opset.dtypes import DataType
from ...opset.host.recurrence import GATES, activations_of, is_usual
from ...opset.schema import Call
from ..ir.step import Step
from .kernel import NOT_EMPTY, Kernel, call_of, of_types
from .native import Numbers

DIRECTIONS = {"forward": 0, "reverse": 1, "bidirectional": 2}  # bit d: direction d begins with the last step


def _codes(call: Call) -> Iterator[int | str]:
    """Each activation: its name, and the bits of its numbers."""
    for activation in activations_of(call):
        yield activation.name
        yield from struct.unpack("ii", struct.pack("ff", activation.alpha, activation.beta))


def _numbers(step: Step) -> Numbers:
    call = call_of(step)
    cell = call.string("cell")
    return {
        "gates": GATES[cell],
        "reset_first": cell == "reset_gru",
        "reversed": DIRECTIONS[call.string("direction")],
        "hidden": call.input("hidden") is not None,
        "cell": call.input("cell") is not None,
        "lengths": call.input("lengths") is not None,
        "clip": call.f32("clip"),
        "input_forget": call.flag("input_forget"),
        "peepholes": call.flag("peepholes"),
        "activations": () if cell != "relu" and is_usual(call) else [*_codes(call)],
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
