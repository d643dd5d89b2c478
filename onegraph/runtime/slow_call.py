"""Runs the calls that the quick call declines: arrays to copy, numpy steps, variables, graphs in stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.tracebacks import ends_traceback
from ..arrays.ndarrays import Held
from ..capi.thread_affinity import calling_thread
from ..errors import StateError
from ..ir.op import Array
from ..native.library import address_of
from .arguments import OutputSpec, refuse_shared
from .bound_run import refuse_elsewhere
from .interface import Interface
from .program import Program
from .program_finder import ProgramFinder
from .quick_call import decline
from .staged import Staged


@ends_traceback
def slow_call(
    interface: Interface, programs: ProgramFinder, arrays: tuple[object, ...], named: Mapping[str, object], out: object
) -> Any:
    """Run on the arrays of a call; the present values of the variables are read, and the next ones written."""
    held = interface.arguments.arrays(arrays, named, grows=True)
    if interface.state is None:
        return _run(interface, programs, held, out)
    return interface.state.step(lambda: _run(interface, programs, held, out))


def _run(interface: Interface, programs: ProgramFinder, held: Held, out: object) -> Any:
    growing, arguments = interface.growing, interface.arguments
    ends = [held.given[name] if _is_same(held, name) else held[name] for name in held]
    grown = growing.prepared(ends, grows=out is None)
    if grown is None:
        arguments.dense(held)
        caches: Sequence[Array] = ()
        room = None
    else:
        caches, room = grown
        held.update({name: array.view() for name, array in zip(held, caches, strict=True)})
    entry = programs.find({**held, **interface.present}, room)
    program, written = entry.program, arguments.written(out, held)
    if isinstance(program, Staged):
        arguments.dense(held)
        return _run_in_stages(interface, program, held, written)
    growing.refuse_over(entry.grown, written, held)
    step = None if room is None else growing.step(entry.grown, caches, written, more=1)
    # Inputs that were copied or came from another library now fit the quick call.
    results = arguments.ordered(out) if out is not None or step is None else growing.out(step)
    if not program.free_frames and entry.quick is not decline:
        program.give_back(program.check_out())
    result = entry.quick(tuple(held.values()), results)
    if result is None:
        placed = written if step is None else Held({**step.presents, **written.given})
        try:
            result = _run_program(interface, program, held, placed)
        except StateError:
            if program.owner_thread in (None, calling_thread()):
                raise
            return _run(interface, programs, held, out)  # a signal handler forked after the program was found
    if step is None:
        growing.note(result)
    else:
        step.finish()
    return result


def _is_same(held: Held, name: str) -> bool:
    """Whether an array is the one that the caller gave."""
    original = held.given[name]
    return type(original) is np.ndarray and address_of(original) == address_of(held[name])


def _run_program(interface: Interface, program: Program, held: Held, written: Held) -> Any:
    outputs = interface.outputs_of(program)
    results = interface.arguments.results(outputs, written)
    targets = {output.name: output.laid_out(results[output.name]) for output in outputs}
    frame = program.check_out()
    try:
        frame.bind(program.placement.external_arrays(held, targets))
        if interface.state is not None:
            frame.bind_variables(interface.state)
        refuse_elsewhere(program.owner_thread)  # a frame made after a fork does not know of the fork
        frame.run(targets)
    finally:
        program.give_back(frame)
    for name, array in results.items():
        if targets[name] is not array:
            array[...] = targets[name]
    return interface.value(results.given)


def _run_in_stages(interface: Interface, staged: Staged, held: Held, written: Held) -> Any:
    """Run one stage after another. Shapes in ``out`` are checked after the run, as they are unknown before."""
    refuse_shared(written, {})
    results = staged.run({**held, **interface.present})
    outputs = [
        OutputSpec(name, tensor.dtype, results[name].shape, tensor.strides)
        for name, tensor in interface.graph.outputs.items()
        if name in written or tensor.strides is not None
    ]
    targets = interface.arguments.results(outputs, written)
    if interface.state is not None:
        interface.state.give_memory()
    for name, array in (*targets.items(), *interface.following.items()):
        array[...] = results[name]
    if interface.state is not None:
        interface.state.exchange()
    all_results = {**results, **targets.given}
    return interface.value({name: all_results[name] for name in interface.names})
