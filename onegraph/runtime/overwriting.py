"""Calls that overwrite inputs: a step that changes some elements of a tensor then copies none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..capi.thread_affinity import calling_thread
from ..errors import StatusError
from ..ir.op import Array
from .executable import Executable
from .program_call import all_results
from .quick_call import quick_call


def possible_overs(model: Executable) -> dict[int, int]:
    """The outputs that the steps of an executable may write over an input, which no step reads later.

    Returns:
        The place of the input by that of the output; none if a run needs more than one call into C.
    """
    program = model._programs.only_program()
    if program is None or not program.in_c:
        return {}
    graph = program.graph
    outputs = [tensor.id for tensor in graph.outputs.values()]
    inputs = [tensor.id for tensor in graph.inputs.values()]
    pairs = program.placement.in_place.items()
    return {outputs.index(target): inputs.index(source) for target, source in pairs}


def overwriting(model: Executable, overs: Mapping[int, int]) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """A call of an executable that writes outputs over inputs.

    Args:
        model: the executable.
        overs: some of ``possible_overs``.

    Returns:
        A function of the arrays of all inputs. It returns those of all outputs; at these places, what lies in the array
        of the input is the result.
    """
    programs, program = model._programs, model._programs.only_program()
    assert program is not None
    names = [*program.graph.outputs]
    is_single = len(names) == 1
    quick = quick_call(program, None if is_single else all_results, {names[to]: source for to, source in overs.items()})

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        out = [arrays[overs[to]] if to in overs else None for to in range(len(names))]
        results_of_run: Any = None
        if quick is not None and program.owner_thread in (None, calling_thread()):
            if not program.free_frames:
                program.give_back(program.check_out())
            try:
                results_of_run = quick(tuple(arrays), out[0] if is_single else out)
            except StatusError as error:
                raise programs.recover(error) from None
        if results_of_run is not None:
            return [results_of_run] if is_single else results_of_run
        results_of_run = model(*arrays)  # in another thread, or of arrays at addresses that the library does not take
        results = [results_of_run] if is_single else [*results_of_run]
        for to, source in overs.items():
            arrays[source][...] = results[to]
        return results

    return run


__all__ = ["overwriting", "possible_overs"]
