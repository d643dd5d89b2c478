"""Finds what a program writes for caches that grow, and whether it may write where the caches lie."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod

from ..compiler.ir.value import Value
from ..compiler.kernels.cast import CAST
from ..compiler.kernels.extend_cache import EXTEND_CACHE
from ..compiler.kernels.native import CompiledKernel
from ..compiler.steps import CompiledStep
from .growing import Grown, Growth, capacity_of, room_for
from .program import Program


def grown_outputs(program: Program, growths: Sequence[Growth]) -> tuple[Grown, ...]:
    """What a program writes for each growth."""
    if not growths:
        return ()
    plan_kept = program.known.get("kept")
    if plan_kept is None:
        plan_kept = program.known["kept"] = frozenset(_kept(program, growths))
    values, graph, memo = program.placement.values, program.graph, dict[Hashable, Grown]()
    outputs = []
    for growth in growths:
        past, present = values[graph.inputs[growth.past].id], values[graph.outputs[growth.present].id]
        tuples = past.shape, past.strides, present.shape, present.strides  # layers share them, where sizes are open
        key = growth.axis, growth in plan_kept, present.dtype, *map(id, tuples)
        if key not in memo:
            memo[key] = _grown(past, present, growth.axis, growth in plan_kept)
        outputs.append(memo[key])
    return tuple(outputs)


def _kept(program: Program, growths: Sequence[Growth]) -> list[Growth]:
    """The growths whose output the steps write only behind the input, and a copy of the input at the beginning."""
    writers, readers = dict[int, list[CompiledStep]](), dict[int, list[CompiledStep]]()
    for step in program.steps:
        for steps_by_value, pieces in (
            (readers, step.pieces[: step.n_inputs]),
            (writers, step.pieces[step.n_inputs :]),
        ):
            for piece in {*pieces}:
                steps_by_value.setdefault(piece, []).append(step)
    graph, direct, growths_kept = program.graph, dict(program.placement.direct), list[Growth]()
    resident = program.placement.residents.keys()  # what numpy reads or writes, or copies at the end
    for growth in growths:
        past, present = graph.inputs[growth.past].id, direct.get(growth.present, -1)
        if past in resident or present in resident:
            continue
        copies = [step for step in writers.get(present, ()) if _keeps(step, past, present)]
        foreign = [step for step in writers.get(present, ()) if not _keeps(step, past, present)]
        is_alone = [*map(id, readers.get(past, ()))] == [*map(id, copies)]
        if copies and all(_is_behind(step, present) for step in foreign) and (is_alone or not _replaces(copies[0])):
            growths_kept.append(growth)
    return growths_kept


def _grown(past: Value, present: Value, axis: int, is_kept: bool) -> Grown:
    """The output of a program for a growth."""
    dtype, shape, strides = present.dtype.numpy, present.shape, present.strides
    size, reach = dtype.itemsize, 1
    for dim, step in zip(shape, strides, strict=True):
        reach += (dim - 1) * step if dim else 0
    rows = capacity_of(shape, strides, axis) or room_for(shape[axis])
    is_over = is_kept and all(
        dim == 1 or stride == expected for dim, stride, expected in zip(past.shape, past.strides, strides, strict=True)
    )
    size_with_room = prod(shape[:axis]) * rows * prod(shape[axis + 1 :]) * size
    return Grown(dtype, shape, tuple([step * size for step in strides]), reach * size, size_with_room, is_over)


def _keeps(step: CompiledStep, past: int, present: int) -> bool:
    """Whether a step copies an input to the beginning of an output, which is nothing where both are one place."""
    if not isinstance(step.compiled, CompiledKernel) or step.compiled.name not in (CAST.name, EXTEND_CACHE.name):
        return False
    shifts = step.shifts or [0]  # what is added may lie anywhere, such as the values in a product with queries and keys
    return [step.pieces[0], step.pieces[-1]] == [past, present] and not shifts[0] and not shifts[-1]


def _replaces(step: CompiledStep) -> bool:
    """Whether a step that keeps an input writes in the midst of it, too, so that no other step may read the input."""
    return isinstance(step.compiled, CompiledKernel) and step.compiled.name == EXTEND_CACHE.name


def _is_behind(step: CompiledStep, present: int) -> bool:
    """Whether all that a step writes into an output lies behind its beginning."""
    shifts = step.shifts or [0] * len(step.pieces)
    ends = zip(step.pieces[step.n_inputs :], shifts[step.n_inputs :], strict=True)
    return all(shift > 0 for piece, shift in ends if piece == present)
