"""Runs the calls that the quick call declines: arrays to copy, numpy steps, variables, graphs in stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arrays.ndarrays import Held
from ..capi.thread_affinity import calling_thread
from ..errors import StateError
from .arguments import OutputSpec, refuse_shared
from .bound_run import refuse_elsewhere
from .interface import Interface
from .program import Program
from .program_finder import ProgramFinder
from .staged import Staged


def slow_call(
    interface: Interface, programs: ProgramFinder, arrays: tuple[object, ...], named: Mapping[str, object], out: object
) -> Any:
    """Run on the arrays of a call; the present values of the variables are read, and the next ones written."""
    given = interface.arguments.arrays(arrays, named)
    if interface.state is None:
        return _run(interface, programs, given, out)
    return interface.state.step(lambda: _run(interface, programs, given, out))


def _run(interface: Interface, programs: ProgramFinder, given: Held, out: object) -> Any:
    entry = programs.find({**given, **interface.present})
    program, written = entry.program, interface.arguments.written(out, given)
    if isinstance(program, Staged):
        return _run_in_stages(interface, program, given, written)
    # Inputs that were copied or came from another library now fit the quick call.
    result = entry.quick(tuple(given.values()), interface.arguments.ordered(out))
    if result is not None:
        return result
    try:
        return _run_program(interface, program, given, written)
    except StateError:
        if program.owner_thread in (None, calling_thread()):
            raise
        return _run(interface, programs, given, out)  # a signal handler forked after the program was found


def _run_program(interface: Interface, program: Program, given: Held, written: Held) -> Any:
    outputs = interface.outputs_of(program)
    results = interface.arguments.results(outputs, written)
    targets = {one.name: one.laid_out(results[one.name]) for one in outputs}
    frame = program.check_out()
    try:
        frame.bind(program.placement.external_arrays(given, targets))
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


def _run_in_stages(interface: Interface, staged: Staged, given: Held, written: Held) -> Any:
    """Run one stage after another. Shapes in ``out`` are checked after the run, as they are unknown before."""
    refuse_shared(written, {})
    results = staged.run({**given, **interface.present})
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
    found = {**results, **targets.given}
    return interface.value({name: found[name] for name in interface.names})
