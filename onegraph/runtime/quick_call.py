"""Runs a call without work for each tensor in Python, if its arrays have exactly the compiled layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..builder.graph import DataGraph
from ..capi.thread_affinity import OwnerThread, calling_thread
from ..compiler.ir.value import Value
from ..ir.op import Array
from ..native import library
from ..opset.shapes import is_dense, known_dims
from .frame import Frame
from .placement import Placement
from .plan import plan_error
from .program import Program

QuickCall = Callable[..., Any]
Port = tuple[np.dtype[np.generic], tuple[int, ...], tuple[int, ...]]
NO_OVERS: Mapping[str, int] = MappingProxyType({})


def quick_call(
    program: Program, result: Callable[..., Any] | None, overs: Mapping[str, int] = NO_OVERS
) -> QuickCall | None:
    """A function that runs ``program`` on a tuple of arrays (``call.cpp``); None if it has no inputs.

    It handles the ordinary case: numpy arrays with exactly the compiled shapes, strides and data types, in a thread
    that can run the program. For all other calls it returns None and does nothing. Its second argument is None or the
    arrays to write into: that of a single output, or a tuple or list of arrays, in which None stands for a new one.

    Args:
        program: the program for these shapes.
        result: makes the return value from several outputs; None if there is one output.
        overs: by name of output, the position of the input where whose memory it may lie.
    """
    placement = program.placement
    values, direct = placement.values, dict(placement.direct)
    inputs = [values[tensor.id] for tensor in program.graph.inputs.values()]
    if not inputs:
        return None
    memo: dict[tuple[object, int, int], Port] = {}
    outputs = [
        _port(values[direct[name]], memo) if name in direct else _laid_port(dtype.numpy, shape, strides)
        for name, dtype, shape, strides in placement.outputs()
    ]
    lies_over = tuple([overs.get(name, -1) if name in direct else -1 for name in program.graph.outputs])
    parts = None if program.in_c else QuickParts(placement)
    ports = tuple([_port(value, memo) for value in inputs]), tuple(outputs)
    slots = () if parts is None else parts.slots
    # The program does not refer to the function, so that the program is freed with its last user.
    call: QuickCall = library.quick_call(*ports, lies_over, program.free_frames, plan_error, result, parts, slots)
    return call if program.owner_thread is None else _in_owner_thread(program.owner_thread, call)


def _in_owner_thread(own: OwnerThread, call: QuickCall) -> QuickCall:
    """A quick call that declines in all threads but one."""
    return lambda arrays, out=None: call(arrays, out) if own is calling_thread() else None


def staged_call(graph: DataGraph, run: Callable[[Sequence[Array]], Any]) -> QuickCall | None:
    """A function as :func:`quick_call` makes it, for a graph whose inputs have known shapes; None without inputs.

    It leaves calls with arrays to write into to others.

    Args:
        graph: the graph.
        run: the value of a call with these arrays.
    """
    inputs = [
        _laid_port(tensor.dtype.numpy, known_dims(tensor.shape), tensor.strides) for tensor in graph.inputs.values()
    ]
    if not inputs:
        return None
    call = library.quick_call(tuple(inputs), (), (), None, plan_error, None, lambda _, arrays: run(arrays), ())
    return lambda arrays, out=None: call(arrays, None) if out is None else None


class QuickParts:
    """Runs a program that needs more than one call into C, on arrays that are bound.

    Args:
        placement: where its values lie.

    Attributes:
        slots: of the inputs and outputs; 0 for an output that is copied at the end.
    """

    def __init__(self, placement: Placement) -> None:
        direct, graph = dict(placement.direct), placement.graph
        ends = [*[tensor.id for tensor in graph.inputs.values()], *map(direct.get, graph.outputs)]
        self.slots = tuple([0 if number is None else placement.slots[number] for number in ends])
        # Places of arrays that numpy reads or writes, and of those that are copied.
        self._seen = [(number, place) for place, number in enumerate(ends) if number in placement.residents]
        copied, first = dict(placement.copied), len(graph.inputs)
        self._copied = [(place, copied[name]) for place, name in enumerate(graph.outputs, first) if name not in direct]

    def __call__(self, frame: Frame, arrays: Sequence[Array]) -> None:
        """Run on the inputs and outputs in the order of the graph."""
        frame.run_on(
            {number: arrays[place] for number, place in self._seen if number is not None},
            [(arrays[place], number) for place, number in self._copied],
        )


def _port(value: Value, memo: dict[tuple[object, int, int], Port]) -> Port:
    """The port of a value; ``memo`` has those of earlier ones, whose tuples layers share where sizes are open."""
    key = value.dtype, id(value.shape), id(value.strides)
    port = memo.get(key)
    if port is None:
        port = memo[key] = _laid_port(value.dtype.numpy, value.shape, value.strides)
    return port


def _laid_port(dtype: np.dtype[np.generic], shape: tuple[int, ...], strides: Sequence[int] | None) -> Port:
    """Data type, shape, and strides in bytes; empty strides if the tensor is dense."""
    if strides is None or is_dense(shape, strides):
        return dtype, shape, ()
    return dtype, shape, tuple([step * dtype.itemsize for step in strides])


def decline(arrays: tuple[object, ...], out: object = None) -> None:
    """The quick call where there is none: it always declines."""
