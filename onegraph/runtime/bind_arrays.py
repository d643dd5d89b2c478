"""Binds arrays to the inputs and outputs of an executable, for runs without any work per tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..capi.settings import alignment_of, is_aligned
from ..errors import ArgumentError, shown
from .bound_run import BoundRun
from .cache import Cache, CacheRun
from .interface import Interface
from .program_finder import ProgramFinder
from .staged import Staged


def bind_arrays(
    interface: Interface, programs: ProgramFinder, inputs: Sequence[object], arrays: Mapping[str, object]
) -> BoundRun | CacheRun:
    """A run on these arrays; see :meth:`onegraph.runtime.executable.Executable.bind`."""
    graph, arguments, growing = interface.graph, interface.arguments, interface.growing
    names = [*graph.inputs, *graph.outputs]
    for name in arrays:
        if name not in names:
            raise ArgumentError(f"bind: unknown name {shown(name)}; the names are {', '.join(names)}")
    ins = {name: array for name, array in arrays.items() if name in graph.inputs}
    if any(isinstance(array, Cache) for array in (*inputs, *ins.values())):
        outs, named = {name: arrays[name] for name in graph.outputs if name in arrays}, arguments.given(inputs, ins)
        if growing.may_learn:  # the ops of a model are known with a program
            present = {name: array.array.copy() if isinstance(array, Cache) else array for name, array in named.items()}
            programs.find(arguments.arrays((), present))
        return CacheRun(interface, programs, named, outs)
    held = arguments.arrays(inputs, ins, copy=False, grows=True)
    grown = growing.prepared([*held.values()], grows=False)
    room = 0 if grown is None else grown[1]
    if not room:
        held = arguments.arrays(inputs, ins, copy=False)
    all_inputs = {**held, **interface.present}
    entry = programs.find(all_inputs, room)
    program = entry.program
    if isinstance(program, Staged):
        raise ArgumentError("bind: a shape or an axis in this graph depends on data; call the executable instead")
    outs = {name: array for name, array in arrays.items() if name in graph.outputs}
    outputs = interface.outputs_of(program)
    written = arguments.written(outs, held)
    growing.refuse_over(entry.grown, written, held)
    results = arguments.results(outputs, written)
    for output in outputs:
        array = results[output.name]
        if not is_aligned(array):
            where = f"output {output.name!r}: not aligned to {alignment_of(array)} bytes"
            raise ArgumentError(f"{where}; pass an array that numpy allocated")
        if output.laid_out(array) is not array:
            raise ArgumentError(f"output {output.name!r}: C-contiguous; expected strides of {output.strides} elements")
    frame = program.check_out()
    external = program.placement.external_arrays(held, results)
    frame.bind(external)
    shaping = {name: all_inputs[name] for name in programs.value_inputs}
    value = interface.value(results.given)
    return BoundRun._of(program, frame, external, results, value, programs.recover, shaping, interface.state)
