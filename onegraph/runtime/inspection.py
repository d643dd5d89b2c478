"""Reports the partitions of an executable, and measures their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.validation import flag, integer
from ..arrays.mapped_files import file_of
from ..arrays.ndarrays import Held, aligned_copy
from ..capi.threads import thread_share
from ..compiler.report import PartitionReport, Report, VariableReport
from ..errors import ArgumentError, StatusError
from ..ir.op import Array, LogicalTensor
from ..native.library import HASHES_CONSTANTS, VERSION, address_of
from ..opset.shapes import known, known_dims, show
from .arguments import Arguments
from .interface import Arrays, Interface
from .kept_constants import prepared_bytes
from .program_cache import Entry
from .program_finder import ProgramFinder
from .staged import Staged

if TYPE_CHECKING:
    from .explanation import Explanation
    from .profile import Profile

MOST_RUNS = 10**6  # that are measured


def stated(runs: object, implementations: object) -> tuple[int, bool]:
    """The number of runs that a user wants measured, and whether implementations are to be named.

    Raises:
        ArgumentError: one of both is wrong.
    """
    return integer("runs", runs, 1, MOST_RUNS), flag("implementations", implementations)


def report(interface: Interface, programs: ProgramFinder, implementations: bool) -> Report:
    """The report of the program that was used last; see :meth:`onegraph.runtime.executable.Executable.report`."""
    entry, options = programs.cache.latest(), programs.options
    library, small = f"oneDNN {'.'.join(map(str, VERSION))}", programs.op_by_op
    uncompiled = () if small is None else (small.report(),)
    return Report(
        library,
        options.policy,
        options.fpmath_mode,
        uncompiled if entry is None else _partitions(programs, entry, implementations),
        "" if entry else "not compiled yet: the next call compiles, for the shapes of its arrays",
        interface.arguments.copies,
        programs.info().whole(),
        _variables(interface),
        entry.times if entry else {},
        thread_share() if entry is None or isinstance(entry.program, Staged) else entry.program.share,
        constant_memory(interface, entry),
    )


def constant_memory(interface: Interface, entry: Entry | None) -> dict[str, int]:
    """The bytes of constants, by the place where they lie; see :class:`Report`."""
    arrays = [tensor.value for tensor in interface.graph._tensors if tensor.value is not None]
    if entry is not None and not isinstance(entry.program, Staged):
        arrays += entry.program.placement.constants.values()
    bytes_by_place = {"mapped": 0, "own": 0, **({"prepared": prepared_bytes()} if HASHES_CONSTANTS else {})}
    for array in {address_of(array): array for array in arrays}.values():
        bytes_by_place["own" if file_of(array) is None else "mapped"] += array.nbytes
    return bytes_by_place


def profile(programs: ProgramFinder, inputs: Arrays, runs: int, implementations: bool) -> Profile:
    """The times of the partitions on these arrays; see :meth:`onegraph.runtime.executable.Executable.profile`."""
    from .measuring import measure

    entry, state = programs.find(inputs), programs._interface.state
    program, partitions = entry.program, _partitions(programs, entry, implementations)
    if isinstance(program, Staged):
        profile = program.profile(inputs, runs)
    else:
        results = Arguments(program.graph).results(program.placement.outputs(), Held({}))
        if state is not None:  # copies, which are updated in place as the variables are
            results.update({state.updates[name]: aligned_copy(inputs[name]) for name in program.ending.variables})
            inputs = {**inputs, **{name: results[state.updates[name]] for name in program.ending.variables}}
        external = program.placement.external_arrays(inputs, results)
        try:
            profile = measure(program, partitions, external, results, runs)
        except StatusError as error:
            raise programs.recover(error) from None
    entry.times = dict(profile)
    return profile


def explain(
    interface: Interface,
    programs: ProgramFinder,
    make: Callable[..., Any],
    arrays: Sequence[object],
    named: Mapping[str, object],
    runs: int,
    implementations: bool,
) -> Explanation:
    """What the ops and partitions cost; see :meth:`onegraph.runtime.executable.Executable.explain`.

    ``make`` makes executables of graphs, whose times are the peaks of the machine.
    """
    from .apart import edges_of
    from .explanation import explained
    from .peaks import peaks_of

    if not (arrays or named):
        named = {name: _ones(tensor) for name, tensor in interface.graph.inputs.items()}
    inputs = {**interface.arguments.arrays(arrays, named), **interface.present}
    times = profile(programs, inputs, runs, implementations)
    entry = programs.find(inputs)
    partitions, program = _partitions(programs, entry, implementations), entry.program
    graph = interface.graph._as_step() if isinstance(program, Staged) else program.whole_graph()
    peaks = peaks_of(make, [report.arithmetic for report in partitions])
    library = f"oneDNN {'.'.join(map(str, VERSION))}"
    return explained(library, graph, partitions, times, peaks, edges_of(graph, partitions, programs.options, make))


def _ones(tensor: LogicalTensor) -> Array:
    """Contents of an input for measuring."""
    if not known(tensor.shape):
        subject = f"input {tensor.name!r} has the shape {show(tensor.shape)}"
        raise ArgumentError(f"explain: {subject}; expected an array for each input, whose dims are then known")
    return np.ones(known_dims(tensor.shape), tensor.dtype.numpy)


def _variables(interface: Interface) -> tuple[VariableReport, ...]:
    assigned = interface.graph.assignments
    return tuple(
        VariableReport(name, tensor.dtype, interface.present[name].shape, name in assigned)
        for name, tensor in interface.graph.variables.items()
    )


def _partitions(programs: ProgramFinder, entry: Entry, implementations: bool) -> tuple[PartitionReport, ...]:
    program, options = entry.program, programs.options
    if isinstance(program, Staged):
        return program.reports()
    if not implementations:
        return tuple(map(replace, program.reports))
    if entry.implementations is None:
        from .implementation_names import implementation_names

        entry.implementations = implementation_names(program, options.policy, options.fpmath_mode, options.finite_math)
    names = entry.implementations
    return tuple(replace(report, implementation=names.get(report.index, "")) for report in program.reports)
