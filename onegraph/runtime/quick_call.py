"""Runs a call with one call into C, if its arrays have exactly the compiled layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..compiler.ir.value import Value
from ..native import library
from ..opset.shapes import is_dense
from .plan import plan_error
from .program import Program

QuickCall = Callable[..., Any]
NO_OVERS: Mapping[str, int] = MappingProxyType({})


def quick_call(
    program: Program, result: Callable[..., Any] | None, overs: Mapping[str, int] = NO_OVERS
) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays (``call.cpp``); None if a run needs more than one C call.

    It handles the ordinary case: numpy arrays with exactly the compiled shapes, strides and data types. For all other
    arguments it returns None and does nothing. Its second argument is None or the arrays to write into: the array of a
    single output, or a tuple or list of arrays, in which None stands for a new one.

    Args:
        program: the program for these shapes.
        result: makes the return value from several outputs; None if there is one output.
        overs: by name of output, the position of the input where whose memory it may lie.
    """
    values, direct = program.placement.values, program.placement.direct
    inputs = [values[tensor.id] for tensor in program.graph.inputs.values()]
    outputs = [values[number] for _, number in direct]
    in_order = [name for name, _ in direct] == list(program.graph.outputs)
    if not (inputs and program.in_c and program.owner_thread is None and in_order):
        return None
    ports = [tuple(map(_port, values)) for values in (inputs, outputs)]
    lies_over = tuple([overs.get(name, -1) for name, _ in direct])
    # The program does not refer to the function, so that the program is freed with its last user.
    call: QuickCall = library.quick_call(*ports, lies_over, program.free_frames, plan_error, result)
    return call


def _port(value: Value) -> tuple[np.dtype[np.generic], tuple[int, ...], tuple[int, ...]]:
    """Data type, shape, and strides in bytes; empty strides if the value is dense."""
    dtype = value.dtype.numpy
    dense = is_dense(value.shape, value.strides)
    return dtype, value.shape, () if dense else tuple([step * dtype.itemsize for step in value.strides])


def decline(arrays: tuple[object, ...], out: object = None) -> None:
    """The quick call of a program that needs more than one call into C: it always declines."""
